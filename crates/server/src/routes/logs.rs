//! The output of jobs: uploads by workers, reads by people and programs.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, IF_RANGE, RANGE};
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use muster_domain::limits::MAX_ATTEMPTS;
use muster_domain::{Job, JobId, Lease};
use muster_protocol::{
    HEADER_LOG_LENGTH, HEADER_LOG_MISSING, HEADER_LOG_TIMES, LogAppended, LogMessage, LogRun, LogStream,
};
use muster_store::StoreExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, json, with_type};
use crate::logs::{
    Appended, Asked, Begin, Chunk, Cursor, Facts, Follow, Order, Reader, Selection, Served, Start, Tick, ask,
    live, parse_ticks, raw, serve,
};
use crate::metrics::Open;
use crate::params::{self, Params};
use crate::{moved_output, peers};

const KIND: &str = "application/octet-stream";
/// The most lines that can be asked for from the end.
const MOST_LINES: usize = 100_000;

fn wrong(field: &'static str, message: impl Into<std::borrow::Cow<'static, str>>) -> ApiError {
    ApiError::bad_request("invalid_parameter", message).at(field)
}

fn attempt(params: &Params, name: &'static str) -> Result<Option<u32>, ApiError> {
    match params.integer::<u32>(name)? {
        Some(attempt) if !(1..=MAX_ATTEMPTS).contains(&attempt) => {
            Err(wrong(name, format!("{name} must be from 1 to 1000")))
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

/// Where to begin: an offset, some lines before the end, or a time.
fn start(params: &Params) -> Result<Start, ApiError> {
    let (offset, tail) = (params.integer::<u64>("offset")?, params.integer::<usize>("tail")?);
    let since = params
        .filled("since")
        .map(str::parse::<Timestamp>)
        .transpose()
        .map_err(|_| wrong("since", "since must be a time such as 2026-05-05T08:33:00Z"))?;
    match (offset, tail, since) {
        (offset, None, None) => Ok(Start::Offset(offset.unwrap_or(0))),
        (None, Some(lines), None) if lines > MOST_LINES => {
            Err(wrong("tail", format!("tail must be at most {MOST_LINES} lines")))
        }
        (None, Some(lines), None) => Ok(Start::Tail(lines)),
        (None, None, Some(since)) => Ok(Start::Since(since.as_microsecond())),
        _ => Err(wrong("tail", "only one of offset, tail and since can be given")),
    }
}

/// Appends to the kept output of an attempt. Sending the same piece again does no harm.
#[utoipa::path(
    post, path = "/jobs/{id}/logs", tag = "logs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(
        ("id" = String, Path), ("lease" = u64, Query), ("attempt" = u32, Query),
        ("stream" = LogStream, Query), ("offset" = u64, Query),
        ("skip" = Option<bool>, Query, description = "What is missing before the piece is lost for good"),
        ("x-muster-log-times" = Option<String>, Header, description = "When the bytes were written: `END@MICROSECONDS` pairs"),
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
    let lease = params::lease(&call.params, &call.headers)?;
    admit(&app, id, lease).await?;
    let lease = lease.ok_or_else(|| wrong("lease", "lease is required"))?;
    let attempt = attempt(&call.params, "attempt")?.ok_or_else(|| wrong("attempt", "attempt is required"))?;
    let offset = call.params.integer("offset")?.ok_or_else(|| wrong("offset", "offset is required"))?;
    let stream = match streams(&call.params)?.as_slice() {
        [stream] => *stream,
        _ => return Err(wrong("stream", "stream must be stdout or stderr")),
    };
    let received = read_body(&app, body, app.config.limits.body).await?;
    // Not before: who sends slowly would keep the others waiting.
    let _room = app.logs.room().await.ok_or_else(ApiError::overloaded)?;
    let bytes = received.into_bytes();
    let end = u64::checked_add(offset, bytes.len() as u64);
    let end = end.ok_or_else(|| wrong("offset", "offset is too large"))?;
    let mut ticks = call.header(HEADER_LOG_TIMES).map(parse_ticks).unwrap_or_default();
    if ticks.is_empty() {
        ticks.push(Tick { end, micros: now_micros() });
    }
    let skip = call.params.flag("skip");
    app.metrics.log_received(bytes.len());
    keep(&app, Chunk { job: id, lease, attempt, stream, offset, bytes, skip, ticks }).await
}

fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Refuses jobs that nobody knows and leases that are over; asks the store now and then only.
async fn admit(app: &App, id: JobId, lease: Option<Lease>) -> Result<(), ApiError> {
    let now = Instant::now();
    if lease.is_some_and(|lease| app.logs.admissions.has(id, lease, now)) {
        return Ok(());
    }
    let job = app.store.job(id).await?.ok_or_else(ApiError::job_not_found)?.job;
    if let Some(lease) = lease {
        check_lease(&job, lease)?;
        app.logs.admissions.admit(id, lease, now);
    }
    Ok(())
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
///
/// Offsets and ranges count what the process wrote, also what is no longer kept. In a whole answer a line
/// says where bytes are missing; an answer to a range never reaches over such a place.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", tag = "logs",
    params(
        ("id" = String, Path), ("attempt" = Option<u32>, Query, description = "The last one when absent"),
        ("stream" = Option<String>, Query, description = "`stdout`, `stderr`, or `both` one after the other"),
        ("follow" = Option<bool>, Query, description = "Stay until the job has ended"),
        ("offset" = Option<u64>, Query, description = "Begin at this byte of each stream"),
        ("tail" = Option<u32>, Query, description = "Begin this many lines before the end"),
        ("since" = Option<String>, Query, description = "Begin with what was written at this time"),
        ("Range" = Option<String>, Header, description = "One range of bytes of one stream"),
    ),
    responses(
        (status = 200, description = "Raw bytes", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "A range of them", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 416, description = "Nothing of the range is kept", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn read_logs(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let job = known(&app, id).await?;
    let follow = call.params.flag("follow");
    let base = Selection::of(id, streams(&call.params)?);
    let attempt = attempt(&call.params, "attempt")?;
    let sight = moved_output::sight(&app, id).await?;
    let whereabouts = peers::locate(&app, &job, attempt, &call, &sight.moved).await?;
    if let Some(answer) = whereabouts.forward(&app, &call.target(&format!("/jobs/{id}/logs")), &call).await {
        return answer;
    }
    let mut selection = Selection { attempt, start: start(&call.params)?, onward: follow, ..base };
    let facts = match selection.streams.as_slice() {
        [stream] => {
            let facts = app.logs.facts(selection.clone(), *stream, &sight.moved).await;
            facts.map_err(|error| unreadable(&error))?
        }
        _ => None,
    };
    let mut response = with_type(KIND, StatusCode::OK, Body::empty());
    whereabouts.mark(&mut response);
    if let Some(facts) = &facts {
        describe(&mut response, facts);
        // Without a validator of ours nobody can know that the stream is still the same.
        let range =
            call.header(RANGE.as_str()).filter(|_| !follow && call.header(IF_RANGE.as_str()).is_none());
        match serve(if call.is_head { Asked::Whole } else { ask(range) }, facts) {
            Served::Whole => {}
            Served::Unsatisfiable => return Ok(unsatisfiable(facts)),
            Served::Part { first, last } => {
                part(&mut response, facts, first, last);
                selection = Selection {
                    attempt: Some(facts.run.attempt),
                    start: Start::Offset(first),
                    until: last.saturating_add(1),
                    ..selection
                };
            }
        }
    }
    if !call.is_head {
        let seat = if follow { Some(seat(&app)?) } else { None };
        let reader = Follow::new(app, Reader::new(selection), follow, sight).prime().await;
        *response.body_mut() = Body::from_stream(raw(reader.map_err(|error| out_of_reach(&error))?, seat));
    }
    Ok(response)
}

fn unreadable(error: &std::io::Error) -> ApiError {
    tracing::error!(%error, "output could not be read");
    ApiError::storage_unavailable()
}

fn out_of_reach(error: &std::io::Error) -> ApiError {
    tracing::warn!(%error, "moved output could not be read");
    ApiError::blobs_unavailable(
        "the output of this job lies in the blob store, which is out of reach: try again later",
    )
}

/// Says how long a stream is and what is missing.
fn describe(response: &mut Response, facts: &Facts) {
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(HEADER_LOG_LENGTH, HeaderValue::from(facts.length()));
    let missing = facts.missing().map(|(first, last)| format!("{first}-{last}"));
    if let Some(value) = missing.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(HEADER_LOG_MISSING, value);
    }
}

fn part(response: &mut Response, facts: &Facts, first: u64, last: u64) {
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(last - first + 1));
    if let Ok(value) = HeaderValue::from_str(&format!("bytes {first}-{last}/{}", facts.length())) {
        headers.insert(CONTENT_RANGE, value);
    }
}

fn unsatisfiable(facts: &Facts) -> Response {
    let length = facts.length();
    let error = ApiError {
        status: StatusCode::RANGE_NOT_SATISFIABLE,
        code: "range_not_satisfiable",
        field: None,
        message: format!("nothing of this range is kept; the stream has {length} bytes").into(),
        retry_after: None,
    };
    let mut response = error.into_response();
    describe(&mut response, facts);
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{length}")) {
        response.headers_mut().insert(CONTENT_RANGE, value);
    }
    response
}

/// The output of a job as server-sent events: `output` and `gap` in the order of writing, `end` when nothing
/// more can come, `dropped` when the reader was too slow.
///
/// Every message has an id with which a reader goes on after it, as `Last-Event-ID` or `cursor`; nothing is
/// lost or repeated then, also when the scheduler was restarted meanwhile.
#[utoipa::path(
    get, path = "/jobs/{id}/logs/stream", tag = "logs",
    params(
        ("id" = String, Path),
        ("attempt" = Option<u32>, Query, description = "Only this one; the last one when absent, and those after it when following"),
        ("from_lease" = Option<u64>, Query, description = "The run under this lease and those after it"),
        ("stream" = Option<String>, Query, description = "`stdout`, `stderr` or `both`"),
        ("follow" = Option<bool>, Query, description = "Stay until the job has ended"),
        ("timestamps" = Option<bool>, Query, description = "A message of its own for each time of writing"),
        ("tail" = Option<u32>, Query, description = "Begin this many lines before the end"),
        ("since" = Option<String>, Query, description = "Begin with what was written at this time, in any attempt"),
        ("cursor" = Option<String>, Query, description = "Go on after the message with this id"),
        ("Last-Event-ID" = Option<String>, Header),
    ),
    responses((status = 200, description = "A stream of `LogPiece` and `LogGap`", content_type = "text/event-stream", body = LogMessage))
)]
pub(crate) async fn stream_logs(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
) -> Result<Response, ApiError> {
    let job = known(&app, id).await?;
    let params = &call.params;
    let follow = params.flag("follow");
    let (attempt, from_lease) = (attempt(params, "attempt")?, params.integer("from_lease")?);
    let sight = moved_output::sight(&app, id).await?;
    let whereabouts = peers::locate(&app, &job, attempt, &call, &sight.moved).await?;
    if let Some(answer) =
        whereabouts.forward(&app, &call.target(&format!("/jobs/{id}/logs/stream")), &call).await
    {
        return answer;
    }
    let start = start(params)?;
    let since = matches!(start, Start::Since(_));
    // Runs that share an attempt number belong together, so that a named attempt begins with its first run.
    let oldest = attempt.is_some() || from_lease.is_some() || since;
    let selection = Selection {
        attempt,
        from_lease: from_lease.unwrap_or(0),
        begin: if oldest { Begin::Oldest } else { Begin::Newest },
        start,
        onward: follow || oldest,
        order: if params.flag("timestamps") { Order::Timed } else { Order::ByTime },
        ..Selection::of(id, streams(params)?)
    };
    let cursor = call.header("last-event-id").or_else(|| params.filled("cursor"));
    let reader = match cursor.map(str::parse::<Cursor>) {
        Some(Ok(cursor)) => Reader::resume(selection, cursor),
        Some(Err(())) => return Err(wrong("cursor", "cursor must be the id of a message of this stream")),
        None => Reader::new(selection),
    };
    let patience = app.config.log_reader_timeout;
    let body = if call.is_head {
        Body::empty()
    } else {
        let seat = seat(&app)?;
        let reader = Follow::new(app, reader, follow, sight).prime().await;
        Body::from_stream(live(reader.map_err(|error| out_of_reach(&error))?, patience, seat))
    };
    let mut response = with_type("text/event-stream", StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    whereabouts.mark(&mut response);
    Ok(response)
}

/// The output that this scheduler keeps of a job, by run. Others on the same store may keep more.
#[utoipa::path(
    get, path = "/jobs/{id}/logs/runs", tag = "logs", params(("id" = String, Path)),
    responses((status = 200, description = "Oldest first", body = Vec<LogRun>))
)]
pub(crate) async fn log_runs(State(app): State<Shared>, JobPath(id): JobPath) -> Result<Response, ApiError> {
    known(&app, id).await?;
    let runs = app.logs.runs(id).await.map_err(|error| unreadable(&error))?;
    let mut response = json(StatusCode::OK, &runs)?;
    app.peers.sign(&mut response);
    Ok(response)
}

/// A seat for a reader that stays.
fn seat(app: &App) -> Result<(OwnedSemaphorePermit, Open), ApiError> {
    let seat =
        app.logs.seat().ok_or_else(|| ApiError::too_many_readers("output", app.config.bounds.log_readers))?;
    Ok((seat, Open::count(&app.metrics.bounds.log_readers)))
}

async fn known(app: &App, id: JobId) -> Result<Job, ApiError> {
    app.store.job(id).await?.map(|view| view.job).ok_or_else(ApiError::job_not_found)
}
