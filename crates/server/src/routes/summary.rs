//! `GET /summary`: how many jobs wait and run, for those who show it again and again.
//!
//! Guarantee: the cost depends on the jobs that have not ended, never on those that have.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::Summary;
use muster_store::StoreExt;

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::json;

/// Jobs that have not ended, by status and by queue.
#[utoipa::path(
    get, path = "/summary", tag = "system", responses((status = 200, description = "The numbers", body = Summary))
)]
pub(crate) async fn summary(State(app): State<Shared>) -> Result<Response, ApiError> {
    let counts = app.store.counts().await?;
    let jobs = counts.jobs.iter().map(|(status, count)| (status.as_str().to_owned(), *count)).collect();
    json(StatusCode::OK, &Summary { jobs, pending_by_queue: counts.pending_by_queue })
}
