//! Health, readiness, metrics and version of this instance.

use std::path::Path;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::{Health, Version};
use nix::sys::statvfs::statvfs;

use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::extract::{json, with_type};

const TEXT: &str = "text/plain; charset=utf-8";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// With less space than this, in bytes, a disk counts as full.
const LEAST_SPACE: u64 = 1024 * 1024;

use crate::duration;

/// Who this instance is and since when it runs.
#[utoipa::path(
    get, path = "/health", tag = "system", responses((status = 200, description = "It runs", body = Health))
)]
pub(crate) async fn health(State(app): State<Shared>) -> Result<Response, ApiError> {
    let health = Health {
        instance_id: app.instance_id.clone(),
        uptime: duration::uptime(app.started.elapsed()),
        status: "ok".to_owned(),
        version: VERSION.to_owned(),
        store: app.store.kind().to_owned(),
    };
    json(StatusCode::OK, &health)
}

/// Whether the HTTP loop runs. Never touches the store.
#[utoipa::path(
    get, path = "/healthz", tag = "system",
    responses((status = 200, description = "It runs", content_type = "text/plain", body = String))
)]
pub(crate) async fn healthz() -> Response {
    with_type(TEXT, StatusCode::OK, Body::from("ok\n"))
}

/// Whether the scheduler can do its work; if not, why.
#[utoipa::path(
    get, path = "/readyz", tag = "system",
    responses(
        (status = 200, description = "The store answers and has room", content_type = "text/plain", body = String),
        (status = 503, description = "Why it is not ready", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn readyz(State(app): State<Shared>) -> Response {
    match obstacle(&app).await {
        None => with_type(TEXT, StatusCode::OK, Body::from(format!("ok\n{}", remarks(&app)))),
        Some(why) => {
            with_type(TEXT, StatusCode::SERVICE_UNAVAILABLE, Body::from(format!("not ready: {why}\n")))
        }
    }
}

/// What is wrong although the scheduler does its work: jobs run without the blob store, and all schedulers share it.
fn remarks(app: &App) -> String {
    let outage = app.blobs.outage().map(|why| format!("the blob store is out of reach: {why}\n"));
    let moves = app.logs.moves.trouble().map(|why| format!("{why}\n"));
    outage.into_iter().chain(moves).collect()
}

/// What keeps this instance from its work.
async fn obstacle(app: &App) -> Option<String> {
    if *app.closing.borrow() {
        return Some("the scheduler is shutting down".to_owned());
    }
    if let Some(reason) = app.health.outage() {
        return Some(format!("the store is out of reach: {reason}"));
    }
    match tokio::time::timeout(app.config.readiness_timeout, app.store.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Some(error.to_string()),
        Err(_) => return Some("the store does not answer in time".to_owned()),
    }
    let directories = app.store.directory().into_iter().chain([app.config.data_dir.as_path()]);
    for directory in directories {
        if space_in(directory).is_some_and(|left| left < LEAST_SPACE) {
            return Some(format!("no space is left in {}", directory.display()));
        }
    }
    let place = app.health.full()?;
    if app.store.directory().is_some() {
        // There was none when something was written last, and there is some now.
        app.health.note_room();
        return None;
    }
    Some(format!("no space is left {place}"))
}

/// Bytes that can still be written in a directory.
fn space_in(directory: &Path) -> Option<u64> {
    let found = statvfs(directory).ok()?;
    Some(found.blocks_available().saturating_mul(found.fragment_size()))
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "system",
    responses((status = 200, description = "All metrics", content_type = "text/plain", body = String))
)]
pub(crate) async fn metrics(State(app): State<Shared>) -> Response {
    let free = app.bodies.available_permits();
    app.metrics.blobs.set(&app.blobs);
    app.metrics.bounds.body_bytes.set(app.config.bounds.body_memory.saturating_sub(free) as i64);
    let text = app.metrics.scrape(app.store.as_ref(), app.config.readiness_timeout).await;
    with_type("text/plain; version=0.0.4; charset=utf-8", StatusCode::OK, Body::from(text))
}

/// The version of this program.
#[utoipa::path(
    get, path = "/version", tag = "system", responses((status = 200, description = "The version", body = Version))
)]
pub(crate) async fn version() -> Result<Response, ApiError> {
    json(StatusCode::OK, &Version { version: VERSION.to_owned() })
}
