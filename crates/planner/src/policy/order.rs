//! Who goes first.
//!
//! Guarantees: an order is total and does not depend on the order in which units came to the board; the
//! size of a gang never matters to `muster`.

use std::cmp::Reverse;

use muster_domain::{Span, Timestamp};

use super::name::PolicyName;
use crate::board::UnitId;

/// The place of a unit in its queue. The order of the fields is the order of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub rank: i64,
    pub submit: Timestamp,
    pub seq: u64,
    pub unit: UnitId,
}

/// What the rank of a unit depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    pub priority: i32,
    pub level: u8,
    /// It has waited for very long, and is among those that go first for it.
    pub pinned: bool,
    pub estimate: Option<Span>,
    /// All tasks together, in GPUs or thousandths of a core.
    pub size: u64,
}

/// Smaller goes first.
pub fn rank(policy: PolicyName, standing: Standing) -> i64 {
    match policy {
        PolicyName::Fifo | PolicyName::Greedy | PolicyName::Easy | PolicyName::EasySjbf => 0,
        // Among equals the more important.
        PolicyName::LargestGang => {
            let size = standing.size.min(LARGEST) as i64;
            -size << u32::BITS | importance(standing.priority)
        }
        PolicyName::Sjf | PolicyName::SjfEasy => {
            let micros = standing.estimate.map_or(u64::MAX, Span::as_micros);
            i64::try_from(micros).unwrap_or(i64::MAX)
        }
        // The more important, the smaller; then what is pinned; then the lower level.
        PolicyName::Muster => {
            let level = if standing.pinned { 0 } else { i64::from(standing.level) + 1 };
            importance(standing.priority) << RANK_BITS | level
        }
    }
}

/// The more important, the smaller; never negative.
fn importance(priority: i32) -> i64 {
    i64::from(i32::MAX) - i64::from(priority)
}

/// The rank of a unit if its priority were another.
pub(crate) fn with_priority(policy: PolicyName, rank: i64, from: i32, to: i32) -> i64 {
    match policy {
        PolicyName::Muster => rank.saturating_sub((i64::from(to) - i64::from(from)) << RANK_BITS),
        PolicyName::LargestGang => rank.saturating_sub(i64::from(to) - i64::from(from)),
        PolicyName::Fifo
        | PolicyName::Greedy
        | PolicyName::Easy
        | PolicyName::EasySjbf
        | PolicyName::Sjf
        | PolicyName::SjfEasy => rank,
    }
}

/// Bits of a rank of `muster` below the priority. The migrations that gave old rows their ranks know them.
const RANK_BITS: u32 = 8;

/// All that are larger count as equally large.
const LARGEST: u64 = 1 << 30;

/// What the heads of queues are compared by. The order of the fields is the order of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// It needs more than the quota of its queue.
    pub borrows: bool,
    pub priority: Reverse<i32>,
    /// The share of its queue once it has started, divided by the weight.
    pub share: u64,
    pub level: u8,
    pub pinned: Reverse<bool>,
    pub submit: Timestamp,
    pub seq: u64,
    pub unit: UnitId,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_standing() -> impl Strategy<Value = Standing> {
        (-3_i32..3, 0_u8..3, any::<bool>(), prop::option::of(0_u32..5), 0_u64..9).prop_map(
            |(priority, level, pinned, estimate, size)| Standing {
                priority,
                level,
                pinned,
                estimate: estimate.map(Span::from_secs),
                size,
            },
        )
    }

    proptest! {
        #[test]
        fn the_largest_is_first_and_among_equals_the_more_important(a in any_standing(), b in any_standing()) {
            let order = rank(PolicyName::LargestGang, a).cmp(&rank(PolicyName::LargestGang, b));
            prop_assert_eq!(order, (Reverse(a.size), Reverse(a.priority)).cmp(&(Reverse(b.size), Reverse(b.priority))));
        }

        #[test]
        fn another_priority_gives_the_rank_that_it_would_have_had(a in any_standing(), to in -3_i32..3) {
            for policy in [PolicyName::Muster, PolicyName::Fifo, PolicyName::Sjf, PolicyName::LargestGang] {
                let other = Standing { priority: to, ..a };
                let moved = with_priority(policy, rank(policy, a), a.priority, to);
                prop_assert_eq!(moved, rank(policy, other));
            }
        }

        #[test]
        fn muster_looks_at_priority_then_pins_then_level_and_never_at_size(a in any_standing(), b in any_standing()) {
            let order = rank(PolicyName::Muster, a).cmp(&rank(PolicyName::Muster, b));
            let key = |of: Standing| (Reverse(of.priority), !of.pinned, if of.pinned { 0 } else { of.level });
            prop_assert_eq!(order, key(a).cmp(&key(b)));
        }

        /// The running scheduler sorts by rank and number what the board compares by claims.
        #[test]
        fn ranks_order_as_claims_of_one_queue_do(a in any_standing(), b in any_standing(), seqs in (0_u64..3, 3_u64..6)) {
            let claim = |of: Standing, seq: u64| Claim {
                borrows: false,
                priority: Reverse(of.priority),
                share: 7,
                level: if of.pinned { 0 } else { of.level },
                pinned: Reverse(of.pinned),
                submit: Timestamp::default(),
                seq,
                unit: UnitId(0),
            };
            let key = |of: Standing, seq: u64| (rank(PolicyName::Muster, of), seq);
            prop_assert_eq!(key(a, seqs.0).cmp(&key(b, seqs.1)), claim(a, seqs.0).cmp(&claim(b, seqs.1)));
        }

        #[test]
        fn the_first_to_come_is_first(a in any_standing(), b in any_standing()) {
            for name in [PolicyName::Fifo, PolicyName::Greedy, PolicyName::Easy, PolicyName::EasySjbf] {
                prop_assert_eq!(rank(name, a), rank(name, b));
            }
        }

        #[test]
        fn the_shortest_is_first_and_what_is_unknown_last(a in any_standing(), b in any_standing()) {
            let order = rank(PolicyName::Sjf, a).cmp(&rank(PolicyName::Sjf, b));
            let length = |standing: Standing| (standing.estimate.is_none(), standing.estimate);
            prop_assert_eq!(order, length(a).cmp(&length(b)));
        }
    }

    #[test]
    fn the_ends_of_the_range_of_priorities_keep_their_order() {
        let of = |priority| rank(PolicyName::Muster, Standing { priority, ..Standing::default() });
        assert!(of(i32::MAX) < of(0) && of(0) < of(i32::MIN));
        assert!(of(i32::MAX) >= 0, "what was kept before there were ranks goes before all others");
        // What the migrations write for jobs of priority 0 and 7.
        assert_eq!((of(0), of(7)), (((1 << 31) - 1) << 8 | 1, ((1 << 31) - 8) << 8 | 1));
    }
}
