//! `GET /usage`: who used what since when; `GET /jobs/{id}/attempts`: the attempts of one job.
//!
//! Guarantee: sums by user, queue and day cost as much as there are of these, however many jobs have ended; what is
//! counted job by job looks at a bounded number of jobs and says when there were more.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use jiff::tz::Offset;
use muster_domain::usage::{hour_of, start_of_hour};
use muster_domain::{EndedAttempt, Job, QueueName, Span, Status, Timestamp, UsageSum};
use muster_protocol::{Attempt, UsageReport, UsageRow};
use muster_store::{EndedFilter, EventFilter, StoreExt, UsageFilter};

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json};
use crate::{clock, duration, view};

/// The most events of a job that its attempts are read from.
const HISTORY: usize = 10_000;
/// The most jobs that are looked at one by one.
const MOST_JOBS: usize = 10_000;
/// What is looked at without `since`.
const USUAL: Span = Span::from_secs(7 * 24 * 3600);

/// What the rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    User,
    Queue,
    UserAndQueue,
    Day,
    Name,
    Job,
}

impl By {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "user" => Self::User,
            "queue" => Self::Queue,
            "user,queue" | "queue,user" => Self::UserAndQueue,
            "day" => Self::Day,
            "name" => Self::Name,
            "job" => Self::Job,
            _ => return None,
        })
    }
}

/// The attempts of a job, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/attempts", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "The attempts with what they used", body = Vec<Attempt>))
)]
pub(crate) async fn job_attempts(
    State(app): State<Shared>,
    JobPath(id): JobPath,
) -> Result<Response, ApiError> {
    let job = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?.job;
    let events = app.store.events(EventFilter { job: Some(id), after: 0, limit: HISTORY }).await?;
    json(StatusCode::OK, &view::attempts(&job, &events))
}

/// Who used what: sums over attempts that have ended. Attempts are counted in the hours in which they ran; those that
/// still run are not counted yet.
#[utoipa::path(
    get, path = "/usage", tag = "jobs",
    params(
        ("by" = Option<String>, Query, description = "What the rows are: `user` (default), `queue`, `user,queue`, `day`, `name` or `job`"),
        ("since" = Option<String>, Query, description = "A time (RFC 3339) or an age such as `12h`; `7d` when absent"),
        ("until" = Option<String>, Query, description = "The same; now when absent"),
        ("user" = Option<String>, Query, description = "Only jobs of this user"),
        ("queue" = Option<String>, Query, description = "Only jobs of this queue"),
    ),
    responses((status = 200, description = "The sums", body = UsageReport))
)]
pub(crate) async fn usage(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let now = app.config.clock.now();
    let by = call.params.filled("by").unwrap_or("user");
    let by = By::parse(by).ok_or_else(|| {
        let message = format!("by is {by:?}; it may be user, queue, \"user,queue\", day, name or job");
        ApiError::bad_request("invalid_parameter", message).at("by")
    })?;
    let until = call.params.filled("until").map_or(Ok(now), |text| time("until", text, now))?;
    let since = call.params.filled("since").map_or(Ok(now - USUAL), |text| time("since", text, now))?;
    if since >= until {
        let message = "since must be earlier than until";
        return Err(ApiError::bad_request("invalid_parameter", message).at("since"));
    }
    let question = Question {
        by,
        since,
        until,
        user: call.params.filled("user").map(str::to_owned),
        queue: call.params.filled("queue").map(QueueName::new),
    };
    let report = match by {
        By::User | By::Queue | By::UserAndQueue | By::Day => question.sums(&app, &call).await?,
        By::Name | By::Job => question.jobs(&app, &call).await?,
    };
    json(StatusCode::OK, &report)
}

fn time(field: &'static str, text: &str, now: Timestamp) -> Result<Timestamp, ApiError> {
    if let Some(age) = duration::parse(text) {
        return Ok(now - Span::from(age));
    }
    text.parse::<jiff::Timestamp>().map(clock::from_wire).map_err(|_| {
        let message = format!("{field} must be a time such as 2026-05-05T08:33:00Z or an age such as 7d");
        ApiError::bad_request("invalid_parameter", message).at(field)
    })
}

struct Question {
    by: By,
    since: Timestamp,
    until: Timestamp,
    user: Option<String>,
    queue: Option<QueueName>,
}

/// What a row is about; only what the rows are has a value.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    day: Option<i64>,
    user: Option<String>,
    queue: Option<String>,
    name: Option<String>,
    job: Option<String>,
}

impl Question {
    async fn sums(&self, app: &Shared, call: &Call) -> Result<UsageReport, ApiError> {
        let from_hour = hour_of(self.since);
        let last = Timestamp::from_micros(self.until.as_micros().saturating_sub(1));
        let to_hour = hour_of(last).saturating_add(1);
        let filter = UsageFilter {
            from_hour,
            to_hour,
            by_day: self.by == By::Day,
            user: self.user.clone(),
            queue: self.queue.clone(),
            seen_by: call.seen_by(),
        };
        let mut sums: BTreeMap<Key, UsageSum> = BTreeMap::new();
        for line in app.store.usage(filter).await? {
            let (user, queue) = (Some(line.user), Some(line.queue));
            let key = match self.by {
                By::Queue => Key { queue, ..Key::default() },
                By::UserAndQueue => Key { user, queue, ..Key::default() },
                By::Day => Key { day: Some(line.day), ..Key::default() },
                By::User | By::Name | By::Job => Key { user, ..Key::default() },
            };
            sums.entry(key).or_default().add(&line.sum);
        }
        Ok(self.report((start_of_hour(from_hour), start_of_hour(to_hour)), sums, true))
    }

    async fn jobs(&self, app: &Shared, call: &Call) -> Result<UsageReport, ApiError> {
        let filter = EndedFilter {
            since: self.since,
            until: self.until,
            user: self.user.clone(),
            queue: self.queue.clone(),
            limit: MOST_JOBS,
            seen_by: call.seen_by(),
        };
        let (jobs, complete) = app.store.ended_jobs(filter).await?;
        let mut sums: BTreeMap<Key, UsageSum> = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.started_at.is_some()) {
            let spec = &job.spec;
            let user = Some(spec.user.clone().unwrap_or_default());
            let queue = Some(spec.queue.as_ref().map_or_else(String::new, |queue| queue.as_str().to_owned()));
            let name = spec.name.clone();
            let key = match self.by {
                By::Name => Key { user, queue, name: Some(name.unwrap_or_default()), ..Key::default() },
                _ => Key { user, queue, name, job: Some(job.id.to_string()), ..Key::default() },
            };
            sums.entry(key).or_default().add(&of_job(job));
        }
        Ok(self.report((self.since, self.until), sums, complete))
    }

    fn report(
        &self,
        (since, until): (Timestamp, Timestamp),
        sums: BTreeMap<Key, UsageSum>,
        complete: bool,
    ) -> UsageReport {
        let mut all = UsageSum::default();
        let mut rows: Vec<(Key, UsageSum)> = sums.into_iter().collect();
        for (_, sum) in &rows {
            all.add(sum);
        }
        if self.by != By::Day {
            rows.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.gpu_ms, sum.cpu_requested_ms, sum.wall_ms)));
        }
        UsageReport {
            since: clock::to_wire(since),
            until: clock::to_wire(until),
            rows: rows.into_iter().map(|(key, sum)| row(key, &sum)).collect(),
            total: row(Key::default(), &all),
            complete,
        }
    }
}

/// All attempts of a job that has ended, as sums.
fn of_job(job: &Job) -> UsageSum {
    let total = job.spent.as_ref().map(|spent| spent.total());
    let from = Timestamp::default();
    let sum = EndedAttempt::of(&job.spec, from, from + job.served, total).sum();
    let jobs_failed = u64::from(job.status() == Status::Failed);
    UsageSum { jobs: 1, jobs_failed, attempts: u64::from(job.attempts.max(1)), ..sum }
}

fn row(key: Key, sum: &UsageSum) -> UsageRow {
    let seconds = |millis: u64| millis as f64 / 1e3;
    let day = |day: i64| {
        let begin = clock::to_wire(start_of_hour(day.saturating_mul(24)));
        Offset::UTC.to_datetime(begin).date().to_string()
    };
    UsageRow {
        user: key.user,
        queue_name: key.queue,
        day: key.day.map(day),
        name: key.name,
        job_id: key.job,
        jobs: sum.jobs,
        jobs_failed: sum.jobs_failed,
        attempts: sum.attempts,
        wall_seconds: seconds(sum.wall_ms),
        cpu_seconds: seconds(sum.cpu_ms),
        cpu_requested_seconds: seconds(sum.cpu_requested_ms),
        gpu_seconds: seconds(sum.gpu_ms),
        cpu_efficiency: sum.cpu_efficiency(),
        memory_efficiency: sum.memory_efficiency(),
        peak_memory_bytes: sum.peak_memory_bytes,
        read_bytes: sum.read_bytes,
        written_bytes: sum.written_bytes,
    }
}
