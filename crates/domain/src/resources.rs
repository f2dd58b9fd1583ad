//! Amounts of what jobs need and workers have, and the test whether a need fits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// One kind of resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Dimension {
    CpuMillis,
    MemoryMb,
    VramMb,
    Gpus,
    Counter(String),
    Slots,
    /// A worker without any other job.
    Alone,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuMillis => f.write_str("cpus"),
            Self::MemoryMb => f.write_str("memory_mb"),
            Self::VramMb => f.write_str("vram_mb"),
            Self::Gpus => f.write_str("gpus"),
            Self::Counter(name) => f.write_str(name),
            Self::Slots => f.write_str("slots"),
            Self::Alone => f.write_str("the worker for itself"),
        }
    }
}

/// Amounts by kind. Absent means zero: nothing needed, or nothing there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    #[serde(rename = "c", skip_serializing_if = "is_zero")]
    pub cpu_millis: u64,
    #[serde(rename = "m", skip_serializing_if = "is_zero")]
    pub memory_mb: u64,
    #[serde(rename = "v", skip_serializing_if = "is_zero")]
    pub vram_mb: u64,
    #[serde(rename = "g", skip_serializing_if = "is_zero")]
    pub gpus: u64,
    #[serde(rename = "n", skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What is missing of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    pub dimension: Dimension,
    pub needed: u64,
    pub available: u64,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dimension == Dimension::CpuMillis {
            let (needed, available) = (self.needed as f64 / 1e3, self.available as f64 / 1e3);
            return write!(f, "needs {needed} cpus, has {available}");
        }
        if self.dimension == Dimension::Alone {
            return write!(f, "needs {}", self.dimension);
        }
        write!(f, "needs {} {}, has {}", self.needed, self.dimension, self.available)
    }
}

impl Resources {
    pub fn is_zero(&self) -> bool {
        self.cpu_millis == 0
            && self.memory_mb == 0
            && self.vram_mb == 0
            && self.gpus == 0
            && self.counters.values().all(|amount| *amount == 0)
    }

    /// Whether `self` can be taken out of `free`, in every dimension.
    pub fn fits_in(&self, free: &Self) -> bool {
        self.cpu_millis <= free.cpu_millis
            && self.memory_mb <= free.memory_mb
            && self.vram_mb <= free.vram_mb
            && self.gpus <= free.gpus
            && self.counters.iter().all(|(name, need)| *need <= free.counter(name))
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Adds, saturating: an absurd sum stays absurdly large and never wraps to something that fits.
    pub fn add(&mut self, other: &Self) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_mb = self.memory_mb.saturating_add(other.memory_mb);
        self.vram_mb = self.vram_mb.saturating_add(other.vram_mb);
        self.gpus = self.gpus.saturating_add(other.gpus);
        for (name, amount) in &other.counters {
            let sum = self.counters.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// What is left of `self` after `used`; never below zero.
    #[must_use]
    pub fn minus(&self, used: &Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_sub(used.cpu_millis),
            memory_mb: self.memory_mb.saturating_sub(used.memory_mb),
            vram_mb: self.vram_mb.saturating_sub(used.vram_mb),
            gpus: self.gpus.saturating_sub(used.gpus),
            counters: self
                .counters
                .iter()
                .map(|(name, amount)| (name.clone(), amount.saturating_sub(used.counter(name))))
                .collect(),
        }
    }

    /// The smaller amount in every dimension.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        self.minus(&self.minus(other))
    }

    /// Every dimension in which `self` asks for more than `available`.
    pub fn shortfalls(&self, available: &Self) -> Vec<Shortfall> {
        let fixed = [
            (Dimension::CpuMillis, self.cpu_millis, available.cpu_millis),
            (Dimension::MemoryMb, self.memory_mb, available.memory_mb),
            (Dimension::VramMb, self.vram_mb, available.vram_mb),
            (Dimension::Gpus, self.gpus, available.gpus),
        ];
        let named = self
            .counters
            .iter()
            .map(|(name, need)| (Dimension::Counter(name.clone()), *need, available.counter(name)));
        fixed
            .into_iter()
            .chain(named)
            .filter(|(_, needed, available)| needed > available)
            .map(|(dimension, needed, available)| Shortfall { dimension, needed, available })
            .collect()
    }
}

/// All that a job demands of a worker. Jobs with equal requirements are interchangeable for placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requirement {
    pub resources: Resources,
    /// Tags that the worker must carry.
    pub tags: BTreeSet<String>,
    /// The worker is to run nothing else meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// Names of stored shapes are made of this, so that what most jobs do not say adds nothing to it.
impl Hash for Requirement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.resources.hash(state);
        self.tags.hash(state);
        if self.exclusive {
            state.write_u8(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(memory_mb: u64) -> Resources {
        Resources { memory_mb, ..Resources::default() }
    }

    #[test]
    fn a_need_fits_only_when_every_dimension_does() {
        let have = Resources { memory_mb: 8000, gpus: 1, ..Resources::default() };
        assert!(memory(8000).fits_in(&have));
        assert!(!memory(8001).fits_in(&have));
        let license = Resources { counters: [("matlab".to_owned(), 1)].into(), ..Resources::default() };
        assert!(!license.fits_in(&have));
        assert_eq!(license.shortfalls(&have).len(), 1);
    }

    #[test]
    fn the_least_of_two_is_in_both() {
        let (a, b) = (memory(5), Resources { gpus: 1, ..memory(3) });
        assert_eq!((a.least(&b), b.least(&a)), (memory(3), memory(3)));
    }

    #[test]
    fn sums_saturate_instead_of_wrapping() {
        let mut sum = memory(u64::MAX);
        sum.add(&memory(5));
        assert_eq!(sum.memory_mb, u64::MAX);
        assert_eq!(memory(3).minus(&memory(5)).memory_mb, 0);
    }
}
