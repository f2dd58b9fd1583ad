//! Workloads that are made up from a seed, so that nothing from outside is needed to try a policy.
//!
//! Guarantee: the same description makes the same jobs, whatever else was made before.

mod cycle;
mod distributions;
mod hpc;
mod ml;
mod options;
mod random;
#[cfg(test)]
mod tests;

pub use options::{GenerateError, Generator, Kind};
pub(crate) use random::Random;

use crate::settings::{Cluster, NodeGroup};
use crate::trace::Trace;
use muster_domain::Resources;

impl Generator {
    /// Makes the jobs.
    pub fn trace(&self) -> Trace {
        let workload = match self.kind {
            Kind::Hpc => hpc::jobs(self),
            Kind::Ml => ml::jobs(self),
        };
        Trace { cluster: Some(self.cluster()), ..Trace::of(workload) }
    }

    /// The cluster that the load is meant for.
    pub fn cluster(&self) -> Cluster {
        let each = match self.kind {
            Kind::Hpc => Resources { cpu_millis: u64::from(self.size) * 1000, ..Resources::default() },
            Kind::Ml => Resources { gpus: ml::GPUS_OF_A_NODE, ..Resources::default() },
        };
        let count = match self.kind {
            Kind::Hpc => 1,
            Kind::Ml => self.size,
        };
        Cluster { nodes: vec![NodeGroup { count, each, ..NodeGroup::default() }], ..Cluster::default() }
    }
}
