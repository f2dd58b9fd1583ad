//! What the planner is told about how long a job will run.

use std::collections::HashMap;

use muster_domain::{RunTimes, Span};
use muster_planner::policy::PolicyName;

use crate::settings::Estimates;
use crate::workload::{TraceJob, Workload};

/// Knows the truth, and says what the settings let it say.
#[derive(Debug)]
pub(crate) struct Oracle<'a> {
    jobs: &'a [TraceJob],
    estimates: Estimates,
    /// The policy can do without.
    optional: bool,
    /// The last two run times of each user and queue.
    history: HashMap<(u32, u32), RunTimes>,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(workload: &'a Workload, policy: PolicyName, estimates: Estimates) -> Self {
        let optional = policy == PolicyName::Muster;
        Self { jobs: &workload.jobs, estimates, optional, history: HashMap::new() }
    }

    pub(crate) fn estimate(&self, job: usize) -> Option<Span> {
        let job = &self.jobs[job];
        let or_truth = |known: Option<Span>| known.or_else(|| (!self.optional).then_some(job.run));
        match self.estimates {
            Estimates::True => Some(job.run),
            Estimates::Limit => or_truth(job.limit),
            Estimates::History => {
                let before = self.history.get(&(job.user, job.queue)).map(|times| times.expected());
                // Nothing runs for longer than its limit.
                or_truth(before.into_iter().chain(job.limit).min())
            }
        }
    }

    pub(crate) fn learn(&mut self, job: usize) {
        if self.estimates == Estimates::History {
            let job = &self.jobs[job];
            let series = (job.user, job.queue);
            let before = self.history.get(&series).copied();
            let after = before.map_or_else(|| RunTimes::first(job.run), |times| times.then(job.run));
            self.history.insert(series, after);
        }
    }
}
