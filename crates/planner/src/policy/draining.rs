//! When nodes are emptied for a unit whose start nobody can foresee.
//!
//! Nodes that are emptied do nothing until the last of what runs there has ended. How long that takes nobody knows; what has
//! been there for long will, as a rule, be there for about as long again. And where everything waits for long, who waits has not
//! been passed over. So others may pass for a multiple of the time since what runs came, and longer for a unit that takes
//! more of the pool.
//!
//! Guarantees: a pool of long jobs, or one with more work than it can do, is not emptied over and over; where work comes and goes,
//! nobody is passed for ever.

use muster_domain::{Span, Timestamp};

use super::settings::Policy;

/// Others may pass for so many times the mean age of what runs.
const AGES: u64 = 12;

/// What runs in a pool, by how much it holds and since when it could have run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    held: u128,
    age: u128,
}

impl Ages {
    /// Counts something that holds so much and was ready then.
    pub fn add(&mut self, held: u64, ready: Timestamp, now: Timestamp) {
        self.held += u128::from(held);
        self.age = self.age.saturating_add(u128::from(held) * u128::from(now.since(ready).as_micros()));
    }

    /// The mean, each weighed by what it holds; nothing when nothing runs.
    pub fn mean(&self) -> Span {
        Span::from_micros(u64::try_from(self.age / self.held.max(1)).unwrap_or(u64::MAX))
    }
}

impl Policy {
    /// How long others may pass a unit of this size, in a pool of this size, where no end times are known. A unit that is
    /// larger than the part of the pool for pinned work is passed for longer in proportion.
    pub fn passed_for(&self, size: u64, total: u64, ages: &Ages) -> Span {
        let usual = self.pass_for.as_micros().max(ages.mean().as_micros().saturating_mul(AGES));
        let part = u128::from(total) * u128::from(self.pinned_per_mille);
        // Where nothing may be pinned, size cannot be compared with it.
        let longer = match part {
            0 => 0,
            part => u128::from(usual).saturating_mul(u128::from(size)).saturating_mul(1000) / part,
        };
        let micros = longer.max(u128::from(usual));
        Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u32) -> Span {
        Span::from_secs(minutes * 60)
    }

    fn ages(ran: &[u32]) -> Ages {
        let now = Timestamp::default() + minutes(100_000);
        let mut ages = Ages::default();
        for ran in ran {
            ages.add(8, Timestamp::default() + minutes(100_000 - ran), now);
        }
        ages
    }

    #[test]
    fn the_older_what_runs_the_longer_others_may_pass() {
        let policy = Policy::default();
        let passed = |size, ran: &[u32]| policy.passed_for(size, 120, &ages(ran));
        assert_eq!(passed(8, &[]), minutes(10), "nothing runs that could take long");
        assert_eq!(passed(8, &[0, 1]), minutes(10));
        assert_eq!(passed(8, &[60, 120]), minutes(12 * 90));
        assert_eq!(passed(12, &[60]), minutes(720), "a tenth of the pool");
        assert_eq!(passed(24, &[60]), minutes(1440), "two tenths");
    }

    #[test]
    fn amounts_weigh_and_extremes_do_no_harm() {
        let now = Timestamp::default() + minutes(60);
        let mut ages = Ages::default();
        ages.add(3, Timestamp::default(), now);
        ages.add(1, now, now);
        assert_eq!(ages.mean(), minutes(45));
        let none = Policy { pinned_per_mille: 0, ..Policy::default() };
        assert_eq!(none.passed_for(64, 120, &ages), minutes(45 * 12));
        let far = Policy { pass_for: Span::from_micros(u64::MAX), ..Policy::default() };
        assert_eq!(far.passed_for(u64::MAX, 1, &ages), Span::from_micros(u64::MAX));
    }
}
