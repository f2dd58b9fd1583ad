//! The pause after a failed pass.

use std::time::Duration;

/// The first pause after a failed pass; it doubles up to the loop's own interval.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

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
