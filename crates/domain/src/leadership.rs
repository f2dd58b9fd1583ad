//! Leadership: which scheduler runs a loop that only one at a time may run.
//!
//! A role is led under a lease that ends by itself unless it is renewed. Guarantee: the term of a role grows with every
//! takeover and never shrinks, so that a term says whether whoever acts under it still leads.

use std::sync::Arc;

use crate::{Rejection, Span, Timestamp};

/// A loop that one instance at a time runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Reaper,
    Planner,
    Retention,
    Webhooks,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Reaper, Self::Planner, Self::Retention, Self::Webhooks];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Reaper => "reaper",
            Self::Planner => "planner",
            Self::Retention => "retention",
            Self::Webhooks => "webhooks",
        }
    }

    /// The role of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// One stretch of leadership: what a leader acts under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaderTerm {
    pub role: Role,
    pub term: u64,
}

/// A request to lead, or to go on leading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bid {
    /// Names one life of one scheduler.
    pub holder: Arc<str>,
    pub roles: Vec<Role>,
    /// How long the lease lasts unless it is renewed; zero gives it up.
    pub lease: Span,
}

/// Who leads a role, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderLease {
    pub role: Role,
    /// Empty before the first leader.
    pub holder: String,
    pub term: u64,
    pub expires_at: Timestamp,
}

/// What a bid may do with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is the bidder's own.
    Renew,
    /// It has expired.
    TakeOver,
}

impl LeaderLease {
    /// The lease of a role that nobody has led.
    pub const fn vacant(role: Role) -> Self {
        Self { role, holder: String::new(), term: 0, expires_at: Timestamp::from_micros(0) }
    }

    /// What `bid` may do; `None` while another instance leads.
    pub fn claim(&self, bid: &Bid, now: Timestamp) -> Option<Claim> {
        if *self.holder == *bid.holder {
            return Some(Claim::Renew);
        }
        let gives_up = bid.lease == Span::default();
        (self.expires_at <= now && !gives_up).then_some(Claim::TakeOver)
    }

    /// The lease after `claim`. An expired lease that nobody has taken over keeps its term: nobody led meanwhile.
    #[must_use]
    pub fn granted(&self, claim: Claim, bid: &Bid, now: Timestamp) -> Self {
        let term = match claim {
            Claim::Renew => self.term,
            Claim::TakeOver => self.term + 1,
        };
        Self { role: self.role, holder: bid.holder.to_string(), term, expires_at: now + bid.lease }
    }

    /// Refuses what is done under another term than the current one.
    pub fn admits(&self, leader: LeaderTerm) -> Result<(), Rejection> {
        if self.role == leader.role && self.term == leader.term {
            return Ok(());
        }
        Err(Rejection::LeadershipLost { role: leader.role.name(), given: leader.term, current: self.term })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bid(holder: &str, seconds: u32) -> Bid {
        Bid { holder: holder.into(), roles: vec![Role::Planner], lease: Span::from_secs(seconds) }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn after(lease: &LeaderLease, bid: &Bid, now: Timestamp) -> Option<LeaderLease> {
        lease.claim(bid, now).map(|claim| lease.granted(claim, bid, now))
    }

    #[test]
    fn a_lease_is_renewed_by_its_holder_and_taken_over_when_it_has_expired() {
        let first = after(&LeaderLease::vacant(Role::Planner), &bid("a", 5), at(10)).unwrap();
        assert_eq!((first.term, first.expires_at), (1, at(15)));
        assert_eq!(after(&first, &bid("b", 5), at(14)), None);
        let renewed = after(&first, &bid("a", 5), at(14)).unwrap();
        assert_eq!((renewed.term, renewed.expires_at), (1, at(19)));
        let taken = after(&renewed, &bid("b", 5), at(19)).unwrap();
        assert_eq!((taken.term, taken.holder.as_str()), (2, "b"));
        assert_eq!(after(&taken, &bid("a", 5), at(20)), None);
    }

    #[test]
    fn a_lease_that_is_given_up_is_free_at_once_and_taken_by_nobody_else_that_gives_up() {
        let lease = after(&LeaderLease::vacant(Role::Planner), &bid("a", 5), at(10)).unwrap();
        let given_up = after(&lease, &bid("a", 0), at(11)).unwrap();
        assert_eq!(after(&given_up, &bid("b", 0), at(11)), None);
        assert_eq!(after(&given_up, &bid("b", 5), at(11)).unwrap().term, 2);
    }

    #[test]
    fn only_the_current_term_is_admitted() {
        let lease = LeaderLease { term: 3, ..LeaderLease::vacant(Role::Planner) };
        let term = |role, term| LeaderTerm { role, term };
        assert!(lease.admits(term(Role::Planner, 3)).is_ok());
        for other in [term(Role::Planner, 2), term(Role::Planner, 4), term(Role::Reaper, 3)] {
            assert!(matches!(lease.admits(other), Err(Rejection::LeadershipLost { current: 3, .. })));
        }
    }
}
