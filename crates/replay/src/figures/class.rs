//! Jobs by how much they ask for.

use serde::Serialize;

use crate::settings::Cluster;
use crate::workload::TraceJob;

/// What a cluster is counted in: what is scarcest of what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    Gpus,
    Processors,
}

impl Unit {
    pub fn of(cluster: &Cluster) -> Self {
        if cluster.nodes.iter().any(|group| group.each.gpus > 0) { Self::Gpus } else { Self::Processors }
    }

    /// What the cluster has: GPUs, or thousandths of processors.
    pub fn total(self, cluster: &Cluster) -> u64 {
        let each = |group: &crate::settings::NodeGroup| match self {
            Self::Gpus => group.each.gpus,
            Self::Processors => group.each.cpu_millis,
        };
        cluster.nodes.iter().map(|group| u64::from(group.count).saturating_mul(each(group))).sum()
    }

    /// What all tasks of a job ask for together, in the same parts.
    pub fn amount(self, job: &TraceJob) -> u64 {
        let each = match self {
            Self::Gpus => job.need.gpus,
            Self::Processors => job.need.cpu_millis,
        };
        each.saturating_mul(u64::from(job.tasks))
    }

    /// How many parts make one.
    pub fn scale(self) -> f64 {
        match self {
            Self::Gpus => 1.0,
            Self::Processors => 1000.0,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Gpus => "GPUs",
            Self::Processors => "processors",
        }
    }
}

/// How large a job is, in GPUs or processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    None,
    One,
    Few,
    Node,
    Nodes,
    Many,
}

impl SizeClass {
    pub const ALL: [Self; 6] = [Self::None, Self::One, Self::Few, Self::Node, Self::Nodes, Self::Many];

    pub fn of(amount: u64, unit: Unit) -> Self {
        let units = (amount as f64 / unit.scale()).ceil() as u64;
        match units {
            0 => Self::None,
            1 => Self::One,
            2..=4 => Self::Few,
            5..=8 => Self::Node,
            9..=32 => Self::Nodes,
            _ => Self::Many,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "0",
            Self::One => "1",
            Self::Few => "2-4",
            Self::Node => "5-8",
            Self::Nodes => "9-32",
            Self::Many => "33+",
        }
    }
}
