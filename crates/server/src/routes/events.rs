//! Events: the history of a job, and the live stream of everything.
//!
//! Guarantee: the stream reads the log in the store, so it also shows what other schedulers did and can be
//! resumed; see [`reader`] for readers that are slow.

mod live;
mod reader;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use muster_domain::JobId;
use muster_protocol::Event;
use muster_store::{EventFilter, StoreExt};

use self::live::live;
use self::reader::Reader;
use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json, with_type};
use crate::metrics::Open;
use crate::view;
use crate::visibility::Visibility;

/// The most events of one job in one answer.
const HISTORY: usize = 10_000;

/// What happened to a job, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/events", tag = "events",
    params(("id" = String, Path), ("after" = Option<u64>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, description = "The events", body = Vec<Event>))
)]
pub(crate) async fn job_events(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let after = call.params.integer("after")?.unwrap_or(0);
    let limit = call.params.integer::<usize>("limit")?.unwrap_or(HISTORY).clamp(1, HISTORY);
    let events = app.store.events(EventFilter { job: Some(id), after, limit }).await?;
    if events.is_empty() && app.store.job(id).await?.is_none() {
        return Err(ApiError::job_not_found());
    }
    let shown: Vec<Event> = events.iter().map(view::event).collect();
    json(StatusCode::OK, &shown)
}

/// All events as they happen, as server-sent events. A message `gap` stands where events were removed with
/// their jobs; `dropped` is the last word to a reader that was too slow: it can go on after its last event.
#[utoipa::path(
    get, path = "/events", tag = "events",
    params(
        ("after" = Option<u64>, Query, description = "Begin after this event; now when absent, 0 for all"),
        ("job_id" = Option<String>, Query), ("Last-Event-ID" = Option<String>, Header),
    ),
    responses(
        (status = 200, description = "An endless stream", content_type = "text/event-stream", body = String),
        (status = 503, description = "Too many readers, or the store is out of reach"),
    )
)]
pub(crate) async fn stream_events(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let Ok(permit) = Arc::clone(&app.event_readers).try_acquire_owned() else {
        app.metrics.event_reader_refused();
        return Err(ApiError::too_many_readers("events", app.config.bounds.event_readers));
    };
    let job = match call.params.filled("job_id") {
        Some(text) => Some(text.parse::<JobId>().map_err(|_| ApiError::job_not_found())?),
        None => None,
    };
    let resumed = call.header("last-event-id").and_then(|text| text.parse().ok());
    let after = resumed.or(call.params.integer("after")?);
    let principal = &call.identity.principal;
    if let (Some(job), Some(_)) = (job, after) {
        // The events of a job go with it: whoever comes back for them is told.
        let found = app.store.job(job).await?.ok_or_else(ApiError::job_not_found)?.job;
        if !Visibility::of_job(&app, principal, &found).await?.has(&found) {
            return Err(ApiError::job_not_found());
        }
    }
    let newest = app.store.last_event().await?;
    let after = after.unwrap_or(newest);
    let body = if call.is_head {
        Body::empty()
    } else {
        let open = Open::count(&app.metrics.bounds.event_readers);
        let reader = Reader::new(app, principal.clone(), job, after, newest);
        Body::from_stream(live(reader, (permit, open)))
    };
    let mut response = with_type("text/event-stream", StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
