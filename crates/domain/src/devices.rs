//! GPUs as devices: what a worker has, what a job wants of them, and what it was given.
//!
//! Guarantee: what a job was given is a fact of the job, written where the job is handed out or reserved. It
//! holds while the job holds room on its worker.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::resources::Resources;

/// One GPU of a worker, or a part of one that its driver shows as a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its number on the machine, as the driver counts.
    #[serde(rename = "i")]
    pub index: u32,
    #[serde(rename = "v")]
    pub vram_mb: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `nvidia`, `amd`, `intel` or another; unknown when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
}

/// What a job wants of the GPUs of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuNeed {
    /// So many devices for itself, each with at least this much memory.
    Whole { count: u64, vram_mb: u64 },
    /// A part of the memory of one device.
    Share { vram_mb: u64 },
}

impl Resources {
    /// What is wanted of GPUs; `None` when nothing is.
    pub const fn gpu_need(&self) -> Option<GpuNeed> {
        match (self.gpus, self.vram_mb) {
            (0, 0) => None,
            (0, vram_mb) => Some(GpuNeed::Share { vram_mb }),
            (count, vram_mb) => Some(GpuNeed::Whole { count, vram_mb }),
        }
    }

    /// The amounts of what such devices are, in place of those that were given.
    #[must_use]
    pub fn with_devices(self, devices: &[Device]) -> Self {
        if devices.is_empty() {
            return self;
        }
        let vram_mb = devices.iter().map(|device| device.vram_mb).fold(0, u64::saturating_add);
        Self { gpus: devices.len() as u64, vram_mb, ..self }
    }

    /// The same without GPUs, which are counted as devices.
    #[must_use]
    pub fn without_gpus(&self) -> Self {
        Self { gpus: 0, vram_mb: 0, ..self.clone() }
    }
}

/// The devices of its worker that a job was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grant {
    /// These are its own, in ascending order.
    #[serde(rename = "w")]
    Whole(Vec<u32>),
    #[serde(rename = "s")]
    Share {
        #[serde(rename = "i")]
        index: u32,
        #[serde(rename = "v")]
        vram_mb: u64,
    },
}

impl Grant {
    /// The devices, in ascending order.
    pub fn indices(&self) -> &[u32] {
        match self {
            Self::Whole(indices) => indices,
            Self::Share { index, .. } => std::slice::from_ref(index),
        }
    }

    /// The part of a device's memory that it is, unless the devices are its own.
    pub const fn share_mb(&self) -> Option<u64> {
        match self {
            Self::Whole(_) => None,
            Self::Share { vram_mb, .. } => Some(*vram_mb),
        }
    }

    /// Whether this is what was wanted.
    pub fn answers(&self, need: Option<GpuNeed>) -> bool {
        match (self, need) {
            (Self::Whole(indices), Some(GpuNeed::Whole { count, .. })) => {
                indices.len() as u64 == count && indices.is_sorted_by(|a, b| a < b)
            }
            (Self::Share { vram_mb, .. }, Some(GpuNeed::Share { vram_mb: wanted })) => *vram_mb == wanted,
            _ => false,
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.indices().iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        match self {
            Self::Whole(indices) if indices.len() == 1 => write!(f, "GPU {names}"),
            Self::Whole(_) => write!(f, "GPUs {names}"),
            Self::Share { vram_mb, .. } => write!(f, "{vram_mb} MB of GPU {names}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_follows_from_the_amounts() {
        let need = |gpus, vram_mb| Resources { vram_mb, gpus, ..Resources::default() }.gpu_need();
        assert_eq!(need(0, 0), None);
        assert_eq!(need(0, 5), Some(GpuNeed::Share { vram_mb: 5 }));
        assert_eq!(need(2, 0), Some(GpuNeed::Whole { count: 2, vram_mb: 0 }));
        assert_eq!(need(2, 9), Some(GpuNeed::Whole { count: 2, vram_mb: 9 }));
    }

    #[test]
    fn a_grant_answers_only_the_need_it_was_made_for() {
        let whole = |count| Some(GpuNeed::Whole { count, vram_mb: 1 });
        assert!(Grant::Whole(vec![0, 3]).answers(whole(2)));
        assert!(!Grant::Whole(vec![0, 3]).answers(whole(1)));
        assert!(!Grant::Whole(vec![3, 3]).answers(whole(2)), "one device twice");
        let share = Grant::Share { index: 1, vram_mb: 10 };
        assert!(share.answers(Some(GpuNeed::Share { vram_mb: 10 })));
        assert!(!share.answers(whole(1)) && !share.answers(None));
        assert_eq!(share.to_string(), "10 MB of GPU 1");
        assert_eq!(Grant::Whole(vec![0, 3]).to_string(), "GPUs 0, 3");
    }

    #[test]
    fn devices_say_the_amounts() {
        let devices = [0, 1].map(|index| Device { index, vram_mb: 40, ..Device::default() });
        let told = Resources { gpus: 9, vram_mb: 1, memory_mb: 7, ..Resources::default() };
        let amounts = told.clone().with_devices(&devices);
        assert_eq!((amounts.gpus, amounts.vram_mb, amounts.memory_mb), (2, 80, 7));
        assert_eq!(told.clone().with_devices(&[]), told);
    }
}
