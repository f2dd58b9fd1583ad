//! What workers say about single jobs: done, fail, release, heartbeat, preempted.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::{Exit, Job, JobId, ReportKind, Status};
use muster_protocol::HeartbeatAction;
use muster_store::{Command, Outcome, Report, StoreExt};

use crate::app::{App, Shared};
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, empty, json};
use crate::submission::check_text;

/// Bytes of a message that are kept.
const MESSAGE_BYTES: usize = 4096;

/// Reports a good end.
#[utoipa::path(
    post, path = "/jobs/{id}/done", tag = "reports", params(
        ("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
        ("exit_code" = Option<i32>, Query), ("signal" = Option<i32>, Query), ("message" = Option<String>, Query),
    ),
    responses((status = 200, description = "Applied, or applied before"))
)]
pub(crate) async fn report_done(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    report(&app, id, &call, ReportKind::Done).await
}

/// Reports a bad end.
#[utoipa::path(
    post, path = "/jobs/{id}/fail", tag = "reports", params(
        ("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
        ("exit_code" = Option<i32>, Query), ("signal" = Option<i32>, Query), ("message" = Option<String>, Query),
    ),
    responses((status = 200, description = "Applied, or applied before"))
)]
pub(crate) async fn report_fail(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    report(&app, id, &call, ReportKind::Failed).await
}

/// Hands a job back unfinished, without costing an attempt.
#[utoipa::path(
    post, path = "/jobs/{id}/release", tag = "reports", params(
        ("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
        ("exit_code" = Option<i32>, Query), ("signal" = Option<i32>, Query), ("message" = Option<String>, Query),
    ),
    responses((status = 200, description = "Applied, or applied before"))
)]
pub(crate) async fn report_release(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    report(&app, id, &call, ReportKind::Released).await
}

async fn report(app: &App, id: JobId, call: &Call, kind: ReportKind) -> Result<Response, ApiError> {
    let message = call.params.filled("message").map(str::to_owned);
    if let Some(message) = &message {
        check_text("message", message, MESSAGE_BYTES)?;
    }
    let exit = Exit { code: call.params.integer("exit_code")?, signal: call.params.integer("signal")? };
    let command = Command::Report(Report {
        job: id,
        caller: call.caller()?,
        kind,
        exit,
        message,
        outputs: None,
        spent: None,
    });
    match app.batcher.submit_one(command).await? {
        Outcome::Reported { job, repeated: false } => note(app, &job, kind, call.request_id),
        Outcome::Reported { .. } => {}
        _ => return Err(ApiError::internal()),
    }
    Ok(empty(StatusCode::OK))
}

/// Writes down what became of a job after an accepted report.
pub(super) fn note(app: &App, job: &Job, kind: ReportKind, request_id: RequestId) {
    let (attempt, max_retries) = (job.attempts, job.spec.max_attempts);
    match (kind, job.status()) {
        (ReportKind::Failed, Status::Pending | Status::Delayed) => {
            tracing::warn!(job_id = %job.id, %request_id, attempt, max_retries, "job failed, re-queuing");
        }
        (ReportKind::Failed, Status::Failed) => {
            tracing::error!(job_id = %job.id, %request_id, attempt, max_retries, "job failed permanently");
        }
        (_, Status::Cancelled) if app.journal.admits() => {
            tracing::info!(job_id = %job.id, %request_id, preemption_epoch = job.preemption_epoch, "job preempted");
        }
        (ReportKind::Done, _) if app.journal.admits() => {
            tracing::info!(job_id = %job.id, %request_id, "job done");
        }
        (ReportKind::Released, _) if app.journal.admits() => {
            tracing::info!(job_id = %job.id, %request_id, "job handed back");
        }
        _ => {}
    }
}

/// Shows that a job is alive; the answer carries a stop order when there is one.
#[utoipa::path(
    post, path = "/jobs/{id}/heartbeat", tag = "reports", params(
        ("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
    ),
    responses((status = 200, description = "Empty; or JSON with an order to stop, see `HeartbeatAction`"))
)]
pub(crate) async fn job_heartbeat(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = Command::Heartbeat { job: id, caller: call.caller()? };
    let Outcome::Heartbeat(reply) = app.batcher.submit_one(command).await? else {
        return Err(ApiError::internal());
    };
    if reply.job.status() != Status::Preempting {
        return Ok(empty(StatusCode::OK));
    }
    let epoch = reply.job.preemption_epoch;
    let action = "preempt".to_owned();
    json(StatusCode::OK, &HeartbeatAction { action, preemption_epoch: epoch, preemption_epoch_camel: epoch })
}

/// Acknowledges a stop order by its epoch.
#[utoipa::path(
    post, path = "/jobs/{id}/preempted", tag = "reports", params(
        ("id" = String, Path), ("epoch" = i64, Query),
        ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
    ),
    responses((status = 200, description = "The process is gone"))
)]
pub(crate) async fn report_preempted(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let epoch = epoch(&app, id, &call).await?;
    let command = Command::AcknowledgeStop { job: id, caller: call.caller()?, epoch };
    match app.batcher.submit_one(command).await {
        Ok(_) => {
            tracing::info!(job_id = %id, request_id = %call.request_id, preemption_epoch = epoch, "job preempted");
            Ok(empty(StatusCode::OK))
        }
        Err(error) => {
            let reason = error.message.as_ref();
            tracing::info!(job_id = %id, request_id = %call.request_id, preemption_epoch = epoch, error = reason, "preempt ack rejected");
            Err(error)
        }
    }
}

/// The epoch that a request names. An unknown job is the first thing to say.
pub(super) async fn epoch(app: &App, id: JobId, call: &Call) -> Result<i64, ApiError> {
    let wrong = |message: &'static str| ApiError::bad_request("invalid_parameter", message).at("epoch");
    let error = match call.params.filled("epoch").map(str::parse) {
        Some(Ok(epoch)) => return Ok(epoch),
        Some(Err(_)) => wrong("epoch must be an integer"),
        None => wrong("epoch query parameter is required"),
    };
    match app.store.job(id).await? {
        Some(_) => Err(error),
        None => Err(ApiError::job_not_found()),
    }
}
