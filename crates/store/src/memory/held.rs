//! What workers hold, in memory.

use std::collections::BTreeMap;

use muster_domain::{Job, ShapeId, WorkerId};

use super::data::Data;
use crate::tx::{HeldJob, Usage};

impl Data {
    /// The jobs of these workers, counted by shape.
    pub(super) fn count_held(&self, workers: &[WorkerId]) -> Vec<Usage> {
        let mut usage = Vec::new();
        for worker in workers {
            let mut by_shape: BTreeMap<ShapeId, u32> = BTreeMap::new();
            for job in self.jobs_of(worker) {
                *by_shape.entry(job.shape).or_default() += 1;
            }
            let counted = |(shape, jobs)| Usage { worker: worker.clone(), shape, jobs };
            usage.extend(by_shape.into_iter().map(counted));
        }
        usage
    }

    /// The jobs of these workers one by one, by worker and age.
    pub(super) fn list_held(&self, workers: &[WorkerId]) -> Vec<HeldJob> {
        let mut found = Vec::new();
        for worker in workers {
            let mut held: Vec<&Job> = self.jobs_of(worker).collect();
            held.sort_unstable_by_key(|job| job.seq);
            found.extend(held.into_iter().map(|job| HeldJob {
                worker: worker.clone(),
                job: job.id,
                shape: job.shape,
                devices: job.devices.clone(),
            }));
        }
        found
    }

    fn jobs_of(&self, worker: &WorkerId) -> impl Iterator<Item = &Job> {
        self.held.get(worker).into_iter().flatten().filter_map(|id| self.jobs.get(id))
    }
}
