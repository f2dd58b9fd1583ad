//! Waiting longer after each failure, never in step with others.

use std::time::Duration;

/// A growing wait with jitter.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// Whether nothing has failed since the last success.
    pub(crate) fn is_fresh(&self) -> bool {
        self.next == self.first
    }

    /// The time to wait after another failure: between half and the whole of a wait that doubles each time.
    pub(crate) fn fail(&mut self) -> Duration {
        let whole = self.next;
        self.next = (self.next * 2).min(self.most);
        whole.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Things work again.
    pub(crate) fn succeed(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<_> = (0..8).map(|_| backoff.fail()).collect();
        assert!(waits[0] >= Duration::from_millis(50) && waits[0] <= Duration::from_millis(100));
        assert!(waits[7] >= Duration::from_millis(500) && waits[7] <= Duration::from_secs(1));
        assert!(!backoff.is_fresh());
        backoff.succeed();
        assert!(backoff.is_fresh());
    }
}
