//! What a job costs: processor time by part. On a busy machine this is steadier than any rate.

use super::{Measured, Setting};
use crate::cluster::Cluster;
use crate::metric::{Metric, Part};
use crate::process;
use crate::settings::Workload;

/// Watches the parts of a cluster from its creation until it is asked.
#[derive(Debug)]
pub(super) struct Costs {
    scheduler: u32,
    worker: Vec<u32>,
    database: Option<u32>,
    before: Vec<(Part, f64)>,
}

impl Costs {
    pub(super) fn start(setting: &Setting<'_>, cluster: &Cluster) -> Self {
        let mut costs = Self {
            scheduler: cluster.scheduler_id(),
            worker: cluster.worker_ids(),
            database: setting.ground.server_id(),
            before: Vec::new(),
        };
        costs.before = costs.seconds();
        costs
    }

    fn seconds(&self) -> Vec<(Part, f64)> {
        let mut seconds = vec![(Part::Scheduler, process::processor_seconds(&[self.scheduler]))];
        if !self.worker.is_empty() {
            seconds.push((Part::Worker, process::processor_seconds(&self.worker)));
        }
        seconds.extend(self.database.map(|server| (Part::Database, process::tree_seconds(server))));
        seconds
    }

    /// Microseconds of each part for each of `jobs` jobs.
    pub(super) fn finish(self, workload: Workload, jobs: usize) -> Measured {
        let after = self.seconds();
        let each = |((part, before), (_, after)): ((Part, f64), (Part, f64))| {
            (Metric::Cost(workload, part), (after - before) * 1e6 / jobs as f64)
        };
        self.before.into_iter().zip(after).map(each).collect()
    }
}
