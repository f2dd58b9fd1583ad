//! Calls that change jobs which are there, one by one or many by a filter.

use std::time::Duration;

use http::Method;
use muster_protocol::{BulkFilter, BulkResult, CancelResult, Job, JobEdit};

use crate::base_url::encode;
use crate::call::{Call, Client, refused};
use crate::error::ClientError;

/// A change of many jobs may take longer than one of a single job.
const BULK_TIMEOUT: Duration = Duration::from_secs(300);

/// What can be done to many jobs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkVerb {
    Cancel,
    Hold,
    Release,
    Retry,
    Delete,
}

impl BulkVerb {
    /// The last word of the path.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Retry => "retry",
            Self::Delete => "delete",
        }
    }
}

impl Client {
    /// What a cancel would end, without ending it.
    pub async fn cancel_dry_run(&self, id: &str) -> Result<CancelResult, ClientError> {
        self.exchange(Call::new(Method::POST, format!("/jobs/{}/cancel?dry_run=true", encode(id)))).await
    }

    /// Keeps a job that waits from starting.
    pub async fn hold(&self, id: &str) -> Result<Job, ClientError> {
        self.act(id, "hold").await
    }

    /// Lets a held job start. (`release` is what workers report when they hand a job back.)
    pub async fn release(&self, id: &str) -> Result<Job, ClientError> {
        self.act(id, "unhold").await
    }

    /// Runs a job again that failed or was cancelled.
    pub async fn retry(&self, id: &str) -> Result<Job, ClientError> {
        self.act(id, "retry").await
    }

    async fn act(&self, id: &str, verb: &str) -> Result<Job, ClientError> {
        self.exchange(Call::new(Method::POST, format!("/jobs/{}/{verb}", encode(id)))).await
    }

    /// Changes a job that waits.
    pub async fn edit(&self, id: &str, edit: &JobEdit) -> Result<Job, ClientError> {
        self.exchange(Call::new(Method::PATCH, format!("/jobs/{}", encode(id))).json(edit)?).await
    }

    /// Removes a job that has ended.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        let (status, body) = self.whole(Call::new(Method::DELETE, format!("/jobs/{}", encode(id)))).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status, &body)) }
    }

    /// Changes all jobs that the filter names, or says which they are.
    pub async fn bulk(&self, verb: BulkVerb, filter: &BulkFilter) -> Result<BulkResult, ClientError> {
        let path = format!("/jobs/bulk/{}", verb.word());
        self.exchange(Call::new(Method::POST, path).json(filter)?.timeout(BULK_TIMEOUT)).await
    }
}
