//! Who may pass the first unit that does not fit.
//!
//! Guarantees: nobody who may pass delays that unit beyond the time that was promised to it, as long as
//! estimates hold.

use muster_domain::{Span, Timestamp};

use super::name::PolicyName;

/// What happens behind a unit that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// All wait for it.
    Nobody,
    /// All that fit may start.
    Everybody,
    /// Those that do not delay it, in their order.
    InOrder,
    /// Those that do not delay it, the shortest first.
    ShortestFirst,
}

impl Passing {
    pub fn of(policy: PolicyName) -> Self {
        match policy {
            PolicyName::Fifo | PolicyName::Sjf => Self::Nobody,
            PolicyName::Greedy | PolicyName::LargestGang => Self::Everybody,
            PolicyName::Easy | PolicyName::SjfEasy => Self::InOrder,
            PolicyName::EasySjbf | PolicyName::Muster => Self::ShortestFirst,
        }
    }
}

/// Where one stands among those that go behind the holder of room, before their ranks count: the shortest may
/// come first, and those of unknown length last.
pub fn turn_in_passing(passing: Passing, ends: Option<Timestamp>) -> Timestamp {
    match passing {
        Passing::ShortestFirst => ends.unwrap_or(Timestamp::from_micros(i64::MAX)),
        Passing::Nobody | Passing::Everybody | Passing::InOrder => Timestamp::default(),
    }
}

/// The longest that something may run from now on and still be gone when the holder starts. What ends at
/// that very moment is gone by then.
pub fn slack(now: Timestamp, start: Option<Timestamp>) -> Span {
    start.map_or(Span::ZERO, |start| start.since(now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_fits_into_the_slack_has_ended_in_time(now in 0_u32..50, start in 0_u32..50, length in 1_u32..50) {
            let at = |secs| Timestamp::default() + Span::from_secs(secs);
            let fits = Span::from_secs(length) <= slack(at(now), Some(at(start)));
            prop_assert_eq!(fits, now + length <= start);
        }
    }

    #[test]
    fn those_behind_are_sorted_by_length_only_where_the_policy_says_so() {
        let at = |secs| Some(Timestamp::default() + Span::from_secs(secs));
        let turn = |ends| turn_in_passing(Passing::ShortestFirst, ends);
        assert!(turn(at(1)) < turn(at(2)) && turn(at(2)) < turn(None));
        let in_order = |ends| turn_in_passing(Passing::InOrder, ends);
        assert_eq!(in_order(at(1)), in_order(None));
    }

    #[test]
    fn nothing_is_short_enough_when_the_start_is_unknown() {
        assert_eq!(slack(Timestamp::default(), None), Span::ZERO);
    }
}
