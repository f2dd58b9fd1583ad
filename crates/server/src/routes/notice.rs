//! `GET /notice`: whether the job that asks must save what it has and leave.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::{Phase, Span};
use muster_protocol::Notice;
use muster_store::StoreExt;

use crate::app::Shared;
use crate::clock::to_wire;
use crate::error::ApiError;
use crate::extract::{Call, empty, json};
use crate::{tokens, view};

/// The notice to the job whose token the request carries.
#[utoipa::path(
    get, path = "/notice", tag = "jobs",
    params(("Authorization" = Option<String>, Header, description = "`Bearer` and the token in `MUSTER_TOKEN`")),
    responses(
        (status = 200, description = "It must leave before the deadline", body = Notice),
        (status = 204, description = "It may go on"),
        (status = 401, description = "No token, or a wrong one", content_type = "text/plain", body = String),
        (status = 409, description = "The attempt that the token was for is over", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn get_notice(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let Some((id, lease)) = tokens::speaker(&app, &call).await? else {
        return Err(ApiError::unauthorized("a job's token is needed: send it as Authorization: Bearer"));
    };
    let job = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?.job;
    if job.lease != lease {
        return Err(muster_domain::Rejection::StaleLease { given: lease, current: job.lease }.into());
    }
    let Phase::Preempting { drain_started_at, stop, .. } = &job.phase else {
        return Ok(empty(StatusCode::NO_CONTENT));
    };
    let grace = job.spec.grace.unwrap_or_else(|| Span::from(app.config.grace));
    let notice = Notice {
        job_id: job.id.to_string(),
        status: view::status(job.status()),
        reason: stop.to_string(),
        preemption_epoch: job.preemption_epoch,
        deadline: to_wire(*drain_started_at + grace),
        comes_back: stop.comes_back(),
    };
    json(StatusCode::OK, &notice)
}
