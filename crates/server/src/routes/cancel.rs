//! `POST /jobs/{id}/cancel`.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::{JobId, Rejection, Status};
use muster_protocol::CancelResult;
use muster_store::{Command, Outcome, StoreExt};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json};
use crate::lenient::{self, lenient_object};
use crate::submission::check_text;

/// Bytes of a message that are kept.
const MESSAGE_BYTES: usize = 4096;

lenient_object! {
    /// The optional body of a cancel.
    struct CancelBody { message: String = "message" | "reason" }
}

/// Cancels a job and everything that waits for it. A running job is told to stop.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", tag = "jobs",
    params(
        ("id" = String, Path), ("message" = Option<String>, Query, description = "Why"),
        ("dry_run" = Option<bool>, Query, description = "Only say what would end"),
    ),
    responses((status = 200, description = "What was ended and what was told to stop", body = CancelResult))
)]
pub(crate) async fn cancel_job(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given =
        if bytes.is_empty() { CancelBody::default() } else { lenient::decode(&bytes, call.reading())? };
    let message = call.params.filled("message").map(str::to_owned).or(given.message);
    if let Some(message) = &message {
        check_text("message", message, MESSAGE_BYTES)?;
    }
    if call.params.flag("dry_run") {
        return preview(&app, id).await;
    }
    let command = call.attributed(Command::Cancel { job: id, message });
    let Outcome::Cancelled { cancelled, stopping } = app.batcher.submit_one(command).await? else {
        return Err(ApiError::internal());
    };
    let (ended, stopped) = (cancelled.len(), stopping.len());
    tracing::info!(job_id = %id, request_id = %call.request_id, ended, stopping = stopped, "job cancelled");
    let names = |ids: Vec<muster_domain::JobId>| ids.iter().map(ToString::to_string).collect();
    json(StatusCode::OK, &CancelResult { cancelled: names(cancelled), stopping: names(stopping) })
}

/// What a cancel would end, those that would follow a running job included.
async fn preview(app: &App, id: JobId) -> Result<Response, ApiError> {
    let job = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?.job;
    if job.is_terminal() && job.status() != Status::Cancelled {
        return Err(Rejection::AlreadyEnded { status: job.status() }.into());
    }
    let preview = app.store.cancel_preview(vec![id]).await?;
    let names = |ids: &[JobId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let cancelled = [names(&preview.cancelled), names(&preview.following)].concat();
    json(StatusCode::OK, &CancelResult { cancelled, stopping: names(&preview.stopping) })
}
