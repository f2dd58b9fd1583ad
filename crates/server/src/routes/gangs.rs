//! Gangs as one: looked at, listed, and changed as a whole.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use muster_domain::{GangId, JobId};
use muster_protocol::{CancelResult, Event, GangSummary, HEADER_NEXT_CURSOR, Job, Why};
use muster_store::{Command, EventFilter, GangFilter, JobView, Outcome, StoreExt};

use super::control::message;
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::extract::{Call, GangPath, JobPath, json};
use crate::view;
use crate::visibility::Visibility;

/// Gangs on one page, when nothing is said.
const PAGE: usize = 100;
/// Gangs looked at in one step, when a state is asked for.
const STEP: usize = 200;
/// The most events in one answer.
const EVENTS: usize = 10_000;

async fn tasks(app: &App, id: GangId) -> Result<Vec<JobView>, ApiError> {
    let tasks = app.store.gang(id).await?;
    if tasks.is_empty() { Err(ApiError::gang_not_found()) } else { Ok(tasks) }
}

/// The task through which a whole gang is changed: the first that has not ended, else the first.
async fn handle(app: &App, id: GangId) -> Result<JobId, ApiError> {
    let tasks = tasks(app, id).await?;
    let open = tasks.iter().find(|view| !view.job.is_terminal());
    open.or_else(|| tasks.first()).map(|view| view.job.id).ok_or_else(ApiError::gang_not_found)
}

async fn shown(app: &App, id: GangId) -> Result<Response, ApiError> {
    let views = tasks(app, id).await?;
    let jobs: Vec<muster_domain::Job> = views.iter().map(|view| view.job.clone()).collect();
    let gang_state = Some(view::gangs::state(&jobs));
    let show = |view: &JobView| {
        let shown = view::with_standing(app, &view.job, view::job_view(view));
        Job { gang_state, ..shown }
    };
    json(StatusCode::OK, &views.iter().map(show).collect::<Vec<Job>>())
}

async fn change(app: &App, call: &Call, id: GangId, command: Command) -> Result<Response, ApiError> {
    match app.batcher.submit_one(call.attributed(command)).await? {
        Outcome::Changed { .. } => shown(app, id).await,
        _ => Err(ApiError::internal()),
    }
}

/// The tasks of a gang, by index.
#[utoipa::path(
    get, path = "/gangs/{id}", tag = "gangs", params(("id" = String, Path)),
    responses((status = 200, description = "Its tasks", body = Vec<Job>))
)]
pub(crate) async fn get_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
) -> Result<Response, ApiError> {
    shown(&app, id).await
}

/// Gangs in short, newest first.
#[utoipa::path(
    get, path = "/gangs", tag = "gangs",
    params(
        ("state" = Option<String>, Query, description = "Only gangs in this state, such as `running`"),
        ("limit" = Option<usize>, Query), ("cursor" = Option<u64>, Query),
    ),
    responses((status = 200, description = "The gangs", body = Vec<GangSummary>))
)]
pub(crate) async fn list_gangs(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let limit = call.params.integer::<usize>("limit")?.unwrap_or(PAGE).clamp(1, app.config.limits.page);
    let wanted = call.params.filled("state").map(str::to_owned);
    let mut before_seq = call.params.integer::<u64>("cursor")?;
    let visibility = Visibility::of(&app, &call.identity.principal).await?;
    let mut found: Vec<GangSummary> = Vec::new();
    let mut next = None;
    loop {
        let step = if wanted.is_some() || !visibility.is_whole() { STEP } else { limit + 1 };
        let page = app.store.gangs(GangFilter { before_seq, limit: step }).await?;
        let last = page.len() < step;
        for gang in page {
            if found.len() == limit {
                next = before_seq;
                break;
            }
            before_seq = Some(gang.seq);
            if gang.tasks.first().is_some_and(|task| !visibility.has(task)) {
                continue;
            }
            let summary = view::gangs::summary(gang.id, &gang.tasks);
            let fits = |summary: &GangSummary| {
                let state = serde_json::to_value(summary.state).ok();
                wanted.as_ref().is_none_or(|wanted| state.as_ref().and_then(|s| s.as_str()) == Some(wanted))
            };
            found.extend(summary.filter(fits));
        }
        if last || found.len() >= limit {
            // Full with the last gang of a step: whether more follow shows on the next page.
            next = next.or(before_seq.filter(|_| !last));
            break;
        }
    }
    let mut response = json(StatusCode::OK, &found)?;
    if let Some(cursor) = next {
        response.headers_mut().insert(HEADER_NEXT_CURSOR, HeaderValue::from(cursor));
    }
    Ok(response)
}

/// Cancels all tasks of a gang that have not ended.
#[utoipa::path(
    post, path = "/gangs/{id}/cancel", tag = "gangs",
    params(("id" = String, Path), ("message" = Option<String>, Query, description = "Why")),
    responses((status = 200, description = "What ended, and what was told to stop", body = CancelResult))
)]
pub(crate) async fn cancel_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = Command::Cancel { job: handle(&app, id).await?, message: message(&call)? };
    let command = call.attributed(command);
    let Outcome::Cancelled { cancelled, stopping } = app.batcher.submit_one(command).await? else {
        return Err(ApiError::internal());
    };
    let names = |ids: Vec<JobId>| ids.iter().map(ToString::to_string).collect();
    json(StatusCode::OK, &CancelResult { cancelled: names(cancelled), stopping: names(stopping) })
}

/// Runs a gang again that failed or was cancelled.
#[utoipa::path(
    post, path = "/gangs/{id}/retry", tag = "gangs", params(("id" = String, Path)),
    responses((status = 200, description = "Its tasks", body = Vec<Job>))
)]
pub(crate) async fn retry_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = Command::Retry { job: handle(&app, id).await? };
    change(&app, &call, id, command).await
}

/// Keeps a gang that waits from starting.
#[utoipa::path(
    post, path = "/gangs/{id}/hold", tag = "gangs",
    params(("id" = String, Path), ("message" = Option<String>, Query, description = "Why")),
    responses((status = 200, description = "Its tasks", body = Vec<Job>))
)]
pub(crate) async fn hold_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = Command::Hold { job: handle(&app, id).await?, message: message(&call)? };
    change(&app, &call, id, command).await
}

/// Lets a held gang go on.
#[utoipa::path(
    post, path = "/gangs/{id}/unhold", tag = "gangs", params(("id" = String, Path)),
    responses((status = 200, description = "Its tasks", body = Vec<Job>))
)]
pub(crate) async fn unhold_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = Command::Release { job: handle(&app, id).await? };
    change(&app, &call, id, command).await
}

/// Asks a running gang to save what it has, stop, and come back later at no cost.
#[utoipa::path(
    post, path = "/gangs/{id}/preempt", tag = "gangs",
    params(("id" = String, Path), ("message" = Option<String>, Query, description = "Why")),
    responses((status = 200, description = "Its tasks", body = Vec<Job>))
)]
pub(crate) async fn preempt_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = Command::Preempt { job: handle(&app, id).await?, message: message(&call)? };
    change(&app, &call, id, command).await
}

/// Asks a running job, or the gang that it belongs to, to save what it has, stop, and come back later at no
/// cost.
#[utoipa::path(
    post, path = "/jobs/{id}/preempt", tag = "jobs",
    params(("id" = String, Path), ("message" = Option<String>, Query, description = "Why")),
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn preempt_job(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = call.attributed(Command::Preempt { job, message: message(&call)? });
    match app.batcher.submit_one(command).await? {
        Outcome::Changed { job, .. } => json(StatusCode::OK, &view::job(&job, None)),
        _ => Err(ApiError::internal()),
    }
}

/// Why a gang does not run, or what it does instead of waiting.
#[utoipa::path(
    get, path = "/gangs/{id}/why", tag = "gangs", params(("id" = String, Path)),
    responses((status = 200, description = "Every reason", body = Why))
)]
pub(crate) async fn why_gang(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let job = handle(&app, id).await?;
    let (job, explanation) =
        app.store.why(job, app.config.clock.now()).await?.ok_or_else(ApiError::gang_not_found)?;
    let visibility = Visibility::of(&app, &call.identity.principal).await?;
    let explanation = visibility.redact_why(&app, explanation).await?;
    json(StatusCode::OK, &Why { id: id.to_string(), ..view::why(&job, &explanation) })
}

/// What happened to the tasks of a gang, in order.
#[utoipa::path(
    get, path = "/gangs/{id}/events", tag = "gangs",
    params(("id" = String, Path), ("after" = Option<u64>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, description = "The events", body = Vec<Event>))
)]
pub(crate) async fn gang_events(
    State(app): State<Shared>,
    GangPath(id): GangPath,
    call: Call,
) -> Result<Response, ApiError> {
    let after = call.params.integer("after")?.unwrap_or(0);
    let limit = call.params.integer::<usize>("limit")?.unwrap_or(EVENTS).clamp(1, EVENTS);
    // The tasks are asked one after the other: what happens meanwhile belongs into the next answer, or the
    // caller, who goes on after the last event, would miss what came earlier of a task that was asked before.
    let last = app.store.last_event().await?;
    let mut events = Vec::new();
    for view in tasks(&app, id).await? {
        let filter = EventFilter { job: Some(view.job.id), after, limit };
        events.extend(app.store.events(filter).await?);
    }
    events.retain(|event| event.seq <= last);
    events.sort_unstable_by_key(|event| event.seq);
    // The first of all tasks together are among the first of each.
    events.truncate(limit);
    let events: Vec<Event> = events.iter().map(view::event).collect();
    json(StatusCode::OK, &events)
}
