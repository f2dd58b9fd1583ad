//! Arrays: one job, many elements, one id.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::SetKind;
use muster_protocol::{ArrayRequest, BulkResult, HEADER_IDEMPOTENCY_KEY, JobSet};
use serde_json::Value;

use super::bulk::Verb;
use super::pipelines::{change, find, list, take};
use crate::app::Shared;
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, SetPath, json};
use crate::lenient::{self, Reading, lenient_object};
use crate::set_submission::{Array, Elements};
use crate::submission::SubmitBody;
use crate::view;

lenient_object! {
    /// What differs between elements; the rest of the body is the job.
    struct ArrayBody {
        indices: String = "indices",
        items: Vec<Value> = "items",
        max_parallel: u32 = "max_parallel",
    }
}

/// Submits an array: every element or none.
#[utoipa::path(
    post, path = "/arrays", tag = "arrays", request_body = ArrayRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the submit safe to repeat")),
    responses(
        (status = 201, description = "The array was taken", body = JobSet),
        (status = 200, description = "The array that the key names", body = JobSet),
    )
)]
pub(crate) async fn submit_array(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.batch_body).await?;
    let given: ArrayBody = lenient::decode(&bytes, Reading::Lenient)?;
    let job: SubmitBody = lenient::decode_beside(&bytes, call.reading(), ArrayBody::KEYS)?;
    let job = job.into_new_job(&app.config)?;
    drop(bytes);
    let elements = match (given.indices.filter(|text| !text.is_empty()), given.items.unwrap_or_default()) {
        (Some(_), items) if !items.is_empty() => {
            let message = "give indices or items, not both";
            return Err(ApiError::bad_request("invalid_field", message).at("items"));
        }
        (Some(text), _) => {
            let indices = muster_document::parse_indices(&text);
            Elements::Indices(indices.map_err(|message| ApiError::invalid_field("indices", message))?)
        }
        (None, items) => Elements::Items(items),
    };
    let key = call.header(HEADER_IDEMPOTENCY_KEY).map(str::to_owned);
    let array = Array { job, elements, max_parallel: given.max_parallel, key };
    let (_, submit) = array.create(&app.config)?;
    let taken = take(&app, &call, submit).await?;
    tracing::info!(set_id = %taken.id, request_id = %call.request_id, size = taken.size, "array submitted");
    let mut shown = view::set(&find(&app, &call, taken.id, SetKind::Array).await?);
    shown.repeated = taken.repeated;
    shown.warnings = taken.warnings;
    json(if taken.repeated { StatusCode::OK } else { StatusCode::CREATED }, &shown)
}

/// Arrays, newest first.
#[utoipa::path(
    get, path = "/arrays", tag = "arrays",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "A page of arrays", body = Vec<JobSet>))
)]
pub(crate) async fn list_arrays(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    list(&app, &call, SetKind::Array).await
}

/// One array with the states of its elements; `GET /jobs?array=ID` lists them.
#[utoipa::path(
    get, path = "/arrays/{id}", tag = "arrays", params(("id" = String, Path)),
    responses((status = 200, description = "The array", body = JobSet))
)]
pub(crate) async fn get_array(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
) -> Result<Response, ApiError> {
    json(StatusCode::OK, &view::set(&find(&app, &call, id, SetKind::Array).await?))
}

/// Cancels every unfinished element.
#[utoipa::path(
    post, path = "/arrays/{id}/cancel", tag = "arrays",
    params(
        ("id" = String, Path), ("message" = Option<String>, Query, description = "Why"),
        ("dry_run" = Option<bool>, Query, description = "Only say what would end"),
    ),
    responses((status = 200, description = "What was ended and what was told to stop", body = BulkResult))
)]
pub(crate) async fn cancel_array(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
) -> Result<Response, ApiError> {
    find(&app, &call, id, SetKind::Array).await?;
    change(&app, id, Verb::Cancel, &call).await
}

/// Runs every failed and cancelled element again.
#[utoipa::path(
    post, path = "/arrays/{id}/retry", tag = "arrays",
    params(("id" = String, Path), ("dry_run" = Option<bool>, Query, description = "Only say what would run")),
    responses((status = 200, description = "What runs again", body = BulkResult))
)]
pub(crate) async fn retry_array(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
) -> Result<Response, ApiError> {
    find(&app, &call, id, SetKind::Array).await?;
    change(&app, id, Verb::Retry, &call).await
}
