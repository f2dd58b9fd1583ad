//! What this instance leads, and under which terms.
//!
//! Guarantee: a term counts here no longer than its lease in the store, since the lease is measured from before it was
//! asked for. What is done under a term that another one has ended meanwhile the store refuses.

use std::time::Duration;

use muster_domain::{LeaderTerm, Role};
use muster_store::{Command, Outcome};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::app::App;
use crate::error::ApiError;

/// How long a lease lasts unless it is renewed. Another instance leads within this and a few seconds after a leader is gone.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// A term, and until when it certainly counts.
#[derive(Debug, Clone, Copy)]
struct Held {
    leader: LeaderTerm,
    until: Instant,
}

impl Held {
    fn counts(&self, role: Role) -> bool {
        self.leader.role == role && self.until > Instant::now()
    }
}

/// The roles that this instance leads.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    held: watch::Sender<Vec<Held>>,
}

impl Leadership {
    /// The term under which this instance leads `role` now.
    pub(crate) fn term(&self, role: Role) -> Option<LeaderTerm> {
        self.held.borrow().iter().find(|held| held.counts(role)).map(|held| held.leader)
    }

    /// Resolves when this instance leads `role`.
    pub(crate) async fn gained(&self, role: Role) {
        let mut held = self.held.subscribe();
        let leads = |held: &Vec<Held>| held.iter().any(|held| held.counts(role));
        if held.wait_for(leads).await.is_err() {
            // The sender lives as long as this; without it nothing is led any more.
            std::future::pending::<()>().await;
        }
    }

    /// These and no others are led until then.
    pub(crate) fn granted(&self, terms: &[LeaderTerm], until: Instant) {
        self.held.send_replace(terms.iter().map(|leader| Held { leader: *leader, until }).collect());
    }

    /// Another one leads.
    pub(crate) fn lost(&self, leader: LeaderTerm) {
        self.held.send_modify(|held| held.retain(|held| held.leader != leader));
    }
}

impl App {
    /// Applies a pass of a leader, unless another one leads by now.
    pub(crate) async fn submit_led(&self, leader: LeaderTerm, pass: Command) -> Result<Outcome, ApiError> {
        let answer = self.batcher.submit_one(pass.under(leader)).await;
        if matches!(&answer, Err(error) if error.code == "leadership_lost") {
            tracing::info!(role = leader.role.name(), term = leader.term, "another scheduler leads now");
            self.leadership.lost(leader);
            self.metrics.leads(leader.role, false);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANNER: LeaderTerm = LeaderTerm { role: Role::Planner, term: 3 };

    #[tokio::test(start_paused = true)]
    async fn a_term_counts_until_its_lease_ends_or_it_is_lost() {
        let leadership = Leadership::default();
        assert_eq!(leadership.term(Role::Planner), None);
        leadership.granted(&[PLANNER], Instant::now() + LEASE);
        assert_eq!(leadership.term(Role::Planner), Some(PLANNER));
        assert_eq!(leadership.term(Role::Reaper), None);
        tokio::time::advance(LEASE).await;
        assert_eq!(leadership.term(Role::Planner), None);
        leadership.granted(&[PLANNER], Instant::now() + LEASE);
        leadership.lost(LeaderTerm { term: 2, ..PLANNER });
        assert_eq!(leadership.term(Role::Planner), Some(PLANNER), "another term was lost");
        leadership.lost(PLANNER);
        assert_eq!(leadership.term(Role::Planner), None);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told_when_it_leads() {
        let leadership = std::sync::Arc::new(Leadership::default());
        leadership.granted(&[PLANNER], Instant::now());
        let waiting = tokio::spawn({
            let leadership = std::sync::Arc::clone(&leadership);
            async move { leadership.gained(Role::Planner).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!waiting.is_finished(), "a lease that has ended is none");
        leadership.granted(&[PLANNER], Instant::now() + LEASE);
        waiting.await.unwrap();
    }
}
