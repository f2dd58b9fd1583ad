//! Calls on what jobs used.

use http::Method;
use jiff::Timestamp;
use muster_protocol::{Attempt, UsageReport};

use crate::base_url::encode;
use crate::call::{Call, Client};
use crate::error::ClientError;
use crate::jobs::Query;

/// What to sum up.
#[derive(Debug, Clone, Copy)]
pub struct UsageQuestion<'a> {
    /// What the rows are: `user`, `queue`, `user,queue`, `day`, `name` or `job`.
    pub by: &'a str,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub user: Option<&'a str>,
    pub queue: Option<&'a str>,
}

impl Client {
    /// Who used what since when.
    pub async fn usage(&self, question: &UsageQuestion<'_>) -> Result<UsageReport, ClientError> {
        let mut query = Query::of("/usage");
        query.add("by", question.by);
        query.add_some("since", question.since.map(|at| at.to_string()).as_deref());
        query.add_some("until", question.until.map(|at| at.to_string()).as_deref());
        query.add_some("user", question.user);
        query.add_some("queue", question.queue);
        self.exchange(Call::new(Method::GET, query.path)).await
    }

    /// The attempts of a job, oldest first.
    pub async fn attempts(&self, id: &str) -> Result<Vec<Attempt>, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/jobs/{}/attempts", encode(id)))).await
    }
}
