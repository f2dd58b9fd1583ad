//! Artifacts of jobs: handed in by whoever holds the lease, listed and read by people and programs.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::response::Response;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use muster_blob::{BlobKey, ByteRange, Expected, Presigned};
use muster_domain::{Artifact, ArtifactContent, JobId, check_artifact_name};
use muster_protocol as wire;
use muster_store::{ArtifactFilter, ArtifactRun, StoreExt as _};

use crate::app::{App, Shared};
use crate::artifacts::{self, Upload};
use crate::clock::to_wire as timestamp;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, empty, json};
use crate::logs::{Asked, ask};
use crate::tokens;

use super::artifact_links;

/// How long a link lives that an answer redirects to.
const REDIRECT: std::time::Duration = std::time::Duration::from_secs(900);
/// How long the link lives that stands in a list.
const LISTED: std::time::Duration = std::time::Duration::from_secs(3600);
/// Bytes of a note why a file is missing.
const NOTE_BYTES: usize = 512;

/// The name of the artifact that the path names.
#[derive(Debug)]
pub(crate) struct NamePath(pub(crate) String);

impl FromRequestParts<Shared> for NamePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await.ok();
        let named = params.as_ref().and_then(|params| params.iter().find(|(key, _)| *key == "name"));
        let name = named.map(|(_, value)| value.to_owned()).unwrap_or_default();
        let wrong =
            |why| ApiError::bad_request("invalid_name", format!("{name:?} cannot name an artifact: {why}"));
        check_artifact_name(&name).map_err(|why| wrong(why).at("name"))?;
        Ok(Self(name))
    }
}

/// The attempt that is asked for, or the last one that left anything.
pub(super) async fn run(app: &App, job: JobId, call: &Call) -> Result<Option<ArtifactRun>, ApiError> {
    let wanted = call.params.integer::<u32>("attempt")?;
    let runs = app.store.artifact_runs(job).await?;
    Ok(runs.into_iter().find(|run| wanted.is_none_or(|wanted| run.attempt == wanted)))
}

/// What an attempt of a job left: the last attempt that left anything, or the one asked for.
#[utoipa::path(
    get, path = "/jobs/{id}/artifacts", tag = "artifacts",
    params(
        ("id" = String, Path), ("attempt" = Option<u32>, Query),
        ("after" = Option<String>, Query, description = "`next` of the page before"),
        ("limit" = Option<usize>, Query, description = "1000 at the most"),
    ),
    responses(
        (status = 200, description = "Its artifacts by name", body = wire::ArtifactList),
        (status = 404, description = "There is no such job, or it has no artifacts; then with an empty list",
         body = wire::ArtifactList),
    )
)]
pub(crate) async fn list_artifacts(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    if app.store.job(id).await?.is_none() {
        return Err(ApiError::job_not_found());
    }
    let most = app.config.limits.page;
    let limit = call.params.integer::<usize>("limit")?.unwrap_or(most).clamp(1, most);
    let runs = app.store.artifact_runs(id).await?;
    let mut attempts: Vec<u32> = runs.iter().map(|run| run.attempt).collect();
    attempts.dedup();
    let Some(run) = run(&app, id, &call).await? else {
        let none = wire::ArtifactList {
            artifacts: Vec::new(),
            attempt: None,
            attempts,
            files: 0,
            bytes: 0,
            missing: 0,
            next: None,
            object_key: None,
            download_url: None,
            expires_in: None,
        };
        return none_of(&none);
    };
    let after = call.params.filled("after").map(str::to_owned);
    let filter = ArtifactFilter { after, limit: limit + 1, ..ArtifactFilter::of(id, run.lease) };
    let mut found = app.store.artifacts(filter).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let first = found.iter().find(|artifact| artifact.blob().is_some());
    let download_url = match first {
        Some(first) => Some(artifact_links::link(&app, first, LISTED, &call).await?),
        None => None,
    };
    let object_key = first.and_then(Artifact::blob).map(str::to_owned);
    let list = wire::ArtifactList {
        next: found.last().filter(|_| more).map(|last| last.name.clone()),
        artifacts: found.into_iter().map(shown).collect(),
        attempt: Some(run.attempt),
        attempts,
        files: run.files,
        bytes: run.bytes,
        missing: run.missing,
        object_key,
        expires_in: download_url.is_some().then(|| "1h".to_owned()),
        download_url,
    };
    json(StatusCode::OK, &list)
}

/// A job without artifacts, as clients of one artifact for each job and clients of many read it.
fn none_of(list: &wire::ArtifactList) -> Result<Response, ApiError> {
    #[derive(serde::Serialize)]
    struct None<'a> {
        error: &'static str,
        #[serde(flatten)]
        list: &'a wire::ArtifactList,
    }
    json(StatusCode::NOT_FOUND, &None { error: "no artifacts for this job", list })
}

fn shown(artifact: Artifact) -> wire::Artifact {
    let (name, attempt, at) = (artifact.name, artifact.attempt, timestamp(artifact.at));
    match artifact.content {
        ArtifactContent::Kept { size, sha256, content_type, .. } => wire::Artifact {
            name,
            attempt,
            size: Some(size),
            sha256: Some(sha256),
            content_type: Some(content_type),
            at,
            missing: None,
            removed_at: None,
        },
        ArtifactContent::Missing { why } => wire::Artifact {
            name,
            attempt,
            size: None,
            sha256: None,
            content_type: None,
            at,
            missing: Some(why),
            removed_at: None,
        },
        ArtifactContent::Removed { at: removed } => wire::Artifact {
            name,
            attempt,
            size: None,
            sha256: None,
            content_type: None,
            at,
            missing: None,
            removed_at: Some(timestamp(removed)),
        },
    }
}

/// Keeps a file of the attempt whose lease the caller holds; a worker, or the job itself by its token. Sending the same
/// again does no harm. With `missing` nothing is kept but the note why the file could not be.
#[utoipa::path(
    put, path = "/jobs/{id}/artifacts/{name}", tag = "artifacts",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(
        ("id" = String, Path), ("name" = String, Path, description = "A relative path; `/` is written %2F"),
        ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
        ("size" = Option<u64>, Query, description = "Bytes of the body; what has another length is refused"),
        ("sha256" = Option<String>, Query, description = "Of the body; what has another one is refused"),
        ("missing" = Option<String>, Query, description = "Why the file cannot be kept"),
    ),
    responses(
        (status = 200, description = "What was kept; nothing with `missing`", body = wire::ArtifactKept),
        (status = 401, description = "The token is wrong, or belongs to another job"),
    )
)]
pub(crate) async fn put_artifact(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    NamePath(name): NamePath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = tokens::caller(&app, &call, id).await?;
    if caller.lease.is_none() {
        let message = "an artifact belongs to an attempt: give its lease, or show the token of the job";
        return Err(ApiError::bad_request("lease_required", message).at("lease"));
    }
    if let Some(why) = call.params.filled("missing") {
        let why = why.chars().filter(|c| !c.is_control()).take(NOTE_BYTES / 4).collect();
        artifacts::list(&app, id, caller, vec![(name, ArtifactContent::Missing { why })]).await?;
        return Ok(empty(StatusCode::OK));
    }
    let content_type = call.header("content-type").filter(|kind| is_specific(kind)).map(str::to_owned);
    let length = call.header("content-length").and_then(|length| length.parse().ok());
    let size = call.params.integer("size")?.or(length);
    let expected = Expected { size, sha256: artifacts::announced(call.params.filled("sha256"))? };
    let upload = Upload { job: id, caller, name, content_type, expected };
    let stored = artifacts::receive(&app, upload, body).await?;
    json(StatusCode::OK, &wire::ArtifactKept { size: stored.size, sha256: stored.sha256.to_string() })
}

/// Whether a content type says more than what clients send by default.
fn is_specific(kind: &str) -> bool {
    kind.len() <= 128
        && !kind.starts_with("application/octet-stream")
        && !kind.starts_with("application/x-www-form-urlencoded")
}

/// The bytes of an artifact, or some of them. With S3 the answer leads there, unless `redirect=false`.
#[utoipa::path(
    get, path = "/jobs/{id}/artifacts/{name}", tag = "artifacts",
    params(
        ("id" = String, Path), ("name" = String, Path, description = "A relative path; `/` is written %2F"),
        ("attempt" = Option<u32>, Query), ("range" = Option<String>, Header),
        ("redirect" = Option<bool>, Query, description = "false: answer with the bytes in any case"),
    ),
    responses(
        (status = 200, description = "All of it", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "The range", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 307, description = "Where the bytes are, for 15 minutes"),
        (status = 410, description = "Its bytes are gone"),
        (status = 416, description = "The range lies behind the end"),
    )
)]
pub(crate) async fn get_artifact(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    NamePath(name): NamePath,
    call: Call,
) -> Result<Response, ApiError> {
    let artifact = find(&app, id, &name, &call).await?;
    let stays = call.params.get("redirect") == Some("false");
    if !stays && let Some(url) = presigned(&app, &artifact, REDIRECT) {
        let mut response = empty(StatusCode::TEMPORARY_REDIRECT);
        response.headers_mut().insert(LOCATION, value(&url)?);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok(response);
    }
    send(&app, &artifact, &call.headers, call.is_head).await
}

/// The artifact that is meant; one that is missing says why.
pub(super) async fn find(app: &App, job: JobId, name: &str, call: &Call) -> Result<Artifact, ApiError> {
    if app.store.job(job).await?.is_none() {
        return Err(ApiError::job_not_found());
    }
    let run = run(app, job, call).await?.ok_or_else(ApiError::artifact_not_found)?;
    let filter =
        ArtifactFilter { name: Some(name.to_owned()), limit: 1, ..ArtifactFilter::of(job, run.lease) };
    let found = app.store.artifacts(filter).await?.pop().ok_or_else(ApiError::artifact_not_found)?;
    match &found.content {
        ArtifactContent::Kept { .. } => Ok(found),
        ArtifactContent::Missing { why } => {
            let message = format!("the artifact could not be kept: {why}");
            Err(ApiError { message: message.into(), ..ApiError::artifact_not_found() })
        }
        ArtifactContent::Removed { at } => {
            let message = format!("the artifact was removed at {} (--artifact-retention)", timestamp(*at));
            Err(ApiError { message: message.into(), ..ApiError::artifact_gone() })
        }
    }
}

/// A link to S3; `None` with a directory.
pub(super) fn presigned(app: &App, artifact: &Artifact, expires: std::time::Duration) -> Option<String> {
    let ArtifactContent::Kept { blob, content_type, .. } = &artifact.content else { return None };
    let key = BlobKey::new(blob.as_str()).ok()?;
    let disposition = Some(disposition(&artifact.name));
    let link = Presigned { expires, content_type: Some(content_type.clone()), disposition };
    app.blobs.presigned_get(&key, &link)
}

fn value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(|_| ApiError::internal())
}

/// For browsers: a file to be kept, under the last part of its name.
fn disposition(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let plain: String =
        file.chars().map(|c| if c.is_ascii_graphic() && !"\"\\%;".contains(c) { c } else { '_' }).collect();
    let escaped = crate::oidc::escaped(file);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{escaped}")
}

/// Answers with the bytes.
pub(super) async fn send(
    app: &App,
    artifact: &Artifact,
    headers: &HeaderMap,
    is_head: bool,
) -> Result<Response, ApiError> {
    let ArtifactContent::Kept { blob, size, sha256, content_type } = &artifact.content else {
        return Err(ApiError::artifact_not_found());
    };
    let size = *size;
    let range = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let (first, end) = match ask(range) {
        Asked::Whole => (0, size),
        Asked::From { first, last } => (first, last.saturating_add(1).min(size)),
        Asked::Last(count) => (size.saturating_sub(count), size),
    };
    let is_part = range.is_some() && ask(range) != Asked::Whole;
    let mut response = Response::new(Body::empty());
    let mut put = |name: HeaderName, text: &str| -> Result<(), ApiError> {
        response.headers_mut().insert(name, value(text)?);
        Ok(())
    };
    put(ACCEPT_RANGES, "bytes")?;
    put(CACHE_CONTROL, "private, no-cache")?;
    put(X_CONTENT_TYPE_OPTIONS, "nosniff")?;
    put(CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'")?;
    put(CONTENT_DISPOSITION, &disposition(&artifact.name))?;
    put(ETAG, &format!("\"{sha256}\""))?;
    if is_part && first >= end {
        put(CONTENT_RANGE, &format!("bytes */{size}"))?;
        *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
        return Ok(response);
    }
    put(CONTENT_TYPE, content_type)?;
    put(CONTENT_LENGTH, &(end - first).to_string())?;
    if is_part {
        put(CONTENT_RANGE, &format!("bytes {first}-{}/{size}", end - 1))?;
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    if !is_head {
        let key = BlobKey::new(blob.as_str()).map_err(|_| ApiError::internal())?;
        let range = ByteRange { start: first, end: Some(end) };
        let reader = app.blobs.get(&key, Some(range)).await.map_err(artifacts::refusal)?;
        *response.body_mut() = Body::from_stream(reader.body);
    }
    Ok(response)
}
