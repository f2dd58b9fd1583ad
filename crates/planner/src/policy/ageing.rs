//! Ageing: who has waited for longer than a bound, and for longer than it has run, is pinned. It goes first and
//! is not stopped for reasons of level, until it has run for as long as it waited.
//!
//! Guarantees: pinned work never holds more than its part of the pool, since a pool that is overloaded would
//! otherwise do nothing but what is old; but one may always be, so that no gang is too large to be helped.

use muster_domain::{Span, Timestamp};

use super::settings::Policy;

impl Policy {
    /// When something that waits since `since`, and had waited before, has waited for very long: longer than
    /// a bound, and longer than it has run.
    pub fn aged_at(&self, since: Timestamp, waited: Span, ran: Span) -> Timestamp {
        let bound = self.pin_after.max(ran).as_micros();
        since + Span::from_micros(bound.saturating_sub(waited.as_micros()))
    }

    /// When something that runs since `since`, and had run and waited before, has run for as long as it waited:
    /// it is no longer among those that have waited for very long.
    pub fn unpinned_at(&self, since: Timestamp, waited: Span, ran: Span) -> Timestamp {
        since + Span::from_micros(waited.as_micros().saturating_sub(ran.as_micros()))
    }

    /// Whether so much more may be pinned in a pool of this size; the first may be of any size.
    pub fn may_pin(&self, pinned: u64, more: u64, total: u64) -> bool {
        let part = u128::from(total) * u128::from(self.pinned_per_mille);
        pinned == 0 || (u128::from(pinned) + u128::from(more)) * 1000 <= part
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_day_is_long_unless_it_has_run_for_longer() {
        let policy = Policy::default();
        let hours = |hours: u32| Span::from_secs(hours * 3600);
        let now = Timestamp::default() + hours(100);
        assert_eq!(policy.aged_at(now, Span::ZERO, Span::ZERO), now + hours(24));
        assert_eq!(policy.aged_at(now, hours(20), hours(3)), now + hours(4));
        assert_eq!(policy.aged_at(now, hours(20), hours(50)), now + hours(30));
        assert_eq!(policy.aged_at(now, hours(60), hours(50)), now);
        assert_eq!(policy.unpinned_at(now, hours(60), hours(50)), now + hours(10));
    }

    proptest! {
        #[test]
        fn what_is_pinned_never_exceeds_its_part_unless_it_is_one_alone(sizes in prop::collection::vec(1_u64..40, 0..50), total in 1_u64..900) {
            let policy = Policy::default();
            let mut pinned = 0;
            for size in sizes {
                if policy.may_pin(pinned, size, total) {
                    prop_assert!(pinned == 0 || (pinned + size) * 10 <= total);
                    pinned += size;
                }
            }
        }
    }
}
