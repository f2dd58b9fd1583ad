//! One pass under leadership, and the pause after a failure.

use std::time::{Duration, Instant};

use muster_store::{Leadership, Role};

use crate::app::App;

/// The first pause after a failed pass; it doubles up to the loop's own interval.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Leads `role` for one pass; `None` when another instance does or the store does not answer.
pub(super) async fn lead(app: &App, role: Role) -> Option<Pass<'_>> {
    match app.store.lead(role).await {
        Ok(Some(leadership)) => {
            app.metrics.leads(role, true);
            Some(Pass { app, role, started: Instant::now(), _leadership: leadership })
        }
        Ok(None) => {
            app.metrics.leads(role, false);
            tracing::debug!(role = role.name(), "another instance leads");
            None
        }
        Err(error) => {
            app.metrics.leads(role, false);
            app.metrics.store_error();
            tracing::warn!(%error, role = role.name(), "leadership could not be asked for");
            None
        }
    }
}

/// A pass under way. Its end gives the leadership up and is counted.
pub(super) struct Pass<'a> {
    app: &'a App,
    role: Role,
    started: Instant,
    _leadership: Leadership,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.app.metrics.ticked(self.role, self.started.elapsed());
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
