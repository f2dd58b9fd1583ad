//! Control groups: what holds an attempt to its limits, counts what it uses, and ends all of it at once.
//!
//! The agent chooses the form ([`choose`]) and the keeper makes the groups: one for each slot, which all attempts of
//! the slot use one after the other, because making a group costs more than many a short job.
//!
//! Guarantees: an attempt starts inside of its group; the next attempt of a slot starts when the group is empty; only
//! groups below the worker's own are made or touched; what a keeper that was killed has left is ended and removed by
//! whoever cleans up after it.

mod choice;
mod container_group;
mod counters;
mod cpu_bind;
mod cpu_plan;
mod doors;
mod files;
mod hierarchies;
mod leftovers;
mod slot_group;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::private_tmp::PrivateTmp;

pub use choice::{Choice, choose};
pub(crate) use container_group::ContainerGroup;
pub use cpu_bind::bind_cpus;
pub(super) use cpu_bind::{CpuBook, CpuLease};
pub(super) use doors::{Entrance, Visit, Way};
pub(crate) use leftovers::{kill_recorded, record, remove_recorded};
pub(super) use slot_group::{Measured, SlotGroup};

/// What the groups of a worker are called, before the number of its data directory.
const NAME: &str = "muster-";

/// What the worker was told to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IsolationMode {
    /// The best form that can be had.
    #[default]
    Auto,
    /// This form, or the worker does not start.
    Exactly(IsolationForm),
}

/// How attempts are isolated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationForm {
    CgroupV2,
    CgroupV1,
    #[default]
    None,
}

impl IsolationForm {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup-v2",
            Self::CgroupV1 => "cgroup-v1",
            Self::None => "none",
        }
    }
}

impl fmt::Display for IsolationForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for IsolationMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cgroup-v2" => Ok(Self::Exactly(IsolationForm::CgroupV2)),
            "cgroup-v1" => Ok(Self::Exactly(IsolationForm::CgroupV1)),
            "none" => Ok(Self::Exactly(IsolationForm::None)),
            other => Err(format!("{other:?} is none of auto, cgroup-v2, cgroup-v1 and none")),
        }
    }
}

/// What a limit of CPU cores means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuLimit {
    /// No more than so many cores, even if others are idle.
    #[default]
    Hard,
    /// A share of the machine in this proportion while cores are contended; idle cores may be used.
    Shares,
}

impl FromStr for CpuLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "hard" => Ok(Self::Hard),
            "shares" => Ok(Self::Shares),
            other => Err(format!("{other:?} is neither hard nor shares")),
        }
    }
}

/// Where the keeper makes its groups, and what holds for all attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Isolation {
    pub form: IsolationForm,
    /// One directory for all controllers in the second form, one for each hierarchy in the first.
    pub trees: Vec<Tree>,
    pub cpu_limit: CpuLimit,
    /// How many processes and threads an attempt may have.
    pub max_processes: u64,
    /// Attempts that ask for whole cores get CPUs of their own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cpu_bind: bool,
    /// By what right attempts have a `/tmp` of their own, in every form; none have when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_tmp: Option<PrivateTmp>,
}

impl Isolation {
    /// With places that no other keeper has.
    pub(super) fn of_keeper(mut self, pid: u32) -> Self {
        for tree in &mut self.trees {
            tree.path.set_extension(pid.to_string());
        }
        self
    }
}

/// A directory below which the groups of the slots are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub controllers: Vec<String>,
    pub path: PathBuf,
}

/// What one attempt may use; without bounds where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_milli: Option<u64>,
}

impl Limits {
    pub(crate) fn are_none(&self) -> bool {
        *self == Self::default()
    }
}
