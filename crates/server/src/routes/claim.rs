//! `GET /jobs/next`: the claim, at once or by waiting.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use muster_domain as domain;
use muster_domain::limits::MAX_AHEAD;
use muster_protocol::{HEADER_LEASE, Job};
use muster_store::{Answer, Ask, Claimed, Command, Outcome};

use crate::app::{App, Shared};
use crate::batcher::Delivery;
use crate::dispatcher::{Handed, Waiting};
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::extract::{Call, empty, json, leased_name};
use crate::job_inputs::Takes;
use crate::ownership;
use crate::submission::check_text;
use crate::{duration, job_inputs, secret_uses, view};

/// Claims the next job, or several.
#[utoipa::path(
    get, path = "/jobs/next", tag = "claims",
    params(
        ("worker_id" = Option<String>, Query, description = "Who claims; anonymous when absent"),
        ("wait" = Option<String>, Query, description = "How long to wait for work, such as `30s`"),
        ("max" = Option<u32>, Query, description = "Claim up to this many; the answer is then an array"),
        ("ahead" = Option<u32>, Query, description = "How many of them may wait on the worker for room"),
        ("claim_key" = Option<String>, Query, description = "Lets the same claim be asked for again"),
        ("claim_again" = Option<bool>, Query, description = "The answer to the key before was lost"),
    ),
    responses(
        (status = 200, description = "The job, or an array of jobs when `max` is given", body = ClaimAnswer),
        (status = 204, description = "Nothing to do"),
    )
)]
pub(crate) async fn claim_next(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let max = call.params.integer::<u32>("max")?;
    let wait = wait_param(&app, &call)?;
    let worker = ownership::claimer(&call.identity.principal, call.worker())?;
    ownership::check_name(&app, &call.identity.principal, worker.as_ref()).await?;
    if let Some(worker) = &worker {
        check_text("worker_id", worker.as_str(), app.config.limits.name)?;
    }
    app.tokens.secret(&app).await?;
    // A HEAD request has no body to hand a job over in.
    if call.is_head || max == Some(0) {
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    let most = max.unwrap_or(1).min(app.config.limits.page as u32);
    let ahead = call.params.integer::<u32>("ahead")?.unwrap_or(0).min(MAX_AHEAD);
    let key = call.params.filled("claim_key").map(std::sync::Arc::from);
    let again = call.params.flag("claim_again");
    let ask = Ask { worker: worker.clone(), max: most, ahead, key, again, ..Ask::default() };
    let introduction = worker.clone().map(|worker| Command::Introduce { worker });
    let commands = introduction.into_iter().chain([Command::Claim(ask.clone())]).collect();
    let delivery = app.batcher.submit(commands).await?;
    let delivery = if delivery.has_jobs() || wait.is_zero() {
        Some(delivery)
    } else if app.dispatcher.is_full() {
        return Err(ApiError::too_many_long_polls(app.config.bounds.long_polls));
    } else {
        let waiting =
            Waiting { ask: Some(ask), worker, orders: false, prepared: Vec::new(), as_of: delivery.as_of };
        match app.dispatcher.park(waiting, wait).await {
            Handed::Work(delivery) => Some(delivery),
            Handed::Stops(_) | Handed::Changed(_) | Handed::Terminals(_) | Handed::Nothing => None,
        }
    };
    let mut jobs = match delivery {
        Some(delivery) => take_jobs(&app, delivery, call.request_id)?,
        None => Vec::new(),
    };
    job_inputs::keep_back(&app, call.worker().as_ref(), Takes::Nothing, &mut jobs).await?;
    secret_uses::attach(&app, call.worker().as_ref(), &mut jobs).await?;
    answer(&jobs, max.is_some())
}

/// Either shape that a claim is answered in.
#[derive(utoipa::ToSchema)]
#[schema(as = ClaimAnswer)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the answer in the OpenAPI document")]
pub(crate) enum ClaimAnswer {
    #[schema(title = "One")]
    One(Box<Job>),
    #[schema(title = "Many")]
    Many(Vec<Job>),
}

fn wait_param(app: &App, call: &Call) -> Result<Duration, ApiError> {
    let Some(text) = call.params.filled("wait") else { return Ok(Duration::ZERO) };
    let wait = duration::parse(text).ok_or_else(|| {
        ApiError::bad_request("invalid_parameter", "wait must be a duration such as 30s").at("wait")
    })?;
    Ok(wait.min(app.config.long_poll_max))
}

fn answer(jobs: &[Job], as_array: bool) -> Result<Response, ApiError> {
    match jobs {
        [] => Ok(empty(StatusCode::NO_CONTENT)),
        [job, ..] if !as_array => {
            let mut response = json(StatusCode::OK, job)?;
            response
                .headers_mut()
                .insert(HeaderName::from_static(HEADER_LEASE), HeaderValue::from(job.lease));
            Ok(response)
        }
        jobs => json(StatusCode::OK, &jobs),
    }
}

/// The jobs of a delivery that holds one claim.
fn take_jobs(app: &App, delivery: Delivery, request_id: RequestId) -> Result<Vec<Job>, ApiError> {
    match delivery.take().pop() {
        Some(answer) => claimed(app, answer, request_id, plain_name),
        None => Err(ApiError::internal()),
    }
}

/// What a claimer that may know no leases calls the job: by its id, unless reports under that may be another's.
fn plain_name(job: &domain::Job) -> String {
    if job.has_other_strays() { leased_name(job.id, job.lease) } else { job.id.to_string() }
}

/// The jobs in the answer to a claim of a worker that reports under its leases, noted in the log.
pub(super) fn claimed_jobs(app: &App, answer: Answer, request_id: RequestId) -> Result<Vec<Job>, ApiError> {
    claimed(app, answer, request_id, |job| job.id.to_string())
}

fn claimed(
    app: &App,
    answer: Answer,
    request_id: RequestId,
    name: impl Fn(&domain::Job) -> String,
) -> Result<Vec<Job>, ApiError> {
    let Outcome::Claimed(claimed) = answer? else { return Err(ApiError::internal()) };
    let show = |claimed: &Claimed| {
        note(app, claimed, request_id);
        let token = app.tokens.of(claimed.job.id, claimed.job.lease);
        let id = name(&claimed.job);
        Job { id, token, ..view::claimed(claimed, app.config.limits.checkpoint_env) }
    };
    Ok(claimed.iter().map(show).collect())
}

fn note(app: &App, claimed: &Claimed, request_id: RequestId) {
    if app.journal.admits() {
        let job = &claimed.job;
        let worker_id = job.worker().map(tracing::field::display);
        tracing::info!(job_id = %job.id, worker_id, %request_id, attempt = job.attempts, "job claimed");
    }
}
