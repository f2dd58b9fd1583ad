//! Uploads: directories and files that travel with jobs.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use http::request::Parts;
use http_body_util::BodyExt as _;
use muster_domain::{Inputs, JobId, Rejection, UploadRef};
use muster_protocol::{ChunkRequest, Upload, UploadLimits, UploadManifest};
use muster_store::{Command, Outcome, StoreExt as _, UploadCommand, UploadOutcome};
use muster_upload::{Digest, FrameReader, UploadError, check, manifest_id};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, empty, json, with_type};
use crate::uploads::{absent, keep_chunk, keep_whole, manifest, space_of, stream};

/// Bytes of chunks in one request.
const SENT_AT_ONCE: usize = 32 * 1024 * 1024;
/// Chunks that one request writes at the same time.
const WRITTEN_AT_ONCE: usize = 2;
/// Chunks that one request asks for.
const WANTED_AT_ONCE: usize = 64;

/// The upload that the path names.
#[derive(Debug)]
pub(crate) struct UploadPath(Digest);

impl FromRequestParts<Shared> for UploadPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await.ok();
        let named = params.as_ref().and_then(|params| params.iter().last()).map(|(_, value)| value);
        let named = named.unwrap_or_default();
        named.parse().map(Self).map_err(|_| Rejection::UploadNotFound { id: named.to_owned() }.into())
    }
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::TooMuch { .. } => {
                Self::refused(StatusCode::PAYLOAD_TOO_LARGE, "upload_too_large", error.to_string())
            }
            _ => Self::bad_request("invalid_upload", error.to_string()),
        }
    }
}

/// What one upload may have at most.
#[utoipa::path(get, path = "/uploads/limits", tag = "uploads",
    responses((status = 200, description = "The limits", body = UploadLimits)))]
pub(crate) async fn upload_limits(State(app): State<Shared>) -> Result<Response, ApiError> {
    let config = app.config.uploads;
    let limits =
        UploadLimits { bytes: config.bytes, entries: config.entries, stdin_bytes: config.stdin_bytes };
    json(StatusCode::OK, &limits)
}

/// Says what an upload consists of, and learns which chunks are to be sent. To say it again changes nothing, so that an
/// upload which broke off goes on where it was.
#[utoipa::path(post, path = "/uploads", tag = "uploads", request_body = UploadManifest,
    responses(
        (status = 200, description = "The upload with the chunks that are missing", body = Upload),
        (status = 413, description = "It has more bytes or files than are allowed"),
    ))]
pub(crate) async fn declare_upload(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.batch_body).await?;
    let _room = app.batches.acquire().await.map_err(|_| ApiError::shutting_down())?;
    let manifest: UploadManifest = serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::bad_request("invalid_upload", format!("the manifest: {error}")))?;
    drop(bytes);
    let totals = check(&manifest, &app.config.uploads.limits())?;
    let id = manifest_id(&manifest).to_string();
    let upload = UploadRef { space: space_of(&call.identity.principal), id: id.clone() };
    let declare = UploadCommand::Declare { upload: upload.clone(), files: totals.files, bytes: totals.bytes };
    let Outcome::Uploads(UploadOutcome::Declared { complete }) =
        app.batcher.submit_one(Command::Uploads(declare)).await?
    else {
        return Err(ApiError::internal());
    };
    let mut answer = Upload { id, complete, files: totals.files, bytes: totals.bytes, missing: Vec::new() };
    if !complete {
        // What is found from here on stays, because the upload is declared.
        keep_whole(&app, &upload, &manifest).await?;
        answer.missing = absent(&app, &upload.space, &manifest).await?;
    }
    json(StatusCode::OK, &answer)
}

/// Keeps chunks. Each is sent as its length (4 bytes, big-endian), its SHA-256 (32 bytes) and its bytes. What was sent before
/// may be sent again.
#[utoipa::path(post, path = "/uploads/{id}/chunks", tag = "uploads", params(("id" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 204, description = "All chunks of the body are kept"),
        (status = 404, description = "Nobody has declared the upload"),
    ))]
pub(crate) async fn send_chunks(
    State(app): State<Shared>,
    UploadPath(id): UploadPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let upload = UploadRef { space: space_of(&call.identity.principal), id: id.to_string() };
    if app.store.uploads(Some(vec![upload.clone()])).await?.is_empty() {
        return Err(Rejection::UploadNotFound { id: upload.id }.into());
    }
    let _place = app.upload_places.sender().await?;
    let patience = app.config.body_timeout;
    let read = receive(&app, &upload.space, body);
    tokio::time::timeout(patience * 2, read).await.unwrap_or_else(|_| Err(ApiError::slow_body()))?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Reads chunks and writes them, a few at a time; what cannot be written holds up what is read.
async fn receive(app: &App, space: &str, mut body: Body) -> Result<(), ApiError> {
    let (mut frames, mut writes, mut length) = (FrameReader::default(), FuturesUnordered::new(), 0);
    loop {
        let frame = tokio::time::timeout(app.config.body_timeout, body.frame()).await;
        let Some(frame) = frame.map_err(|_| ApiError::slow_body())? else { break };
        let Ok(piece) = frame.map_err(|_| ApiError::unreadable_body())?.into_data() else { continue };
        length += piece.len();
        if length > SENT_AT_ONCE {
            return Err(ApiError::too_large(SENT_AT_ONCE));
        }
        frames.push(&piece);
        while let Some((digest, chunk)) = frames.next_chunk()? {
            if writes.len() >= WRITTEN_AT_ONCE {
                writes.next().await.transpose()?;
            }
            writes.push(async move { keep_chunk(app, space, &digest, chunk).await });
        }
    }
    frames.finish()?;
    while writes.next().await.transpose()?.is_some() {}
    Ok(())
}

/// Says that every chunk was sent. When some are missing all the same, the answer names them and the upload is not complete.
#[utoipa::path(post, path = "/uploads/{id}/complete", tag = "uploads", params(("id" = String, Path)),
    responses(
        (status = 200, description = "The upload", body = Upload),
        (status = 404, description = "Nobody has declared the upload"),
    ))]
pub(crate) async fn complete_upload(
    State(app): State<Shared>,
    UploadPath(id): UploadPath,
    call: Call,
) -> Result<Response, ApiError> {
    let upload = UploadRef { space: space_of(&call.identity.principal), id: id.to_string() };
    let not_found = || ApiError::from(Rejection::UploadNotFound { id: upload.id.clone() });
    let known = app.store.uploads(Some(vec![upload.clone()])).await?.into_iter().next();
    let known = known.ok_or_else(not_found)?;
    let mut answer = Upload {
        id: upload.id.clone(),
        complete: known.complete,
        files: known.files,
        bytes: known.bytes,
        missing: Vec::new(),
    };
    if !known.complete {
        let bytes = manifest(&app, &upload).await?.ok_or_else(not_found)?;
        let manifest: UploadManifest = serde_json::from_slice(&bytes).map_err(|_| ApiError::internal())?;
        answer.missing = absent(&app, &upload.space, &manifest).await?;
        answer.complete = answer.missing.is_empty();
    }
    if answer.complete {
        app.batcher.submit_one(Command::Uploads(UploadCommand::Complete(upload))).await?;
    }
    json(StatusCode::OK, &answer)
}

/// The upload of a job that has this id.
async fn of_job(app: &App, job: JobId, id: &Digest) -> Result<UploadRef, ApiError> {
    let view = app.store.job(job).await?.ok_or_else(ApiError::job_not_found)?;
    let id = id.to_string();
    let inputs = view.job.spec.inputs.as_deref();
    let found = inputs.into_iter().flat_map(Inputs::uploads).find(|upload| upload.id == id);
    found.cloned().ok_or_else(|| Rejection::UploadNotFound { id }.into())
}

/// What an upload that the job names consists of.
#[utoipa::path(get, path = "/jobs/{id}/uploads/{upload}", tag = "uploads",
    params(("id" = String, Path), ("upload" = String, Path)),
    responses((status = 200, description = "The manifest", body = UploadManifest)))]
pub(crate) async fn get_job_upload(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    UploadPath(id): UploadPath,
) -> Result<Response, ApiError> {
    let upload = of_job(&app, job, &id).await?;
    let bytes = manifest(&app, &upload).await?;
    let bytes = bytes.ok_or_else(|| ApiError::from(Rejection::UploadNotFound { id: upload.id }))?;
    Ok(with_type("application/json", StatusCode::OK, Body::from(bytes)))
}

/// Some chunks of an upload that the job names, each as its length (4 bytes, big-endian), its SHA-256 (32 bytes) and its
/// bytes.
#[utoipa::path(post, path = "/jobs/{id}/uploads/{upload}/chunks", tag = "uploads",
    params(("id" = String, Path), ("upload" = String, Path)), request_body = ChunkRequest,
    responses((status = 200, description = "The chunks", content_type = "application/octet-stream", body = Vec<u8>)))]
pub(crate) async fn read_job_chunks(
    State(app): State<Shared>,
    JobPath(job): JobPath,
    UploadPath(id): UploadPath,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let request: ChunkRequest = serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::bad_request("invalid_body", format!("the body: {error}")))?;
    if request.chunks.len() > WANTED_AT_ONCE {
        return Err(ApiError::over_limit("chunks", WANTED_AT_ONCE, "entries"));
    }
    let wanted = request.chunks.iter().map(|chunk| chunk.parse()).collect::<Result<Vec<Digest>, _>>()?;
    let upload = of_job(&app, job, &id).await?;
    let place = app.upload_places.reader().await?;
    let body = stream(app, upload.space, wanted, place);
    Ok(with_type("application/octet-stream", StatusCode::OK, body))
}
