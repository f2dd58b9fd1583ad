//! What stops may waste that priority does not demand.
//!
//! Guarantees: over a long time no more is wasted than the part of the pool that the policy allows, and a day's
//! worth at the most is saved up; one stop that costs more than a day's worth is possible where all of it is
//! there, so that nothing is too large to be stopped for ever.

use std::collections::BTreeMap;

use muster_domain::{PoolAt, Span, Timestamp};

/// A day's worth of waste can be saved up.
const SAVED_UP: Span = Span::from_secs(24 * 3600);

/// What may still be wasted, as [`super::cost`] counts it. Full at first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    left: u64,
    full: u64,
    filled_at: Option<Timestamp>,
}

impl Allowance {
    /// Adds what has come since the last look, in a pool of this size.
    pub fn fill(&mut self, size: u64, per_mille: u32, now: Timestamp) {
        let rate = u128::from(size) * u128::from(per_mille);
        let over = |time: Span| u64::try_from(rate * u128::from(time.as_micros()) / 1000).unwrap_or(u64::MAX);
        self.full = over(SAVED_UP);
        let gained = self.filled_at.map_or(self.full, |before| over(now.since(before)));
        self.left = self.left.saturating_add(gained).min(self.full);
        self.filled_at = Some(now);
    }

    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The most that may be spent at once.
    pub const fn at_once(&self) -> u64 {
        if self.full > 0 && self.left == self.full { u64::MAX } else { self.left }
    }

    pub const fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
    }
}

/// What may still be wasted in each pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowances(BTreeMap<PoolAt, Allowance>);

impl Allowances {
    pub fn of(&self, pool: PoolAt) -> Allowance {
        self.0.get(&pool).copied().unwrap_or_default()
    }

    pub fn of_mut(&mut self, pool: PoolAt) -> &mut Allowance {
        self.0.entry(pool).or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3600 * 1_000_000;

    fn at(hours: u32) -> Timestamp {
        Timestamp::default() + Span::from_secs(hours * 3600)
    }

    #[test]
    fn a_day_is_saved_up_and_what_is_dearer_needs_all_of_it() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.at_once(), 0, "nobody said how large the pool is");
        allowance.fill(100, 40, at(100));
        assert_eq!((allowance.left(), allowance.at_once()), (96 * HOUR, u64::MAX));
        allowance.spend(500 * HOUR);
        assert_eq!(allowance.at_once(), 0);
        allowance.fill(100, 40, at(101));
        assert_eq!(allowance.at_once(), 4 * HOUR);
        allowance.fill(100, 40, at(999));
        assert_eq!(allowance.at_once(), u64::MAX);
        let mut none = Allowance::default();
        none.fill(100, 0, at(1));
        assert_eq!(none.at_once(), 0);
    }

    proptest! {
        #[test]
        fn no_more_is_spent_than_came(steps in prop::collection::vec((0_u32..30, 0_u64..200), 1..60)) {
            let (mut allowance, mut now, mut spent) = (Allowance::default(), 0, 0_u64);
            for (hours, cost) in steps {
                now += hours;
                allowance.fill(100, 40, at(now));
                let cost = cost * HOUR;
                if cost <= allowance.at_once() {
                    // What is dearer than a day's worth counts as a day's worth.
                    spent += cost.min(96 * HOUR);
                    allowance.spend(cost);
                }
            }
            prop_assert!(spent <= 96 * HOUR + u64::from(now) * 4 * HOUR);
        }
    }
}
