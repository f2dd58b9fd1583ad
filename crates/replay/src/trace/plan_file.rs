//! The file of a plan, exactly as it can be written.

use serde::Deserialize;

use crate::written::Written;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    pub(super) queues: Vec<QueueClass>,
}

/// Queues that are alike, each with the same jobs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueClass {
    pub(super) name: String,
    #[serde(default = "one")]
    pub(super) count: u32,
    pub(super) jobs: Vec<JobClass>,
}

/// Jobs that are alike and come one after the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobClass {
    #[serde(default)]
    pub(super) class: Option<String>,
    #[serde(default = "one")]
    pub(super) count: u32,
    /// Between two of them.
    #[serde(default)]
    pub(super) every: Option<Written>,
    /// When the first one comes.
    #[serde(default)]
    pub(super) start: Option<Written>,
    /// Whether the gaps are always the same or left to chance.
    #[serde(default)]
    pub(super) arrivals: Arrivals,
    pub(super) run: Range,
    #[serde(default)]
    pub(super) limit: Option<Written>,
    #[serde(default = "one")]
    pub(super) tasks: u32,
    #[serde(default)]
    pub(super) cpus: Option<f64>,
    #[serde(default)]
    pub(super) memory: Option<Written>,
    #[serde(default)]
    pub(super) gpus: Option<u64>,
    #[serde(default)]
    pub(super) priority: i32,
    #[serde(default = "yes")]
    pub(super) preemptible: bool,
    #[serde(default)]
    pub(super) user: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Arrivals {
    #[default]
    Regular,
    /// Exponential gaps with `every` as their mean.
    Poisson,
}

/// One length of time, or any between two.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Range {
    Between { from: Written, to: Written },
    Always(Written),
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}
