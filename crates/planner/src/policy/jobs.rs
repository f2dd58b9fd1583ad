//! What the rules see of a job of the running scheduler.
//!
//! Guarantee: tasks of one gang that ran equally long have equal ranks.

use muster_domain::{Job, Span, Timestamp};

use super::level::Service;
use super::order::{Standing, rank};
use super::settings::Policy;

/// What a job, or the gang that it belongs to, has taken.
fn service(job: &Job, ran: Span) -> Service {
    let need = job.spec.resources.as_ref();
    let (gpus, cpu_millis) = need.map_or((0, 0), |need| (need.gpus, need.cpu_millis));
    let tasks = job.spec.gang.as_ref().map_or(1, |gang| gang.size);
    Service::of(gpus, cpu_millis, tasks, ran)
}

impl Policy {
    /// The place of a job in the line: smaller goes first, then who came first.
    pub fn rank_of(&self, job: &Job) -> i64 {
        let service = service(job, job.served);
        let standing = Standing {
            priority: job.spec.priority,
            level: self.level(service),
            pinned: job.pinned,
            estimate: job.spec.timeout.or(job.expected),
            size: service.size,
        };
        rank(self.name, standing)
    }

    /// The level of a job by what it has had until now.
    pub fn level_of(&self, job: &Job, now: Timestamp) -> u8 {
        let running = job.running_since().map_or(Span::ZERO, |since| now.since(since));
        self.level(service(job, job.served + running))
    }

    /// Whether a job goes first, or is spared, for having waited so long: until it has run for as long.
    pub fn is_pinned(&self, job: &Job, now: Timestamp) -> bool {
        let over = |since| self.unpinned_at(since, job.waited, job.served) <= now;
        job.pinned && !job.running_since().is_some_and(over)
    }

    /// What a job takes of what is scarce for it, with all tasks of its gang: GPUs, or thousandths of a core.
    pub fn size_of(&self, job: &Job) -> Service {
        service(job, job.served)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_domain::{JobId, JobSpec, Phase, Resources};

    use super::*;

    fn job(gpus: u64, served_hours: u32) -> Job {
        let resources = Some(Resources { gpus, ..Resources::default() });
        let spec = JobSpec { resources, ..JobSpec::shell("x") };
        let new = Job::new(JobId::from_random([1; 16]), Arc::new(spec), Phase::Pending, Timestamp::default());
        Job { served: Span::from_secs(served_hours * 3600), ..new }
    }

    #[test]
    fn who_has_had_much_goes_behind_and_who_is_pinned_before() {
        let policy = Policy::default();
        let (fresh, tired) = (job(1, 0), job(1, 5));
        let pinned = Job { pinned: true, ..job(1, 50) };
        let ranks = [&pinned, &fresh, &tired, &job(8, 5)].map(|job| policy.rank_of(job));
        assert!(ranks.is_sorted() && ranks[0] < ranks[1] && ranks[2] < ranks[3], "{ranks:?}");
    }

    #[test]
    fn a_job_climbs_while_it_runs_and_is_pinned_until_it_has_run_as_long_as_it_waited() {
        let (policy, hours) = (Policy::default(), |hours: u32| Span::from_secs(hours * 3600));
        let start = Timestamp::default() + hours(100);
        let runs = Job {
            phase: Phase::Running { worker: None, last_heartbeat: None },
            started_at: Some(start),
            pinned: true,
            waited: hours(24),
            ..job(1, 3)
        };
        assert_eq!([0, 1, 37].map(|after| policy.level_of(&runs, start + hours(after))), [0, 1, 2]);
        assert_eq!([20, 21].map(|after| policy.is_pinned(&runs, start + hours(after))), [true, false]);
        assert!(policy.is_pinned(&Job { phase: Phase::Pending, ..runs }, start + hours(99)));
    }
}
