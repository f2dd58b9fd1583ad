//! `GET /jobs`: the whole list, or a page of it.
//!
//! Guarantee: however long the list, only one page of it is in memory; a client that reads slowly slows
//! the reading from the store.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderName, HeaderValue, StatusCode};
use muster_domain::{QueueName, SetId, Span, Status, Timestamp, WorkerId};
use muster_protocol::{HEADER_NEXT_CURSOR, Job};
use muster_store::{JobFilter, JobPage, StoreError, StoreExt};

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, with_type};
use crate::params::Params;
use crate::{clock, duration, view};

/// Jobs that are read at a time while a list is streamed.
const STREAM_PAGE: usize = 500;

/// Lists jobs, newest first. Without `limit` the list is complete.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs",
    params(
        ("status" = Option<String>, Query, description = "One status or several, separated by commas"),
        ("queue" = Option<String>, Query), ("name" = Option<String>, Query),
        ("tag" = Option<String>, Query, description = "A tag that the job requires"),
        ("worker" = Option<String>, Query, description = "The worker that has the job, or had it last"),
        ("since" = Option<String>, Query, description = "A time (RFC 3339) or an age such as `1h`"),
        ("pipeline" = Option<String>, Query, description = "Only jobs of this pipeline"),
        ("array" = Option<String>, Query, description = "Only elements of this array"),
        ("step" = Option<String>, Query, description = "Only jobs of this step of a pipeline"),
        ("limit" = Option<u32>, Query, description = "At most this many, and fewer where much was passed over that the caller may not see; `X-Next-Cursor` continues the list"),
        ("cursor" = Option<String>, Query),
    ),
    responses((
        status = 200, description = "The jobs", body = Vec<Job>,
        headers(("X-Next-Cursor" = Option<String>, description = "Absent on the last page")),
    ))
)]
pub(crate) async fn list_jobs(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let limit = limit(&call.params, app.config.limits.page)?;
    let filter = filter(&call.params, app.config.clock.now())?;
    let filter = JobFilter { seen_by: call.seen_by(), ..filter };
    let page =
        app.store.jobs(JobFilter { limit: Some(limit.unwrap_or(STREAM_PAGE)), ..filter.clone() }).await?;
    let next = page.next;
    let whole = limit.is_none();
    let body = if whole && next.is_some() && !call.is_head {
        Body::from_stream(pages(app, filter, page))
    } else {
        let mut text = vec![b'['];
        write_jobs(&mut text, &page, true)?;
        text.extend_from_slice(b"]\n");
        Body::from(text)
    };
    let mut response = with_type("application/json", StatusCode::OK, body);
    if let Some(next) = next.filter(|_| !whole) {
        response.headers_mut().insert(HeaderName::from_static(HEADER_NEXT_CURSOR), HeaderValue::from(next));
    }
    Ok(response)
}

pub(super) fn limit(params: &Params, most: usize) -> Result<Option<usize>, ApiError> {
    match params.integer::<usize>("limit")? {
        Some(0) => Err(ApiError::bad_request("invalid_parameter", "limit must be at least 1").at("limit")),
        limit => Ok(limit.map(|limit| limit.min(most))),
    }
}

fn filter(params: &Params, now: Timestamp) -> Result<JobFilter, ApiError> {
    let mut statuses = Vec::new();
    for name in params.list("status") {
        let known = statuses_named(name).ok_or_else(|| {
            ApiError::bad_request("invalid_parameter", format!("status {name:?} is not known")).at("status")
        })?;
        statuses.extend_from_slice(known);
    }
    statuses.sort_unstable();
    statuses.dedup();
    let before_seq = params.integer("cursor")?;
    Ok(JobFilter {
        statuses,
        queue: params.filled("queue").map(QueueName::new),
        name: params.filled("name").map(str::to_owned),
        tag: params.filled("tag").map(str::to_owned),
        worker: params.filled("worker").map(WorkerId::new),
        set: set(params)?,
        step: params.filled("step").map(str::to_owned),
        since: params.filled("since").map(|text| since(text, now)).transpose()?,
        before_seq,
        ..JobFilter::default()
    })
}

/// The pipeline or array, by any of its names.
fn set(params: &Params) -> Result<Option<SetId>, ApiError> {
    let given = ["pipeline", "array", "set"].into_iter().find_map(|name| Some((name, params.filled(name)?)));
    let Some((name, text)) = given else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let message = format!("{name} must be an id such as set-67e55044-10b1-426f-9247-bb680e5fe0c8");
        ApiError::bad_request("invalid_parameter", message).at(name)
    })
}

/// The states that a word of either vocabulary stands for.
pub(super) fn statuses_named(name: &str) -> Option<&'static [Status]> {
    const ALL: [Status; 12] = Status::ALL;
    match name {
        "pending" => Some(&[Status::Pending, Status::Delayed, Status::Held]),
        "queued" => Some(&[Status::Pending, Status::Delayed, Status::Held, Status::Blocked]),
        "retrying" => Some(&[Status::Pending, Status::Delayed, Status::Preempted]),
        "scheduled" => Some(&[Status::Reserved]),
        "completed" => Some(&[Status::Done]),
        name => ALL.iter().position(|status| status.as_str() == name).map(|at| {
            static STATUSES: [Status; 12] = ALL;
            &STATUSES[at..=at]
        }),
    }
}

fn since(text: &str, now: Timestamp) -> Result<Timestamp, ApiError> {
    if let Some(age) = duration::parse(text) {
        return Ok(now - Span::from(age));
    }
    let wrong = || {
        let message = "since must be a time such as 2026-05-05T08:33:00Z or an age such as 1h";
        ApiError::bad_request("invalid_parameter", message).at("since")
    };
    text.parse::<jiff::Timestamp>().map(clock::from_wire).map_err(|_| wrong())
}

fn write_jobs(text: &mut Vec<u8>, page: &JobPage, mut first: bool) -> Result<(), ApiError> {
    for view in &page.jobs {
        if !std::mem::take(&mut first) {
            text.push(b',');
        }
        serde_json::to_writer(&mut *text, &view::job_view(view)).map_err(|_| ApiError::internal())?;
    }
    Ok(())
}

/// How far a streamed list has come.
enum Progress {
    /// This page is to be written; whether it is the first.
    Page(JobPage, bool),
    /// The page from this position on is to be read.
    After(u64),
    End,
}

/// The list piece by piece. An error in the middle breaks the answer off, so that no client takes a
/// part of the list for the whole.
fn pages(
    app: Shared,
    filter: JobFilter,
    first: JobPage,
) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> {
    stream::try_unfold((app, filter, Progress::Page(first, true)), |(app, filter, progress)| async move {
        let (page, is_first) = match progress {
            Progress::End => return Ok(None),
            Progress::Page(page, is_first) => (page, is_first),
            Progress::After(seq) => {
                let next = JobFilter { before_seq: Some(seq), limit: Some(STREAM_PAGE), ..filter.clone() };
                (app.store.jobs(next).await.map_err(broken_off)?, false)
            }
        };
        let mut text = Vec::with_capacity(256 * page.jobs.len() + 4);
        if is_first {
            text.push(b'[');
        }
        write_jobs(&mut text, &page, is_first).map_err(|error| std::io::Error::other(error.message))?;
        let progress = page.next.map_or(Progress::End, Progress::After);
        if matches!(progress, Progress::End) {
            text.extend_from_slice(b"]\n");
        }
        Ok(Some((Bytes::from(text), (app, filter, progress))))
    })
}

fn broken_off(error: StoreError) -> std::io::Error {
    tracing::error!(%error, "a list was broken off");
    std::io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_accept_both_vocabularies() {
        let now = Timestamp::from_micros(1_777_969_980_000_000);
        let read = |query: &str| filter(&Params::parse(Some(query)), now);
        let statuses = |query: &str| read(query).unwrap().statuses;
        assert_eq!(statuses("status=done,failed"), [Status::Done, Status::Failed]);
        assert_eq!(statuses("status=done&status=completed"), [Status::Done]);
        assert_eq!(
            statuses("status=queued"),
            [Status::Pending, Status::Delayed, Status::Held, Status::Blocked]
        );
        assert!(read("status=nonsense").is_err());
        assert!(read("since=yesterday").is_err());
        assert!(read("since=1h").unwrap().since.unwrap() < now);
        let at = read("since=2026-05-05T08:33:00Z").unwrap().since.unwrap();
        assert_eq!(at.as_micros(), 1_777_969_980_000_000);
        assert!(limit(&Params::parse(Some("limit=0")), 10).is_err());
        assert_eq!(limit(&Params::parse(Some("limit=99")), 10).unwrap(), Some(10));
    }
}
