//! The output of jobs: uploads by workers, reads by people.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::limits::MAX_ATTEMPTS;
use muster_domain::{Job, JobId, Lease};
use muster_protocol::{LogAppended, LogStream};
use muster_store::StoreExt;

use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json, read_body, with_type};
use crate::logs::{Appended, Chunk, Follow, Selection, follow, whole};
use crate::params::{self, Params};

const KIND: &str = "application/octet-stream";

fn wrong(field: &'static str, message: &'static str) -> ApiError {
    ApiError::bad_request("invalid_parameter", message).at(field)
}

fn attempt(params: &Params) -> Result<Option<u32>, ApiError> {
    match params.integer::<u32>("attempt")? {
        Some(attempt) if !(1..=MAX_ATTEMPTS).contains(&attempt) => {
            Err(wrong("attempt", "attempt must be from 1 to 1000"))
        }
        attempt => Ok(attempt),
    }
}

fn streams(params: &Params) -> Result<Vec<LogStream>, ApiError> {
    match params.filled("stream") {
        None | Some("both") => Ok(vec![LogStream::Stdout, LogStream::Stderr]),
        Some("stdout") => Ok(vec![LogStream::Stdout]),
        Some("stderr") => Ok(vec![LogStream::Stderr]),
        Some(_) => Err(wrong("stream", "stream must be stdout, stderr or both")),
    }
}

/// Appends to the kept output of an attempt. Sending the same piece again does no harm.
#[utoipa::path(
    post, path = "/jobs/{id}/logs", tag = "logs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(
        ("id" = String, Path), ("lease" = u64, Query), ("attempt" = u32, Query),
        ("stream" = LogStream, Query), ("offset" = u64, Query),
    ),
    responses(
        (status = 200, description = "Kept", body = LogAppended),
        (status = 409, description = "Something before the piece is missing", body = LogAppended),
    )
)]
pub(crate) async fn append_log(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let job = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?.job;
    let lease = params::lease(&call.params, &call.headers)?;
    let lease = lease.ok_or_else(|| wrong("lease", "lease is required"))?;
    let attempt = attempt(&call.params)?.ok_or_else(|| wrong("attempt", "attempt is required"))?;
    let offset = call.params.integer("offset")?.ok_or_else(|| wrong("offset", "offset is required"))?;
    let stream = match streams(&call.params)?.as_slice() {
        [stream] => *stream,
        _ => return Err(wrong("stream", "stream must be stdout or stderr")),
    };
    check_lease(&job, lease)?;
    let bytes = read_body(body, app.config.limits.body, app.config.body_timeout).await?;
    keep(&app, Chunk { job: id, lease, attempt, stream, offset, bytes }).await
}

/// The lease in force may write, and the one that ended last: its output may come after its report.
fn check_lease(job: &Job, lease: Lease) -> Result<(), ApiError> {
    if job.lease == lease || job.closed.is_some_and(|closed| closed.lease == lease) {
        return Ok(());
    }
    let current = job.lease;
    Err(muster_domain::Rejection::StaleLease { given: lease, current }.into())
}

async fn keep(app: &App, chunk: Chunk) -> Result<Response, ApiError> {
    match app.logs.append(chunk).await {
        Ok(Appended::Kept(kept)) => json(StatusCode::OK, &kept),
        Ok(Appended::Misplaced(kept)) => json(StatusCode::CONFLICT, &kept),
        Err(error) => {
            tracing::error!(%error, "output could not be kept");
            Err(ApiError::storage_unavailable())
        }
    }
}

/// The output of a job, as it was written.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", tag = "logs",
    params(
        ("id" = String, Path), ("attempt" = Option<u32>, Query, description = "The last one when absent"),
        ("stream" = Option<String>, Query, description = "`stdout`, `stderr` or `both`"),
        ("follow" = Option<bool>, Query, description = "Stay until the job has ended"),
    ),
    responses((status = 200, description = "Raw bytes", content_type = "application/octet-stream", body = Vec<u8>))
)]
pub(crate) async fn read_logs(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    known(&app, id).await?;
    let selection = Selection { job: id, attempt: attempt(&call.params)?, streams: streams(&call.params)? };
    let body = if call.is_head {
        Body::empty()
    } else if call.params.flag("follow") {
        Body::from_stream(follow(Follow::new(app, selection)))
    } else {
        Body::from_stream(whole(Arc::clone(&app.logs), selection))
    };
    Ok(with_type(KIND, StatusCode::OK, body))
}

async fn known(app: &App, id: JobId) -> Result<(), ApiError> {
    app.store.job(id).await?.map(|_| ()).ok_or_else(ApiError::job_not_found)
}
