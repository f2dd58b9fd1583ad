//! Checkpoints: opaque bytes, one slot a job.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_store::{Command, Content, Outcome, PARTS_PREFIX, StoreExt};

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, empty, with_type};
use crate::{checkpoints, tokens};

use super::reports::epoch;

/// Keeps a checkpoint of a job that is being stopped.
#[utoipa::path(
    post, path = "/jobs/{id}/checkpoint", tag = "reports",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(
        ("id" = String, Path),
        ("epoch" = Option<i64>, Query, description = "The stop that is under way; needed without a lease"),
        ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "Kept"),
        (status = 401, description = "The token is wrong, or belongs to another job"),
    )
)]
pub(crate) async fn save_checkpoint(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = tokens::caller(&app, &call, id).await?;
    let known = app.store.job(id).await?;
    if known.is_none() {
        return Err(ApiError::job_not_found());
    }
    // Who proves that it is the job needs no order to stop.
    let proven = caller.lease.is_some() && call.params.filled("epoch").is_none();
    let epoch = if proven { None } else { Some(epoch(&app, id, &call).await?) };
    let content = checkpoints::receive(&app, id, body).await?;
    let (size, file) = match &content {
        Content::Bytes(bytes) => (bytes.len() as u64, None),
        Content::File { name, bytes } => (*bytes, Some(Arc::clone(name))),
        Content::Parts { bytes, .. } => (*bytes, None),
    };
    if size == 0 {
        return Err(ApiError::bad_request("empty_checkpoint", "checkpoint body is empty"));
    }
    let request_id = call.request_id;
    let command = Command::SaveCheckpoint { job: id, caller, epoch, content };
    match app.batcher.submit_one(command).await {
        Ok(outcome) => {
            if let Outcome::CheckpointSaved { replaced: Some(old) } = outcome {
                checkpoints::forget(&app, id, &old).await;
            }
            tracing::info!(job_id = %id, %request_id, preemption_epoch = epoch, bytes = size, "checkpoint saved");
            Ok(empty(StatusCode::OK))
        }
        Err(error) => {
            // A store that did not answer may have kept the name all the same.
            if let Some(file) = file.filter(|_| error.status == StatusCode::CONFLICT) {
                checkpoints::forget(&app, id, &file).await;
            }
            let reason = error.message.as_ref();
            tracing::info!(job_id = %id, %request_id, preemption_epoch = epoch, error = reason, "checkpoint rejected");
            Err(error)
        }
    }
}

/// The bytes of the checkpoint, exactly as they were sent.
#[utoipa::path(
    get, path = "/jobs/{id}/checkpoint", tag = "jobs", params(("id" = String, Path)),
    responses(
        (status = 200, description = "The checkpoint", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 204, description = "There is none"),
    )
)]
pub(crate) async fn get_checkpoint(
    State(app): State<Shared>,
    JobPath(id): JobPath,
) -> Result<Response, ApiError> {
    let view = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?;
    if let Some(name) = view.job.checkpoint_file.as_ref().filter(|name| name.starts_with(PARTS_PREFIX)) {
        let bytes = view.job.checkpoint_bytes.unwrap_or(0);
        let body = checkpoints::send_parts(Arc::clone(&app.store), Arc::clone(name), bytes);
        return Ok(with_type("application/octet-stream", StatusCode::OK, body));
    }
    if let Some(key) = view.job.checkpoint_file.as_deref().and_then(checkpoints::object) {
        let body = checkpoints::send_object(&app, &key).await?;
        return Ok(with_type("application/octet-stream", StatusCode::OK, body));
    }
    if let Some(name) = &view.job.checkpoint_file {
        let body = checkpoints::send(&app.logs.directory(id), name).await.map_err(|error| {
            tracing::error!(%error, job_id = %id, "a checkpoint could not be read");
            ApiError::checkpoint_elsewhere()
        })?;
        return Ok(with_type("application/octet-stream", StatusCode::OK, body));
    }
    match view.checkpoint.filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => Ok(with_type("application/octet-stream", StatusCode::OK, Body::from(bytes.to_vec()))),
        None => Ok(empty(StatusCode::NO_CONTENT)),
    }
}
