//! Events: the history of a job, and the live stream of everything.
//!
//! Guarantee: the stream reads the log in the store, so it also shows what other schedulers did and can
//! be resumed; one that is read slowly costs one page of memory.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use muster_domain::JobId;
use muster_protocol::Event;
use muster_store::{EventFilter, StoreExt};
use tokio::sync::watch;

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json, with_type};
use crate::view;

/// Events that are read at a time.
const PAGE: usize = 256;
/// A silent stream sends a comment this often, so that both ends notice when the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Also without a wake-up the log is looked at this often.
const SAFETY: Duration = Duration::from_secs(5);
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

/// All events as they happen, as server-sent events.
#[utoipa::path(
    get, path = "/events", tag = "events",
    params(
        ("after" = Option<u64>, Query, description = "Begin after this event; now when absent, 0 for all"),
        ("job_id" = Option<String>, Query), ("Last-Event-ID" = Option<String>, Header),
    ),
    responses((status = 200, description = "An endless stream", content_type = "text/event-stream", body = String))
)]
pub(crate) async fn stream_events(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let job = match call.params.filled("job_id") {
        Some(text) => Some(text.parse::<JobId>().map_err(|_| ApiError::job_not_found())?),
        None => None,
    };
    let resumed = call.header("last-event-id").and_then(|text| text.parse().ok());
    let after = match resumed.or(call.params.integer("after")?) {
        Some(after) => after,
        None => app.store.last_event().await?,
    };
    let body = if call.is_head {
        Body::empty()
    } else {
        let feed = app.hub.event_feed();
        Body::from_stream(stream(Stream { app, job, after, feed, opened: false }))
    };
    let mut response = with_type("text/event-stream", StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// One reader of the live stream.
struct Stream {
    app: Shared,
    job: Option<JobId>,
    after: u64,
    feed: watch::Receiver<u64>,
    opened: bool,
}

fn stream(reader: Stream) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(reader, |mut reader| async move {
        let text = reader.next().await?;
        Some((Ok(Bytes::from(text)), reader))
    })
}

impl Stream {
    /// The next piece of the stream; `None` when the scheduler shuts down.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.opened, true) {
            // The head of the answer leaves with the first bytes.
            return Some(": muster events\n\n".to_owned());
        }
        let mut silent = Duration::ZERO;
        loop {
            self.feed.mark_unchanged();
            if *self.app.closing.borrow() {
                return None;
            }
            let text = self.read().await;
            if !text.is_empty() {
                return Some(text);
            }
            tokio::select! {
                changed = self.feed.changed() => changed.ok()?,
                () = tokio::time::sleep(SAFETY) => silent += SAFETY,
                () = self.app.closed() => return None,
            }
            if silent >= KEEP_ALIVE {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    /// New events as text. A store that does not answer is asked again at the next occasion.
    async fn read(&mut self) -> String {
        let filter = EventFilter { job: self.job, after: self.after, limit: PAGE };
        let events = match self.app.store.events(filter).await {
            Ok(events) => events,
            Err(error) => {
                self.app.metrics.store_error();
                tracing::warn!(%error, "the event stream could not read the store");
                return String::new();
            }
        };
        let mut text = String::new();
        for event in &events {
            self.after = self.after.max(event.seq);
            if let Ok(data) = serde_json::to_string(&view::event(event)) {
                let name = event.kind.name();
                // Writing to a string cannot fail.
                let _ = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", event.seq);
            }
        }
        text
    }
}
