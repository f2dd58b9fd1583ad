//! What people do to one job: hold, let go, retry, change, delete.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::Edit;
use muster_domain::limits::MAX_ATTEMPTS;
use muster_protocol::{Job, JobEdit};
use muster_store::{Command, Outcome, StoreExt as _};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::conditions;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, empty, json};
use crate::lenient::{self, lenient_object};
use crate::submission::{ResourcesBody, check_text};
use crate::view;
use crate::{artifacts, checkpoints, moved_output};

/// Bytes of a message that are kept.
const MESSAGE_BYTES: usize = 4096;

lenient_object! {
    /// Changes to a waiting job.
    struct EditBody {
        priority: i32 = "priority",
        resources: ResourcesBody = "resources",
        max_retries: u32 = "max_retries",
        timeout_seconds: f64 = "timeout_seconds",
    }
}

async fn change(app: &App, call: &Call, command: Command) -> Result<Response, ApiError> {
    match app.batcher.submit_one(call.attributed(command)).await? {
        Outcome::Changed { job, .. } => json(StatusCode::OK, &view::job(&job, None)),
        _ => Err(ApiError::internal()),
    }
}

pub(super) fn message(call: &Call) -> Result<Option<String>, ApiError> {
    let message = call.params.filled("message").or_else(|| call.params.filled("reason")).map(str::to_owned);
    if let Some(message) = &message {
        check_text("message", message, MESSAGE_BYTES)?;
    }
    Ok(message)
}

/// Keeps a waiting job from starting.
#[utoipa::path(
    post, path = "/jobs/{id}/hold", tag = "jobs",
    params(("id" = String, Path), ("message" = Option<String>, Query, description = "Why")),
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn hold_job(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    change(&app, &call, Command::Hold { job, message: message(&call)? }).await
}

/// Lets a held job go on. (`/release` is a worker handing a job back.)
#[utoipa::path(
    post, path = "/jobs/{id}/unhold", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn unhold_job(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    change(&app, &call, Command::Release { job }).await
}

/// Runs a job again that failed or was cancelled; those that ended because of it wait for it again.
#[utoipa::path(
    post, path = "/jobs/{id}/retry", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn retry_job(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    change(&app, &call, Command::Retry { job }).await
}

/// Changes a job that waits: its priority, what it needs, its attempts or its timeout.
#[utoipa::path(
    patch, path = "/jobs/{id}", tag = "jobs", request_body = JobEdit, params(("id" = String, Path)),
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn edit_job(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let body: EditBody = lenient::decode(&bytes, call.reading())?;
    if body.max_retries.is_some_and(|attempts| !(1..=MAX_ATTEMPTS).contains(&attempts)) {
        let message = format!("max_retries must be from 1 to {MAX_ATTEMPTS}");
        return Err(ApiError::invalid_field("max_retries", message));
    }
    let edit = Edit {
        priority: body.priority,
        resources: body.resources.map(|amounts| amounts.check(&app.config.limits)).transpose()?,
        max_attempts: body.max_retries,
        timeout: match body.timeout_seconds {
            None => None,
            given => Some(conditions::seconds("timeout_seconds", given)?),
        },
    };
    change(&app, &call, Command::Edit { job, edit }).await
}

/// Removes a job that has ended, with its history and its output.
#[utoipa::path(
    delete, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete_job(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let left_artifacts = !app.store.artifact_runs(job).await?.is_empty();
    let mut objects = moved_output::objects(&app, job).await?;
    let view = app.store.job(job).await?;
    objects.extend(view.and_then(|view| checkpoints::object(view.job.checkpoint_file.as_deref()?)));
    let command = call.attributed(Command::Delete { job });
    let Outcome::Deleted = app.batcher.submit_one(command).await? else {
        return Err(ApiError::internal());
    };
    artifacts::remove(&app, &objects).await;
    if left_artifacts {
        artifacts::remove_all(&app, job).await;
    }
    Ok(empty(StatusCode::NO_CONTENT))
}
