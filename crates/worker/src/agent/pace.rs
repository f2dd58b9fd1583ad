//! How many jobs to claim beyond the free slots.
//!
//! Short jobs: a slot that waits for a round trip to the scheduler is idle for longer than its job ran, so
//! the next jobs should be here already. Long jobs: one that waits here could run elsewhere. So the number
//! follows from how long jobs take: as many as the slots use up within a few round trips.

/// The time for which claimed work should suffice.
const HORIZON_US: f64 = 50_000.0;
/// The weight of the newest job in the mean.
const WEIGHT: f64 = 0.2;

/// The running mean of how long jobs take.
#[derive(Debug)]
pub(super) struct Pace {
    slots: f64,
    most: u32,
    mean_us: Option<f64>,
}

impl Pace {
    pub(super) fn new(slots: u32, most: u32) -> Self {
        Self { slots: f64::from(slots), most, mean_us: None }
    }

    /// A job took this long.
    pub(super) fn record(&mut self, run_us: u64) {
        let run_us = (run_us as f64).max(1.0);
        self.mean_us = Some(match self.mean_us {
            None => run_us,
            Some(mean) => mean + WEIGHT * (run_us - mean),
        });
    }

    /// Jobs wait here for longer than they should: claim none ahead until some have ended.
    pub(super) fn stalled(&mut self) {
        self.mean_us = None;
    }

    /// How many jobs may wait here for a slot.
    pub(super) fn ahead(&self) -> u32 {
        self.mean_us.map_or(0, |mean| (self.slots * HORIZON_US / mean).min(f64::from(self.most)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_jobs_are_claimed_ahead_and_long_ones_are_not() {
        let mut pace = Pace::new(2, 256);
        assert_eq!(pace.ahead(), 0, "nothing is known yet");
        pace.record(1_000);
        assert_eq!(pace.ahead(), 100);
        for _ in 0..30 {
            pace.record(10_000_000);
        }
        assert_eq!(pace.ahead(), 0);
        for _ in 0..100 {
            pace.record(0);
        }
        assert_eq!(pace.ahead(), 256, "there is a limit");
        pace.stalled();
        assert_eq!(pace.ahead(), 0);
    }
}
