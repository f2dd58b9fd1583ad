//! Calls on jobs: submit, read, list, cancel, and the reasons why one does not run.

use http::Method;
use jiff::Timestamp;
use muster_protocol::{
    BatchItem, BatchResult, CancelResult, HEADER_NEXT_CURSOR, Job, JobStatus, SubmitRequest, Why,
};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::error::ClientError;

/// Which jobs to list; all conditions hold together. The newest come first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Empty means any.
    pub statuses: Vec<JobStatus>,
    pub queue: Option<String>,
    pub name: Option<String>,
    /// A tag that the job requires of its worker.
    pub tag: Option<String>,
    /// The worker that has the job, or had it last.
    pub worker: Option<String>,
    /// The pipeline that the job is a step of.
    pub pipeline: Option<String>,
    /// The array that the job is an element of.
    pub array: Option<String>,
    /// Name of the step within its pipeline.
    pub step: Option<String>,
    /// Created at or after this time.
    pub since: Option<Timestamp>,
    /// At most this many on a page; the scheduler decides when absent.
    pub limit: Option<u32>,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    /// Continues the list; `None` on the last page.
    pub next: Option<String>,
}

impl JobFilter {
    fn path(&self) -> String {
        let mut query = Query::of("/jobs");
        if !self.statuses.is_empty() {
            let names: Vec<&str> = self.statuses.iter().map(|status| status_name(*status)).collect();
            query.add("status", &names.join(","));
        }
        query.add_some("queue", self.queue.as_deref());
        query.add_some("name", self.name.as_deref());
        query.add_some("tag", self.tag.as_deref());
        query.add_some("worker", self.worker.as_deref());
        query.add_some("pipeline", self.pipeline.as_deref());
        query.add_some("array", self.array.as_deref());
        query.add_some("step", self.step.as_deref());
        query.add_some("since", self.since.map(|at| at.to_string()).as_deref());
        query.add_some("limit", self.limit.map(|limit| limit.to_string()).as_deref());
        query.add_some("cursor", self.cursor.as_deref());
        query.path
    }
}

/// A path with the query that grows at its end.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) path: String,
    separator: char,
}

impl Query {
    pub(crate) fn of(path: impl Into<String>) -> Self {
        Self { path: path.into(), separator: '?' }
    }

    pub(crate) fn add(&mut self, key: &str, value: &str) {
        self.path.push(self.separator);
        self.path.push_str(key);
        self.path.push('=');
        self.path.push_str(&encode(value));
        self.separator = '&';
    }

    pub(crate) fn add_some(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

/// The word for a status on the wire.
pub fn status_name(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Pending => "pending",
        JobStatus::Blocked => "blocked",
        JobStatus::Reserved => "reserved",
        JobStatus::Running => "running",
        JobStatus::Preempting => "preempting",
        JobStatus::Preempted => "preempted",
        JobStatus::Finished => "finished",
        JobStatus::Done => "done",
        JobStatus::Failed => "failed",
        JobStatus::Cancelled => "cancelled",
    }
}

impl Client {
    /// Submits one job.
    pub async fn submit(&self, request: &SubmitRequest) -> Result<Job, ClientError> {
        self.exchange(Call::new(Method::POST, "/jobs").json(request)?).await
    }

    /// Submits many jobs at once. With `atomic` either all are taken or none; otherwise each element of
    /// the answer says what became of the element at the same place.
    pub async fn submit_batch(
        &self,
        items: &[BatchItem],
        atomic: bool,
    ) -> Result<Vec<BatchResult>, ClientError> {
        let mut query = Query::of("/jobs/batch");
        if atomic {
            query.add("atomic", "true");
        }
        self.exchange(Call::new(Method::POST, query.path).json(&items)?).await
    }

    pub async fn job(&self, id: &str) -> Result<Job, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/jobs/{}", encode(id)))).await
    }

    /// One page of the jobs that the filter names.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<JobPage, ClientError> {
        let path = filter.path();
        let response = self.complete(Call::new(Method::GET, path.as_str())).await?;
        if !response.status().is_success() {
            return Err(refused(response.status(), response.body()));
        }
        let next = response.headers().get(HEADER_NEXT_CURSOR).and_then(|value| value.to_str().ok());
        let next = next.filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        Ok(JobPage { jobs: decode(&path, response.body())?, next })
    }

    /// Ends a job and whatever depends on it. A job that ended before is refused with 409.
    pub async fn cancel(&self, id: &str) -> Result<CancelResult, ClientError> {
        self.exchange(Call::new(Method::POST, format!("/jobs/{}/cancel", encode(id)))).await
    }

    /// Why the job does not run.
    pub async fn why(&self, id: &str) -> Result<Why, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/jobs/{}/why", encode(id)))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_filter_asks_for_everything() {
        assert_eq!(JobFilter::default().path(), "/jobs");
    }

    #[test]
    fn filters_become_a_query() {
        let filter = JobFilter {
            statuses: vec![JobStatus::Pending, JobStatus::Running],
            queue: Some("a b".into()),
            worker: Some("w1".into()),
            since: Some("2026-05-05T08:33:00Z".parse().unwrap()),
            limit: Some(10),
            cursor: Some("17".into()),
            ..JobFilter::default()
        };
        assert_eq!(
            filter.path(),
            "/jobs?status=pending%2Crunning&queue=a%20b&worker=w1&since=2026-05-05T08%3A33%3A00Z&limit=10&cursor=17"
        );
    }
}
