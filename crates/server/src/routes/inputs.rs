//! Artifacts of needed jobs, as the worker that starts a job fetches them.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::{Job, JobId};
use muster_protocol::InputList;
use muster_store::StoreExt as _;

use super::artifacts::{NamePath, send};
use crate::app::{App, Shared};
use crate::artifact_inputs;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json};

async fn job(app: &App, id: JobId) -> Result<Job, ApiError> {
    app.store.job(id).await?.map(|view| view.job).ok_or_else(ApiError::job_not_found)
}

/// The artifacts that the job finds when it starts, and where.
#[utoipa::path(get, path = "/jobs/{id}/inputs", tag = "artifacts", params(("id" = String, Path)),
    responses(
        (status = 200, description = "All files", body = InputList),
        (status = 410, description = "One that was asked for is not there, and will not be"),
        (status = 503, description = "A needed job runs again: ask later"),
    ))]
pub(crate) async fn list_inputs(
    State(app): State<Shared>,
    JobPath(id): JobPath,
) -> Result<Response, ApiError> {
    let job = job(&app, id).await?;
    json(StatusCode::OK, &InputList { files: artifact_inputs::list(&app, &job).await? })
}

/// The bytes of an artifact that the job finds when it starts, or some of them.
#[utoipa::path(get, path = "/jobs/{id}/inputs/{name}", tag = "artifacts",
    params(
        ("id" = String, Path), ("name" = String, Path, description = "A relative path; `/` is written %2F"),
        ("from" = String, Query, description = "The job that left it"), ("range" = Option<String>, Header),
    ),
    responses(
        (status = 200, description = "All of it", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "The range", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 410, description = "It is no input of the job, or its bytes are gone"),
        (status = 416, description = "The range lies behind the end"),
    ))]
pub(crate) async fn get_input(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    NamePath(name): NamePath,
    call: Call,
) -> Result<Response, ApiError> {
    let from = call.params.filled("from").and_then(|from| from.parse().ok());
    let from: JobId = from.ok_or_else(|| {
        ApiError::bad_request("invalid_parameter", "from must be the id of the job that left the artifact")
            .at("from")
    })?;
    let artifact = artifact_inputs::find(&app, &job(&app, id).await?, from, &name).await?;
    send(&app, &artifact, &call.headers, call.is_head).await
}
