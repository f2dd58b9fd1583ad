//! What is submitted to a simulated cluster.

use std::sync::Arc;

use muster_domain::{GangId, GangMembership, JobId, JobSpec, QueueName, Resources, Span};
use muster_store::{Command, NewJob, Submit};

use crate::random::Random;

/// A gang to submit.
#[derive(Debug, Clone)]
pub struct GangPlan {
    pub size: u32,
    /// The fewest tasks that a round may start with; all when absent.
    pub min: Option<u32>,
    pub per_worker: u32,
    pub keep_done: bool,
    pub priority: i32,
    pub max_attempts: u32,
    /// Of one task.
    pub need: Resources,
    /// Ids of jobs or gangs that must be done first.
    pub after: Vec<String>,
    pub queue: Option<QueueName>,
    /// How long it may run, which says when it will have ended.
    pub timeout: Option<Span>,
}

impl Default for GangPlan {
    fn default() -> Self {
        Self {
            size: 2,
            min: None,
            per_worker: 1,
            keep_done: false,
            priority: 0,
            max_attempts: 3,
            need: Resources::default(),
            after: Vec::new(),
            queue: None,
            timeout: None,
        }
    }
}

impl GangPlan {
    pub(crate) fn command(&self, random: &mut Random) -> (GangId, Vec<JobId>, Command) {
        let id = GangId::from_random(random.bytes());
        let jobs: Vec<NewJob> = (0..self.size)
            .map(|index| {
                let gang = GangMembership {
                    id,
                    size: self.size,
                    index,
                    min: self.min,
                    per_worker: self.per_worker,
                    keep_done: self.keep_done,
                    topology: None,
                };
                let spec = JobSpec {
                    gang: Some(gang),
                    resources: Some(self.need.clone()),
                    priority: self.priority,
                    max_attempts: self.max_attempts,
                    queue: self.queue.clone(),
                    timeout: self.timeout,
                    ..JobSpec::shell("train")
                };
                let first_task = (index > 0).then_some(0);
                NewJob { first_task, ..new_job(JobId::from_random(random.bytes()), spec, &self.after) }
            })
            .collect();
        let ids = jobs.iter().map(|job| job.id).collect();
        (id, ids, Command::Submit(Submit { jobs, atomic: true, set: None }))
    }
}

/// A job of its own to submit.
#[derive(Debug, Clone)]
pub struct JobPlan {
    pub priority: i32,
    pub max_attempts: u32,
    pub need: Resources,
    /// Ids of jobs or gangs that must be done first.
    pub after: Vec<String>,
    pub queue: Option<QueueName>,
    /// How long it may run, which says when it will have ended.
    pub timeout: Option<Span>,
}

impl Default for JobPlan {
    fn default() -> Self {
        Self {
            priority: 0,
            max_attempts: 3,
            need: Resources::default(),
            after: Vec::new(),
            queue: None,
            timeout: None,
        }
    }
}

impl JobPlan {
    pub(crate) fn command(&self, random: &mut Random) -> (JobId, Command) {
        let id = JobId::from_random(random.bytes());
        let spec = JobSpec {
            resources: Some(self.need.clone()),
            priority: self.priority,
            max_attempts: self.max_attempts,
            queue: self.queue.clone(),
            timeout: self.timeout,
            ..JobSpec::shell("single")
        };
        let jobs = vec![new_job(id, spec, &self.after)];
        (id, Command::Submit(Submit { jobs, atomic: true, set: None }))
    }
}

fn new_job(id: JobId, spec: JobSpec, after: &[String]) -> NewJob {
    NewJob {
        id,
        spec: Arc::new(spec),
        hold: None,
        reference: None,
        depends_on: after.to_vec(),
        rules: Vec::new(),
        member: None,
        first_task: None,
    }
}
