//! A role that one instance at a time plays, and the pause after a failure.
//!
//! Guarantee: a role is kept from pass to pass, so that one instance leads and not whoever happens to ask
//! first. It is asked for anew after trouble with the store and every so often, because a lock can be
//! lost without a word. Whoever leads wrongly wastes work and harms nothing.

use std::time::Duration;

use muster_domain::Timestamp;
use muster_store::{Leadership, Role};
use tokio::time::Instant;

use crate::app::App;

/// The first pause after a failed pass; it doubles up to the loop's own interval.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// How long a leadership is trusted.
const TERM: Duration = Duration::from_secs(60);
/// What a store may need to notice that a leadership was given up.
const HANDOVER: Duration = Duration::from_millis(50);

/// One role of this instance.
#[derive(Debug)]
pub(super) struct Seat {
    role: Role,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    _leadership: Leadership,
    until: Instant,
    /// The store's present life; a leadership from before an outage is none.
    listening_since: Timestamp,
}

impl Seat {
    pub(super) const fn new(role: Role) -> Self {
        Self { role, held: None }
    }

    /// Whether this instance leads for the pass that begins now.
    pub(super) async fn take(&mut self, app: &App) -> bool {
        let leads = self.keep(app).await;
        app.metrics.leads(self.role, leads);
        leads
    }

    async fn keep(&mut self, app: &App) -> bool {
        let listening_since = app.health.listening_since();
        if let Some(held) = &self.held {
            if held.until > Instant::now() && held.listening_since == listening_since {
                return true;
            }
            self.held = None;
            tokio::time::sleep(HANDOVER).await;
        }
        match app.store.lead(self.role).await {
            Ok(Some(leadership)) => {
                let until = Instant::now() + TERM;
                self.held = Some(Held { _leadership: leadership, until, listening_since });
                true
            }
            Ok(None) => {
                tracing::debug!(role = self.role.name(), "another instance leads");
                false
            }
            Err(error) => {
                app.metrics.store_error();
                tracing::warn!(%error, role = self.role.name(), "leadership could not be asked for");
                false
            }
        }
    }

    /// A pass went wrong: the leadership may have gone with the store.
    pub(super) fn give_up(&mut self, app: &App) {
        self.held = None;
        app.metrics.leads(self.role, false);
    }
}

/// Pauses that grow while passes fail.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) fn failed(&mut self, longest: Duration) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        pause.min(longest)
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
