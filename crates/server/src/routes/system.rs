//! Health, readiness, metrics and version of this instance.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::{Health, Version};

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{json, with_type};

const TEXT: &str = "text/plain; charset=utf-8";
const VERSION: &str = env!("CARGO_PKG_VERSION");

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

/// Whether the store answers.
#[utoipa::path(
    get, path = "/readyz", tag = "system",
    responses((status = 200, description = "The store answers", content_type = "text/plain", body = String))
)]
pub(crate) async fn readyz(State(app): State<Shared>) -> Response {
    let ready = !*app.closing.borrow()
        && matches!(tokio::time::timeout(app.config.readiness_timeout, app.store.ping()).await, Ok(Ok(())));
    if ready {
        with_type(TEXT, StatusCode::OK, Body::from("ok\n"))
    } else {
        with_type(TEXT, StatusCode::SERVICE_UNAVAILABLE, Body::from("not ready\n"))
    }
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "system",
    responses((status = 200, description = "All metrics", content_type = "text/plain", body = String))
)]
pub(crate) async fn metrics(State(app): State<Shared>) -> Response {
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
