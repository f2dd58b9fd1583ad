//! Where and how a workload is played.

use std::collections::BTreeMap;

use muster_domain::{Resources, Span};
use muster_planner::board::QueueTerms;
use serde::{Deserialize, Serialize};

/// Nodes that are alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeGroup {
    pub count: u32,
    pub each: Resources,
    /// Such as its rack and zone.
    pub labels: BTreeMap<String, String>,
}

/// What the jobs run on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    pub nodes: Vec<NodeGroup>,
    /// Quotas and weights by the names of queues; queues that are not named have none.
    pub queues: BTreeMap<String, QueueTerms>,
}

/// What the planner is told about how long a job will run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimates {
    /// The user's limit. Where none was given `muster` is told nothing, and policies that cannot do without
    /// are told the true time.
    #[default]
    Limit,
    /// The true time.
    True,
    /// What the jobs of the same user and queue took before; the limit where there were none.
    History,
}

/// When the planner looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Events {
    /// All ends, then all submissions of one moment, then one pass, as a live scheduler batches them.
    #[default]
    Batched,
    /// After each single one; submissions before ends at equal times.
    OneByOne,
}

/// How a workload is played. What the policy needs in addition is in [`muster_planner`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub estimates: Estimates,
    pub events: Events,
    /// What a job loses when it is stopped: its work since the last checkpoint, and the time to start again.
    pub restart: Span,
    /// Samples of the state of the cluster are at least this far apart.
    pub sample_every: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            estimates: Estimates::default(),
            events: Events::default(),
            restart: Span::from_secs(60),
            sample_every: Span::from_secs(3600),
        }
    }
}
