//! Links to artifacts that work without any other credential until they expire.
//!
//! Guarantee: a link leads to one artifact of one attempt; nobody without the secret of the store makes one.

use std::time::Duration;

use axum::extract::{RawPathParams, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use muster_domain::{Artifact, JobId, Lease, Span, Timestamp};
use muster_protocol::ArtifactUrl;
use muster_store::{ArtifactFilter, StoreExt as _};
use serde::{Deserialize, Serialize};

use crate::app::{App, Shared};
use crate::clock::to_wire as timestamp;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json};
use crate::settings::any_duration;
use crate::tokens::{same, signature};

use super::artifacts::{NamePath, find, presigned, send};

const DEFAULT: Duration = Duration::from_secs(3600);
/// The longest that S3 takes.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// Signatures for other uses begin differently.
const USE: &str = "artifact-link";

/// What a link says.
#[derive(Debug, Serialize, Deserialize)]
struct Link {
    job: JobId,
    lease: u64,
    name: String,
    /// Microseconds since the epoch.
    expires: i64,
}

/// Makes a link to an artifact that anybody can follow until it expires.
#[utoipa::path(
    post, path = "/jobs/{id}/artifacts/{name}/url", tag = "artifacts",
    params(
        ("id" = String, Path), ("name" = String, Path, description = "A relative path; `/` is written %2F"),
        ("attempt" = Option<u32>, Query),
        ("expires" = Option<String>, Query, description = "Such as 15m or 24h; 1h unless said, 7d at the most"),
    ),
    responses((status = 200, description = "The link", body = ArtifactUrl))
)]
pub(crate) async fn make_link(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    NamePath(name): NamePath,
    call: Call,
) -> Result<Response, ApiError> {
    let expires = expiry(&call)?;
    let artifact = find(&app, id, &name, &call).await?;
    let url = link(&app, &artifact, expires, &call).await?;
    let expires_at = app.config.clock.now() + Span::from(expires);
    json(StatusCode::OK, &ArtifactUrl { url, expires_at: timestamp(expires_at) })
}

/// A link to S3, or to the schedulers where the blob store is a directory.
pub(super) async fn link(
    app: &App,
    artifact: &Artifact,
    expires: Duration,
    call: &Call,
) -> Result<String, ApiError> {
    match presigned(app, artifact, expires) {
        Some(url) => Ok(url),
        None => own(app, artifact, app.config.clock.now() + Span::from(expires), call).await,
    }
}

fn expiry(call: &Call) -> Result<Duration, ApiError> {
    let Some(text) = call.params.filled("expires") else { return Ok(DEFAULT) };
    let wrong =
        |why: String| ApiError::bad_request("invalid_parameter", format!("expires: {why}")).at("expires");
    let expires = any_duration(text).map_err(wrong)?;
    if expires < Duration::from_secs(1) || expires > LONGEST {
        return Err(wrong("it must be from 1s to 7d".to_owned()));
    }
    Ok(expires)
}

/// A link that this scheduler, and every other one on the store, serves itself.
async fn own(app: &App, artifact: &Artifact, expires_at: Timestamp, call: &Call) -> Result<String, ApiError> {
    let link = Link {
        job: artifact.job,
        lease: artifact.lease.0,
        name: artifact.name.clone(),
        expires: expires_at.as_micros(),
    };
    let said = serde_json::to_vec(&link).map_err(|_| ApiError::internal())?;
    let said = URL_SAFE_NO_PAD.encode(said);
    let secret = app.tokens.secret(app).await?;
    let signed = signature(secret, &format!("{USE}.{said}"));
    let scheme = if app.tls.is_some() { "https" } else { "http" };
    // The name by which the caller reached us has passed the gate.
    let host = call.header("host").unwrap_or("localhost");
    let file = crate::oidc::escaped(artifact.name.rsplit('/').next().unwrap_or_default());
    Ok(format!("{scheme}://{host}/artifact-links/{said}.{signed}/{file}"))
}

/// The artifact behind a link.
#[utoipa::path(
    get, path = "/artifact-links/{token}/{file}", tag = "artifacts",
    params(
        ("token" = String, Path), ("file" = String, Path, description = "Only for people to read"),
        ("range" = Option<String>, Header),
    ),
    responses(
        (status = 200, description = "All of it", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "The range", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 403, description = "The link is wrong, or has expired"),
        (status = 410, description = "Its bytes are gone"),
        (status = 416, description = "The range lies behind the end"),
    )
)]
pub(crate) async fn follow_link(
    State(app): State<Shared>,
    params: RawPathParams,
    call: Call,
) -> Result<Response, ApiError> {
    let token = params.iter().find(|(key, _)| *key == "token").map_or("", |(_, value)| value);
    let (said, signed) = token.split_once('.').ok_or_else(ApiError::wrong_link)?;
    let secret = app.tokens.secret(&app).await?;
    if !same(signed.as_bytes(), signature(secret, &format!("{USE}.{said}")).as_bytes()) {
        return Err(ApiError::wrong_link());
    }
    let said = URL_SAFE_NO_PAD.decode(said).map_err(|_| ApiError::wrong_link())?;
    let link: Link = serde_json::from_slice(&said).map_err(|_| ApiError::wrong_link())?;
    if Timestamp::from_micros(link.expires) < app.config.clock.now() {
        return Err(ApiError::wrong_link());
    }
    let name = Some(link.name);
    let filter = ArtifactFilter { name, limit: 1, ..ArtifactFilter::of(link.job, Lease(link.lease)) };
    let found = app.store.artifacts(filter).await?.pop().ok_or_else(ApiError::artifact_not_found)?;
    send(&app, &found, &call.headers, call.is_head).await
}
