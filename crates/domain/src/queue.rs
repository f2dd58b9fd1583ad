//! Queues as operators set them: pause, bounds, a rate of starts, and how they share with others.

use serde::{Deserialize, Serialize};

use crate::ids::QueueName;
use crate::kept_room::Unit;
use crate::queue_access::QueueAccess;
use crate::queue_tree::Terms;
use crate::resources::Resources;
use crate::time::{Span, Timestamp};

/// At most `starts` jobs start in each `per`, evenly refilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    pub starts: u32,
    pub per: Span,
}

/// Quota of a queue that waits for a unit of it, for which others stop or have stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    pub unit: Unit,
    /// Of one task.
    pub need: Resources,
    pub tasks: u32,
    /// Not preemptible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// The settings of a queue, and how much of its rate is used up. A queue that was never set has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub name: QueueName,
    #[serde(default)]
    pub paused: bool,
    /// At most this many jobs may wait.
    #[serde(default)]
    pub max_queued: Option<u64>,
    #[serde(default)]
    pub rate: Option<RateLimit>,
    /// Starts that are allowed now, in thousandths, as of `filled_at`.
    #[serde(default)]
    pub tokens_milli: u64,
    #[serde(default)]
    pub filled_at: Timestamp,
    /// Its place among other queues, its quota, and its limits on what runs.
    #[serde(default, skip_serializing_if = "Terms::is_default")]
    pub terms: Terms,
    /// The users that it names.
    #[serde(default, skip_serializing_if = "QueueAccess::is_default")]
    pub access: QueueAccess,
    /// The root of the tree that it belongs to; `None` when nothing of `terms` is set here or in its tree.
    /// Whoever starts jobs of such a queue holds the lock of this tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<QueueName>,
    /// It is about to get back what it lent: meanwhile nobody in its tree borrows, so that what others give up
    /// is not taken again before there is enough of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_back: bool,
    /// What others leave alone until those have started who wait for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promised: Vec<Promised>,
}

impl Queue {
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            paused: false,
            max_queued: None,
            rate: None,
            tokens_milli: 0,
            filled_at: Timestamp::default(),
            terms: Terms::default(),
            access: QueueAccess::default(),
            tree: None,
            takes_back: false,
            promised: Vec::new(),
        }
    }

    /// Adds what the rate has refilled since the last look.
    pub fn refill(&mut self, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        let full = u64::from(rate.starts) * 1000;
        let elapsed = now.since(self.filled_at).as_micros();
        let gained = u128::from(elapsed) * u128::from(full) / u128::from(rate.per.as_micros().max(1));
        if gained > 0 {
            self.tokens_milli =
                u64::try_from(gained).unwrap_or(full).saturating_add(self.tokens_milli).min(full);
            self.filled_at = now;
        }
    }

    /// How many jobs may start now; `None` when nothing bounds them.
    pub fn allowance(&self) -> Option<u32> {
        if self.paused {
            return Some(0);
        }
        self.rate.map(|_| u32::try_from(self.tokens_milli / 1000).unwrap_or(u32::MAX))
    }

    /// Takes the starts out of the rate.
    pub fn started(&mut self, jobs: u32) {
        self.tokens_milli = self.tokens_milli.saturating_sub(u64::from(jobs) * 1000);
    }

    /// When the next start is allowed, if the rate is used up.
    pub fn next_start(&self) -> Option<Timestamp> {
        self.starts_at(1)
    }

    /// When so many starts are allowed at once, if the rate does not allow them now.
    pub fn starts_at(&self, jobs: u32) -> Option<Timestamp> {
        let wanted = u64::from(jobs) * 1000;
        let rate = self.rate.filter(|_| self.tokens_milli < wanted)?;
        let missing = u128::from(wanted - self.tokens_milli) * u128::from(rate.per.as_micros());
        let wait = missing.div_ceil(u128::from(rate.starts.max(1)) * 1000);
        Some(self.filled_at + Span::from_micros(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limited(starts: u32, per_secs: u32) -> Queue {
        let rate = Some(RateLimit { starts, per: Span::from_secs(per_secs) });
        Queue { rate, ..Queue::new(QueueName::new("q")) }
    }

    #[test]
    fn a_full_rate_is_used_up_and_refilled() {
        let mut queue = limited(2, 10);
        let start = Timestamp::from_micros(1_000_000_000);
        queue.refill(start);
        assert_eq!(queue.allowance(), Some(2));
        queue.started(2);
        assert_eq!(queue.allowance(), Some(0));
        let next = queue.next_start().unwrap();
        assert_eq!(next, start + Span::from_secs(5));
        queue.refill(next);
        assert_eq!(queue.allowance(), Some(1));
    }

    proptest! {
        #[test]
        fn never_more_starts_than_the_rate_allows(steps in prop::collection::vec(0_u32..3000, 1..200), starts in 1_u32..5) {
            let mut queue = limited(starts, 1);
            let begin = Timestamp::from_micros(10_000_000);
            queue.filled_at = begin;
            let (mut now, mut started) = (begin, 0_u64);
            for step in steps {
                now = now + Span::from_millis(step);
                queue.refill(now);
                let allowed = queue.allowance().unwrap();
                queue.started(allowed);
                started += u64::from(allowed);
            }
            let elapsed = now.since(begin).as_secs_f64();
            prop_assert!(started as f64 <= elapsed * f64::from(starts) + f64::from(starts) + 1e-6);
        }
    }
}
