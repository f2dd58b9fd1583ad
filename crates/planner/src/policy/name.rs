//! The names of the policies, as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How waiting work is ordered and what may pass what. All but `Muster` are there to compare with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// In the order of submission; what does not fit holds up all others.
    Fifo,
    /// In the order of submission; what does not fit is passed by all that do.
    Greedy,
    /// The largest first; what does not fit is passed by all that do.
    LargestGang,
    /// The shortest estimate first; what does not fit holds up all others.
    Sjf,
    /// The shortest estimate first; others pass when they do not delay the first that does not fit.
    SjfEasy,
    /// In the order of submission; others pass when they do not delay the first that does not fit.
    Easy,
    /// As `Easy`, and the shortest pass first.
    EasySjbf,
    /// Quotas, priorities, shares and attained service; reservations, ageing and preemption.
    #[default]
    Muster,
}

impl PolicyName {
    pub const ALL: [Self; 8] = [
        Self::Fifo,
        Self::Greedy,
        Self::LargestGang,
        Self::Sjf,
        Self::SjfEasy,
        Self::Easy,
        Self::EasySjbf,
        Self::Muster,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Greedy => "greedy",
            Self::LargestGang => "largest-gang",
            Self::Sjf => "sjf",
            Self::SjfEasy => "sjf-easy",
            Self::Easy => "easy",
            Self::EasySjbf => "easy-sjbf",
            Self::Muster => "muster",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "there is no policy {0:?}; there are fifo, greedy, largest-gang, sjf, sjf-easy, easy, easy-sjbf and muster"
)]
pub struct UnknownPolicy(pub String);

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|name| name.as_str() == text);
        named.ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_the_mistake_lists_all() {
        for name in PolicyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
            assert!(UnknownPolicy(String::new()).to_string().contains(name.as_str()));
        }
        assert_eq!("eazy".parse::<PolicyName>(), Err(UnknownPolicy("eazy".to_owned())));
    }
}
