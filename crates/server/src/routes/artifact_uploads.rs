//! Artifacts that are sent straight to the blob store: where they go, and that they have arrived.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::Caller;
use muster_domain::JobId;
use muster_protocol::{ArtifactCompletion, ArtifactOffer, ArtifactPlaces, ArtifactsCompleted};
use serde::de::DeserializeOwned;

use crate::app::{App, Shared};
use crate::artifact_uploads::{MOST_FILES, complete, is_direct, places};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json};
use crate::tokens;

/// Tells the holder of an attempt where files are to be sent. A file with `part_size` goes there in parts: the first answer
/// names its upload and the parts that have arrived before, further ones the links of the parts that are asked for. Every
/// link takes only content with the SHA-256 that was announced, and works for an hour.
#[utoipa::path(
    post, path = "/jobs/{id}/artifact-uploads", tag = "artifacts", request_body = ArtifactOffer,
    params(("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query)),
    responses(
        (status = 200, description = "Where they go; `direct: false` leads them through the scheduler",
         body = ArtifactPlaces),
        (status = 401, description = "The token is wrong, or belongs to another job"),
        (status = 503, description = "The blob store is out of reach"),
    )
)]
pub(crate) async fn offer_artifacts(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let (caller, offer): (_, ArtifactOffer) = read(&app, id, &call, body).await?;
    check_count(offer.files.len())?;
    if !is_direct(&app).await {
        return json(StatusCode::OK, &ArtifactPlaces::default());
    }
    let files = places(&app, id, &caller, &offer.files).await?;
    json(StatusCode::OK, &ArtifactPlaces { direct: true, files })
}

/// Lists files that were sent, after the blob store has said that they are there as they were announced. Saying it again
/// does no harm.
#[utoipa::path(
    post, path = "/jobs/{id}/artifact-uploads/complete", tag = "artifacts", request_body = ArtifactCompletion,
    params(("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query)),
    responses(
        (status = 200, description = "What became of each", body = ArtifactsCompleted),
        (status = 401, description = "The token is wrong, or belongs to another job"),
        (status = 503, description = "The blob store is out of reach"),
    )
)]
pub(crate) async fn complete_artifacts(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let (caller, said): (_, ArtifactCompletion) = read(&app, id, &call, body).await?;
    check_count(said.files.len())?;
    let files = complete(&app, id, &caller, &said.files).await?;
    json(StatusCode::OK, &ArtifactsCompleted { files })
}

fn check_count(files: usize) -> Result<(), ApiError> {
    if files <= MOST_FILES {
        return Ok(());
    }
    let message = format!("{files} files are too many for one request: send {MOST_FILES} at the most");
    Err(ApiError::bad_request("invalid_parameter", message).at("files"))
}

/// The caller, who has to speak for an attempt, and the body.
async fn read<T: DeserializeOwned>(
    app: &App,
    id: JobId,
    call: &Call,
    body: Body,
) -> Result<(Caller, T), ApiError> {
    let caller = tokens::caller(app, call, id).await?;
    if caller.lease.is_none() {
        let message = "an artifact belongs to an attempt: give its lease, or show the token of the job";
        return Err(ApiError::bad_request("lease_required", message).at("lease"));
    }
    let bytes = read_body(app, body, app.config.limits.body).await?;
    let read = serde_json::from_slice(&bytes);
    let read = read.map_err(|error| ApiError::bad_request("invalid_body", format!("the body: {error}")))?;
    Ok((caller, read))
}
