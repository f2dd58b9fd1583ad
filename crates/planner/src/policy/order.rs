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
    pub rank: u64,
    pub submit: Timestamp,
    pub seq: u64,
    pub unit: UnitId,
}

/// What the rank of a unit depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    pub priority: i32,
    pub level: u8,
    pub estimate: Option<Span>,
    /// All tasks together, in GPUs or thousandths of a core.
    pub size: u64,
}

/// Smaller goes first.
pub fn rank(policy: PolicyName, standing: Standing) -> u64 {
    match policy {
        PolicyName::Fifo | PolicyName::Greedy | PolicyName::Easy | PolicyName::EasySjbf => 0,
        PolicyName::LargestGang => u64::MAX - standing.size,
        PolicyName::Sjf | PolicyName::SjfEasy => {
            standing.estimate.map_or(u64::MAX, muster_domain::Span::as_micros)
        }
        // The more important, the smaller; then the lower level.
        PolicyName::Muster => {
            let importance = i64::from(i32::MAX) - i64::from(standing.priority);
            (importance as u64) << 8 | u64::from(standing.level)
        }
    }
}

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
        (-3_i32..3, 0_u8..3, prop::option::of(0_u32..5), 0_u64..9).prop_map(
            |(priority, level, estimate, size)| Standing {
                priority,
                level,
                estimate: estimate.map(Span::from_secs),
                size,
            },
        )
    }

    proptest! {
        #[test]
        fn muster_looks_at_priority_then_level_and_never_at_size(a in any_standing(), b in any_standing()) {
            let order = rank(PolicyName::Muster, a).cmp(&rank(PolicyName::Muster, b));
            prop_assert_eq!(order, (Reverse(a.priority), a.level).cmp(&(Reverse(b.priority), b.level)));
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
    }
}
