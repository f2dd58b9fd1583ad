//! The knobs of a policy by the names that they have in `muster.toml`, for whoever sets them one by one: a pool, or a
//! simulation.
//!
//! Guarantee: a value is checked as that of the flag of the same meaning is.

use std::fmt;
use std::time::Duration;

use muster_domain::Span;
use muster_planner::policy::{Policy, PolicyName};

use super::values::{any_duration, on_or_off, per_mille, policy_name};

/// A knob with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    Name(PolicyName),
    Preempt(bool),
    LeastRun(Span),
    PassFor(Span),
    FirstService(Span),
    SecondService(Span),
    PinAfter(Span),
    PinnedPerMille(u32),
    PreemptByLevel(bool),
    WastePerMille(u32),
    Restart(Span),
    Patience(Span),
}

impl Knob {
    /// All names, as under `[policy]`.
    pub const NAMES: [&'static str; 12] = [
        "name",
        "preempt",
        "least_run",
        "pass_for",
        "first_service",
        "second_service",
        "pin_after",
        "pinned_per_mille",
        "preempt_by_level",
        "waste_per_mille",
        "restart",
        "patience",
    ];

    /// Reads a knob as it is written; dashes are as good as underscores.
    pub fn read(name: &str, value: &str) -> Result<Self, String> {
        let plain = name.replace('-', "_");
        let read = match plain.as_str() {
            "name" => policy_name(value).map(Self::Name),
            "preempt" => on_or_off(value).map(Self::Preempt),
            "least_run" => span(value).map(Self::LeastRun),
            "pass_for" => span(value).map(Self::PassFor),
            "first_service" => span(value).map(Self::FirstService),
            "second_service" => span(value).map(Self::SecondService),
            "pin_after" => span(value).map(Self::PinAfter),
            "pinned_per_mille" => per_mille(value).map(Self::PinnedPerMille),
            "preempt_by_level" => on_or_off(value).map(Self::PreemptByLevel),
            "waste_per_mille" => per_mille(value).map(Self::WastePerMille),
            "restart" => span(value).map(Self::Restart),
            "patience" => span(value).map(Self::Patience),
            _ => return Err(format!("there is no setting {name:?}; there are {}", Self::NAMES.join(", "))),
        };
        read.map_err(|problem| format!("{name} is {value:?}: {problem}"))
    }

    /// The policy with this knob set.
    pub const fn set(self, policy: Policy) -> Policy {
        match self {
            Self::Name(name) => Policy { name, ..policy },
            Self::Preempt(preempt) => Policy { preempt, ..policy },
            Self::LeastRun(least_run) => Policy { least_run, ..policy },
            Self::PassFor(pass_for) => Policy { pass_for, ..policy },
            Self::FirstService(first_service) => Policy { first_service, ..policy },
            Self::SecondService(second_service) => Policy { second_service, ..policy },
            Self::PinAfter(pin_after) => Policy { pin_after, ..policy },
            Self::PinnedPerMille(pinned_per_mille) => Policy { pinned_per_mille, ..policy },
            Self::PreemptByLevel(preempt_by_level) => Policy { preempt_by_level, ..policy },
            Self::WastePerMille(waste_per_mille) => Policy { waste_per_mille, ..policy },
            Self::Restart(restart) => Policy { restart, ..policy },
            Self::Patience(patience) => Policy { patience, ..policy },
        }
    }
}

/// The name and the value, for people.
impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |span: &Span| crate::duration::uptime(Duration::from_micros(span.as_micros()));
        let word = |on: bool| if on { "on" } else { "off" };
        match self {
            Self::Name(name) => write!(f, "name {name}"),
            Self::Preempt(on) => write!(f, "preempt {}", word(*on)),
            Self::LeastRun(span) => write!(f, "least_run {}", time(span)),
            Self::PassFor(span) => write!(f, "pass_for {}", time(span)),
            Self::FirstService(span) => write!(f, "first_service {}", time(span)),
            Self::SecondService(span) => write!(f, "second_service {}", time(span)),
            Self::PinAfter(span) => write!(f, "pin_after {}", time(span)),
            Self::PinnedPerMille(part) => write!(f, "pinned_per_mille {part}"),
            Self::PreemptByLevel(on) => write!(f, "preempt_by_level {}", word(*on)),
            Self::WastePerMille(part) => write!(f, "waste_per_mille {part}"),
            Self::Restart(span) => write!(f, "restart {}", time(span)),
            Self::Patience(span) => write!(f, "patience {}", time(span)),
        }
    }
}

fn span(value: &str) -> Result<Span, String> {
    any_duration(value).map(as_span)
}

pub(super) fn as_span(time: Duration) -> Span {
    Span::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::policy::KEYS;
    use super::*;

    /// A value of each knob that is not the default.
    fn other(name: &str) -> &'static str {
        match name {
            "name" => "easy",
            "preempt" => "off",
            "preempt_by_level" => "on",
            "pinned_per_mille" | "waste_per_mille" => "7",
            _ => "7s",
        }
    }

    #[test]
    fn every_knob_of_the_file_can_be_set_and_sets_something_else() {
        let keys: BTreeSet<&str> = KEYS.into_iter().map(|(name, _)| name).collect();
        assert_eq!(keys, BTreeSet::from(Knob::NAMES));
        let usual = Policy::default();
        let mut seen = Vec::new();
        for name in Knob::NAMES {
            let set = Knob::read(&name.replace('_', "-"), other(name)).unwrap().set(usual);
            let told = Knob::read(name, other(name)).unwrap().to_string();
            assert_eq!(told, format!("{name} {}", other(name)));
            assert!(set != usual && !seen.contains(&set), "{name}");
            seen.push(set);
        }
    }

    #[test]
    fn wrong_names_and_values_are_told() {
        for name in Knob::NAMES {
            let wrong = Knob::read(name, "?").unwrap_err();
            assert!(wrong.contains(name) && wrong.contains("\"?\""), "{wrong}");
        }
        let unknown = Knob::read("ageing", "12h").unwrap_err();
        assert!(unknown.contains("\"ageing\"") && unknown.contains("pin_after"), "{unknown}");
    }
}
