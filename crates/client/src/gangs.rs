//! Calls on gangs: tasks that start, stop and end as one.
//!
//! A verb on the id of one task acts on the whole gang as well; these calls name the gang itself.

use http::Method;
use muster_protocol::{
    CancelResult, Event, GangState, GangSubmitted, GangSummary, HEADER_NEXT_CURSOR, Job, SubmitRequest, Why,
};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::error::ClientError;
use crate::jobs::Query;

/// Which gangs to list. The newest come first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GangFilter {
    pub state: Option<GangState>,
    /// At most this many on a page; the scheduler decides when absent.
    pub limit: Option<u32>,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
}

/// A page of a list of gangs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GangPage {
    pub gangs: Vec<GangSummary>,
    /// Continues the list; `None` on the last page.
    pub next: Option<String>,
}

/// The word for a state on the wire.
pub fn gang_state_name(state: GangState) -> &'static str {
    match state {
        GangState::Waiting => "waiting",
        GangState::Starting => "starting",
        GangState::Running => "running",
        GangState::Draining => "draining",
        GangState::Done => "done",
        GangState::Failed => "failed",
        GangState::Cancelled => "cancelled",
    }
}

fn path(id: &str, verb: &str) -> String {
    format!("/gangs/{}/{verb}", encode(id))
}

impl Client {
    /// Submits a job of several tasks, which start together or not at all; `gang_size` must be more than 1.
    pub async fn submit_gang(&self, request: &SubmitRequest) -> Result<GangSubmitted, ClientError> {
        self.exchange(Call::new(Method::POST, "/jobs").json(request)?).await
    }

    /// The tasks of a gang, by index.
    pub async fn gang(&self, id: &str) -> Result<Vec<Job>, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/gangs/{}", encode(id)))).await
    }

    /// One page of the gangs that the filter names.
    pub async fn gangs(&self, filter: &GangFilter) -> Result<GangPage, ClientError> {
        let mut query = Query::of("/gangs");
        query.add_some("state", filter.state.map(gang_state_name));
        query.add_some("limit", filter.limit.map(|limit| limit.to_string()).as_deref());
        query.add_some("cursor", filter.cursor.as_deref());
        let path = query.path;
        let response = self.complete(Call::new(Method::GET, path.as_str())).await?;
        if !response.status().is_success() {
            return Err(refused(response.status(), response.body()));
        }
        let next = response.headers().get(HEADER_NEXT_CURSOR).and_then(|value| value.to_str().ok());
        let next = next.filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        Ok(GangPage { gangs: decode(&path, response.body())?, next })
    }

    /// Ends all tasks and whatever depends on them. A gang that ended before is refused with 409.
    pub async fn cancel_gang(&self, id: &str) -> Result<CancelResult, ClientError> {
        self.exchange(Call::new(Method::POST, path(id, "cancel"))).await
    }

    /// Runs a gang again that failed or was cancelled.
    pub async fn retry_gang(&self, id: &str) -> Result<Vec<Job>, ClientError> {
        self.exchange(Call::new(Method::POST, path(id, "retry"))).await
    }

    /// Keeps a gang that waits from starting.
    pub async fn hold_gang(&self, id: &str) -> Result<Vec<Job>, ClientError> {
        self.exchange(Call::new(Method::POST, path(id, "hold"))).await
    }

    /// Lets a held gang start.
    pub async fn release_gang(&self, id: &str) -> Result<Vec<Job>, ClientError> {
        self.exchange(Call::new(Method::POST, path(id, "unhold"))).await
    }

    /// Asks a gang to save what it has, to stop, and to come back. The message is for the job to read.
    pub async fn preempt_gang(&self, id: &str, message: Option<&str>) -> Result<Vec<Job>, ClientError> {
        let mut query = Query::of(path(id, "preempt"));
        query.add_some("message", message);
        self.exchange(Call::new(Method::POST, query.path)).await
    }

    /// The same for one job; for a task of a gang it means the whole gang.
    pub async fn preempt(&self, id: &str, message: Option<&str>) -> Result<Job, ClientError> {
        let mut query = Query::of(format!("/jobs/{}/preempt", encode(id)));
        query.add_some("message", message);
        self.exchange(Call::new(Method::POST, query.path)).await
    }

    /// Why the gang does not run.
    pub async fn gang_why(&self, id: &str) -> Result<Why, ClientError> {
        self.exchange(Call::new(Method::GET, path(id, "why"))).await
    }

    /// What has happened to all tasks, oldest first, after the event with this id (0 for all).
    pub async fn gang_events(&self, id: &str, after: u64) -> Result<Vec<Event>, ClientError> {
        let mut query = Query::of(path(id, "events"));
        if after > 0 {
            query.add("after", &after.to_string());
        }
        self.exchange(Call::new(Method::GET, query.path)).await
    }
}
