//! What a job has had and how it stands in the line, as the policy in force sees it now.

use muster_domain::{Job, Span};
use muster_protocol as wire;

use crate::app::App;

pub(crate) fn with_standing(app: &App, job: &Job, shown: wire::Job) -> wire::Job {
    let (policy, now) = (app.config.policy, app.config.clock.now());
    let served = job.served + job.running_since().map_or(Span::ZERO, |since| now.since(since));
    wire::Job {
        served_seconds: (served > Span::ZERO).then(|| served.as_secs_f64()),
        level: policy.is_fair().then(|| policy.level_of(job, now)),
        pinned: policy.is_pinned(job, now),
        ..shown
    }
}
