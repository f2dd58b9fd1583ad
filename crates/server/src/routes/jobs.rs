//! Reads of single jobs.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::{Job, Why};
use muster_store::StoreExt;

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json};
use crate::view;
use crate::visibility::Visibility;

/// One job.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn get_job(State(app): State<Shared>, JobPath(id): JobPath) -> Result<Response, ApiError> {
    let view = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?;
    json(StatusCode::OK, &view::with_standing(&app, &view.job, view::job_view(&view)))
}

/// Why a job does not run, or what it does instead of waiting.
#[utoipa::path(
    get, path = "/jobs/{id}/why", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "Every reason", body = Why))
)]
pub(crate) async fn why(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let (job, explanation) =
        app.store.why(id, app.config.clock.now()).await?.ok_or_else(ApiError::job_not_found)?;
    let visibility = Visibility::of(&app, &call.identity.principal).await?;
    let explanation = visibility.redact_why(&app, explanation).await?;
    json(StatusCode::OK, &view::why(&job, &explanation))
}
