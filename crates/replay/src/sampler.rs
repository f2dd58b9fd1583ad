//! Looks at the cluster now and then, for the charts.

use muster_domain::{Span, Timestamp};
use muster_planner::board::Board;

use crate::outcome::Sample;
use crate::settings::Cluster;
use crate::workload::TraceJob;

#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) samples: Vec<Sample>,
    /// What is counted now.
    current: Sample,
    /// GPUs are counted, not CPUs.
    gpus: bool,
    every: Span,
    next: Timestamp,
}

impl Sampler {
    pub(crate) fn new(cluster: &Cluster, every: Span) -> Self {
        let gpus = cluster.nodes.iter().any(|group| group.count > 0 && group.each.gpus > 0);
        let each = |node: &muster_domain::Resources| if gpus { node.gpus } else { node.cpu_millis };
        let total = cluster.nodes.iter().map(|group| u64::from(group.count) * each(&group.each)).sum();
        let current = Sample { total, ..Sample::default() };
        Self { samples: Vec::new(), current, gpus, every, next: Timestamp::default() }
    }

    fn amount(&self, job: &TraceJob) -> u64 {
        u64::from(job.tasks) * if self.gpus { job.need.gpus } else { job.need.cpu_millis }
    }

    pub(crate) fn waits(&mut self, job: &TraceJob) {
        self.current.waiting_jobs += 1;
        self.current.waiting_amount += self.amount(job);
    }

    pub(crate) fn starts(&mut self, job: &TraceJob) {
        self.current.waiting_jobs -= 1;
        self.current.running_jobs += 1;
        self.current.waiting_amount -= self.amount(job);
        self.current.used += self.amount(job);
    }

    pub(crate) fn ends(&mut self, job: &TraceJob) {
        self.current.running_jobs -= 1;
        self.current.used -= self.amount(job);
    }

    pub(crate) fn stops(&mut self, job: &TraceJob) {
        self.ends(job);
        self.waits(job);
    }

    /// Takes a sample when it is time.
    pub(crate) fn look(&mut self, now: Timestamp, board: &Board) {
        if now < self.next && !self.samples.is_empty() {
            return;
        }
        self.next = now + self.every;
        self.samples.push(Sample { at: now, stranded: board.stranded(self.gpus), ..self.current });
    }
}
