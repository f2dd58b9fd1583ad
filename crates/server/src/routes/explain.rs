//! `GET /explain`: the cluster as a whole.
//!
//! Guarantee: the cost depends on workers, on what runs and on kinds of jobs that wait, not on how many wait.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::Overview;
use muster_store::StoreExt;

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, json};
use crate::view;
use crate::visibility::Visibility;

/// What waits for what, who holds kept room, what is free and why nobody uses it.
#[utoipa::path(
    get, path = "/explain", tag = "system",
    responses((status = 200, description = "The cluster as a whole", body = Overview))
)]
pub(crate) async fn explain(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let found = app.store.overview(app.config.clock.now()).await?;
    let found = Visibility::of(&app, &call.identity.principal).await?.redact_overview(&app, found).await?;
    json(StatusCode::OK, &view::overview(&found))
}
