//! What came of it.

use muster_domain::{Span, Timestamp};

/// How one job fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobOutcome {
    /// The first time.
    pub start: Timestamp,
    pub end: Timestamp,
    /// How often it was stopped for others.
    pub preemptions: u32,
    /// Time that it held its resources in vain because it was stopped.
    pub lost: Span,
    /// The first node of its last round, for a chart of small runs.
    pub node: u32,
}

/// The cluster at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub at: Timestamp,
    /// Of the scarcest kind of resource that the cluster has: GPUs, else CPUs in thousandths.
    pub used: u64,
    pub total: u64,
    /// Free, but on nodes where the smallest waiting job does not fit.
    pub stranded: u64,
    pub waiting_jobs: u32,
    /// What they ask for, in the unit of `used`.
    pub waiting_amount: u64,
    pub running_jobs: u32,
}

/// All jobs, in the order of the workload, and the state of the cluster over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub jobs: Vec<JobOutcome>,
    pub samples: Vec<Sample>,
    /// Passes of the planner.
    pub passes: u64,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub ended: u64,
    pub jobs: u64,
    pub now: Timestamp,
}
