//! What a job has had and how it stands in the line, as the policy of its pool sees it now.

use muster_domain::{Job, Span};
use muster_protocol as wire;

use crate::app::App;

pub(crate) fn with_standing(app: &App, job: &Job, shown: wire::Job) -> wire::Job {
    let (policies, now) = (&app.config.policies, app.config.clock.now());
    let pool = policies.pool_of(&job.spec.tags);
    let policy = policies.at(pool);
    let served = job.served + job.running_since().map_or(Span::ZERO, |since| now.since(since));
    wire::Job {
        served_seconds: (served > Span::ZERO).then(|| served.as_secs_f64()),
        level: policy.is_fair().then(|| policy.level_of(job, now)),
        pinned: policy.is_pinned(job, now),
        pool: policies.named(pool).map(|pool| pool.name.clone()),
        ..shown
    }
}
