//! Artifacts on their way through the scheduler: taken in, checked, listed.
//!
//! Guarantee: an artifact is listed when its bytes lie complete in the blob store, and what is not listed is removed; a
//! bounded number comes in at the same time, and the others wait unread.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use muster_blob::{BlobError, BlobKey, BlobStore, BoxError, Content, Expected, Sha256, Stored};
use muster_domain::{Artifact, ArtifactContent, Caller, Job, JobId, Rejection, speaks_for};
use muster_store::{ArtifactFilter, Command, KeepArtifacts, Outcome, StoreExt as _};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::error::ApiError;

/// How long an upload waits, unread, for its turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// The kind of a file whose name says nothing.
const UNKNOWN: &str = "application/octet-stream";

/// Uploads that come in at the same time. On their way to S3 each holds some parts in memory.
pub(crate) fn uploads_at_once(blobs: &BlobStore) -> usize {
    if blobs.is_direct() { 2 } else { 8 }
}

/// A file that is to be kept.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) job: JobId,
    pub(crate) caller: Caller,
    pub(crate) name: String,
    pub(crate) content_type: Option<String>,
    pub(crate) expected: Expected,
}

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the body did not arrive in time")]
    Slow,
    #[error("the connection broke off")]
    Off,
    #[error("the body has more than {0} bytes")]
    TooLarge(u64),
}

/// The folder of the blobs of a job.
pub(crate) fn folder(job: JobId) -> String {
    format!("artifacts/{}/", job.as_uuid().simple())
}

/// A key that nothing else has.
pub(crate) fn new_key(job: &Job) -> Result<BlobKey, ApiError> {
    let unique: u128 = rand::random();
    BlobKey::new(format!("{}{}/{unique:032x}", folder(job.id), job.lease.0)).map_err(|_| ApiError::internal())
}

/// Refuses callers who do not hold the job before anything is read.
pub(crate) async fn holder(app: &App, job: JobId, caller: &Caller) -> Result<Job, ApiError> {
    let job = app.store.job(job).await?.ok_or_else(ApiError::job_not_found)?.job;
    speaks_for(&job, caller)?;
    Ok(job)
}

/// Takes a file in.
pub(crate) async fn receive(app: &App, upload: Upload, body: Body) -> Result<Stored, ApiError> {
    let job = holder(app, upload.job, &upload.caller).await?;
    let announced = upload.expected.size.unwrap_or(0);
    let limit = app.config.blobs.artifact_limit;
    if let Some(limit) = limit.filter(|limit| announced > *limit) {
        return Err(ApiError::artifact_too_large(limit));
    }
    check_room(app, &job, &upload.name, announced).await?;
    let _turn = turn(app).await?;
    let key = new_key(&job)?;
    let content = content(body, app.config.body_timeout, limit);
    let stored = app.blobs.put(&key, content, upload.expected).await.map_err(refusal)?;
    let content = ArtifactContent::Kept {
        blob: key.as_str().to_owned(),
        size: stored.size,
        sha256: stored.sha256.to_string(),
        content_type: upload.content_type.unwrap_or_else(|| guess(&upload.name).to_owned()),
    };
    let listed = list(app, upload.job, upload.caller, vec![(upload.name, content)]).await;
    // A store that did not answer may have listed it all the same: then it is swept when nothing names it.
    if listed.as_ref().is_err_and(|error| error.status.is_client_error() || error.code == "artifacts_full") {
        remove(app, &[key.as_str().to_owned()]).await;
    }
    listed.map(|()| stored)
}

/// Lists what lies in the blob store, or says of files why they are missing.
pub(crate) async fn list(
    app: &App,
    job: JobId,
    caller: Caller,
    artifacts: Vec<(String, ArtifactContent)>,
) -> Result<(), ApiError> {
    let command = KeepArtifacts { job, caller, artifacts, bounds: app.config.blobs.bounds };
    match app.batcher.submit_one(Command::KeepArtifacts(command)).await? {
        Outcome::ArtifactsKept { replaced } => {
            remove(app, &replaced).await;
            Ok(())
        }
        _ => Err(ApiError::internal()),
    }
}

/// Removes blobs that nothing names. What cannot be removed now is swept later.
pub(crate) async fn remove(app: &App, blobs: &[String]) {
    for blob in blobs {
        let Ok(key) = BlobKey::new(blob.as_str()) else { continue };
        if let Err(error) = app.blobs.delete(&key).await {
            tracing::warn!(%error, blob, "an object could not be removed; it is swept later");
        }
    }
}

/// Removes the blobs of a job that is gone.
pub(crate) async fn remove_all(app: &App, job: JobId) {
    loop {
        let page = match app.blobs.list(&folder(job), None, 1000).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, job_id = %job, "artifacts could not be listed; they are swept later");
                return;
            }
        };
        for object in &page.objects {
            if let Err(error) = app.blobs.delete(&object.key).await {
                tracing::warn!(%error, job_id = %job, "an artifact could not be removed; it is swept later");
                return;
            }
        }
        if page.objects.is_empty() || page.next.is_none() {
            return;
        }
    }
}

/// Refuses what is too much already before it is sent; the transaction decides in the end.
pub(crate) async fn check_room(app: &App, job: &Job, name: &str, announced: u64) -> Result<(), ApiError> {
    let Some(limit) = app.config.blobs.bounds.job else { return Ok(()) };
    let runs = app.store.artifact_runs(job.id).await?;
    let used: u64 = runs.iter().map(|run| run.bytes).sum();
    // What it replaces makes room for it.
    let filter =
        ArtifactFilter { name: Some(name.to_owned()), limit: 1, ..ArtifactFilter::of(job.id, job.lease) };
    let freed = app.store.artifacts(filter).await?.first().map_or(0, Artifact::size);
    if used.saturating_sub(freed).saturating_add(announced) <= limit {
        return Ok(());
    }
    Err(Rejection::ArtifactsFull { who: "the job".to_owned(), used, wanted: announced, limit }.into())
}

async fn turn(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let waited = tokio::time::timeout(PATIENCE, Arc::clone(&app.uploads).acquire_owned()).await;
    match waited {
        Ok(Ok(turn)) => Ok(turn),
        _ => Err(ApiError::blobs_unavailable("too many uploads are under way: try again later")),
    }
}

/// The pieces of a body, each within its time.
pub(crate) fn content(body: Body, patience: Duration, limit: Option<u64>) -> Content<'static> {
    let pieces = futures::stream::unfold(Some((body, 0)), move |state| async move {
        let (mut body, mut size) = state?;
        match next(&mut body, patience).await {
            Ok(Some(piece)) => {
                size += piece.len() as u64;
                match limit.filter(|limit| size > *limit) {
                    Some(limit) => Some((Err(BoxError::from(Broken::TooLarge(limit))), None)),
                    None => Some((Ok(piece), Some((body, size)))),
                }
            }
            Ok(None) => None,
            Err(broken) => Some((Err(BoxError::from(broken)), None)),
        }
    });
    pieces.boxed()
}

async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, Broken> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| Broken::Slow)?;
        let Some(frame) = frame else { return Ok(None) };
        if let Ok(data) = frame.map_err(|_| Broken::Off)?.into_data() {
            return Ok(Some(data));
        }
    }
}

/// What a failure of the blob store means for the caller.
pub(crate) fn refusal(error: BlobError) -> ApiError {
    match error {
        BlobError::Source(source) => match source.downcast_ref::<Broken>() {
            Some(Broken::Slow) => ApiError::slow_body(),
            Some(Broken::TooLarge(limit)) => ApiError::artifact_too_large(*limit),
            _ => ApiError::unreadable_body(),
        },
        BlobError::WrongLength { .. }
        | BlobError::WrongDigest { .. }
        | BlobError::WrongChecksum { .. }
        | BlobError::TooLarge { .. } => ApiError::bad_request("wrong_content", error.to_string()),
        BlobError::NotFound { .. } => ApiError::artifact_gone(),
        _ => {
            tracing::error!(%error, "the blob store failed");
            let full = error.is_full();
            let message =
                if full { "no space is left in the blob store" } else { "the blob store is out of reach" };
            ApiError::blobs_unavailable(message)
        }
    }
}

/// The SHA-256 that a request announces.
pub(crate) fn announced(text: Option<&str>) -> Result<Option<Sha256>, ApiError> {
    let wrong =
        |error: muster_blob::InvalidSha256| ApiError::bad_request("invalid_parameter", error.to_string());
    text.map(str::parse).transpose().map_err(|error| wrong(error).at("sha256"))
}

/// The type that the end of a name stands for.
pub(crate) fn guess(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    match end.as_str() {
        "txt" | "log" | "out" | "err" | "md" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "html" | "htm" => "text/html; charset=utf-8",
        "xml" => "application/xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "zip" => "application/zip",
        "zst" => "application/zstd",
        "parquet" => "application/vnd.apache.parquet",
        _ => UNKNOWN,
    }
}
