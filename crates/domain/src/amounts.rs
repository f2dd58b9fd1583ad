//! Amounts of some kinds of resources, where a kind that is not named differs from one that is zero: a quota
//! that says nothing of GPUs does not bound them, one of no GPUs does.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::resources::{Dimension, Resources};

/// Amounts by kind. Stored as a list of pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Dimension, u64)>", into = "Vec<(Dimension, u64)>")]
pub struct Amounts(BTreeMap<Dimension, u64>);

impl From<Vec<(Dimension, u64)>> for Amounts {
    fn from(pairs: Vec<(Dimension, u64)>) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl From<Amounts> for Vec<(Dimension, u64)> {
    fn from(amounts: Amounts) -> Self {
        amounts.0.into_iter().collect()
    }
}

impl FromIterator<(Dimension, u64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (Dimension, u64)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Amounts {
    /// The amount of a kind, if it is named.
    pub fn get(&self, dimension: &Dimension) -> Option<u64> {
        self.0.get(dimension).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Dimension, u64)> {
        self.0.iter().map(|(dimension, amount)| (dimension, *amount))
    }
}

/// An amount as people write it: cores rather than thousandths of them.
#[derive(Debug, Clone, Copy)]
pub struct Quantity<'d>(pub &'d Dimension, pub u64);

impl fmt::Display for Quantity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Dimension::CpuMillis => write!(f, "{}", self.1 as f64 / 1e3),
            _ => write!(f, "{}", self.1),
        }
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (dimension, amount)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{dimension}={}", Quantity(dimension, amount))?;
        }
        Ok(())
    }
}

impl Resources {
    /// How much of one kind; slots are none.
    pub fn get(&self, dimension: &Dimension) -> u64 {
        match dimension {
            Dimension::CpuMillis => self.cpu_millis,
            Dimension::MemoryMb => self.memory_mb,
            Dimension::VramMb => self.vram_mb,
            Dimension::Gpus => self.gpus,
            Dimension::Counter(name) => self.counter(name),
            Dimension::Slots | Dimension::Alone => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_a_kind_is_not_the_same_as_nothing_said() {
        let none: Amounts = [(Dimension::Gpus, 0), (Dimension::CpuMillis, 1500)].into_iter().collect();
        assert_eq!((none.get(&Dimension::Gpus), none.get(&Dimension::MemoryMb)), (Some(0), None));
        assert_eq!(none.to_string(), "cpus=1.5,gpus=0");
        let stored: Vec<(Dimension, u64)> = none.clone().into();
        assert_eq!(Amounts::from(stored), none);
    }
}
