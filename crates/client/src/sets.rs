//! Calls on pipelines and arrays.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use muster_protocol::{
    ArrayRequest, BulkResult, HEADER_IDEMPOTENCY_KEY, HEADER_NEXT_CURSOR, JobSet, Pipeline, SetKind,
};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::error::ClientError;
use crate::jobs::Query;

/// A large set is one transaction; it may take longer than a single job.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(300);

/// The file of a pipeline, and what belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelineFile {
    pub text: String,
    /// The parameters that the file declares.
    pub params: BTreeMap<String, String>,
    /// Where steps run that do not say it; the worker's choice when absent.
    pub working_dir: Option<String>,
    /// Who submits the steps that do not say it.
    pub user: Option<String>,
    /// Submitting again with the same key returns the pipeline made the first time.
    pub idempotency_key: Option<String>,
    /// The ids of the directories and files that it names and that were sent.
    pub uploads: BTreeMap<String, String>,
}

/// A page of a list of sets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetPage {
    pub sets: Vec<JobSet>,
    /// Continues the list; `None` on the last page.
    pub next: Option<String>,
}

impl PipelineFile {
    fn call(&self, path: String) -> Result<Call, ClientError> {
        let mut query = Query::of(path);
        for (name, value) in &self.params {
            query.add("param", &format!("{name}={value}"));
        }
        for (path, id) in &self.uploads {
            query.add("upload", &format!("{path}={id}"));
        }
        query.add_some("working_dir", self.working_dir.as_deref());
        query.add_some("user", self.user.as_deref());
        let body = Bytes::from(self.text.clone());
        let call =
            Call::new(Method::POST, query.path).bytes("application/yaml", body).timeout(SUBMIT_TIMEOUT);
        match self.idempotency_key.as_deref() {
            Some(key) => call.checked_header(HEADER_IDEMPOTENCY_KEY, key),
            None => Ok(call),
        }
    }
}

fn resource(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Pipeline => "/pipelines",
        SetKind::Array => "/arrays",
    }
}

impl Client {
    /// Submits a whole pipeline in one transaction.
    pub async fn submit_pipeline(&self, file: &PipelineFile) -> Result<Pipeline, ClientError> {
        self.exchange(file.call("/pipelines".to_owned())?).await
    }

    /// Adds steps to a pipeline that is there.
    pub async fn add_steps(&self, id: &str, file: &PipelineFile) -> Result<Pipeline, ClientError> {
        self.exchange(file.call(format!("/pipelines/{}/steps", encode(id)))?).await
    }

    pub async fn pipeline(&self, id: &str) -> Result<Pipeline, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/pipelines/{}", encode(id)))).await
    }

    /// Submits one job many times, with an index or an item for each.
    pub async fn submit_array(&self, request: &ArrayRequest) -> Result<JobSet, ClientError> {
        self.exchange(Call::new(Method::POST, "/arrays").json(request)?.timeout(SUBMIT_TIMEOUT)).await
    }

    pub async fn array(&self, id: &str) -> Result<JobSet, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/arrays/{}", encode(id)))).await
    }

    /// One page of the pipelines or arrays, the newest first.
    pub async fn sets(
        &self,
        kind: SetKind,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<SetPage, ClientError> {
        let mut query = Query::of(resource(kind));
        query.add_some("limit", limit.map(|limit| limit.to_string()).as_deref());
        query.add_some("cursor", cursor);
        let path = query.path;
        let response = self.complete(Call::new(Method::GET, path.as_str())).await?;
        if !response.status().is_success() {
            return Err(refused(response.status(), response.body()));
        }
        let next = response.headers().get(HEADER_NEXT_CURSOR).and_then(|value| value.to_str().ok());
        let next = next.filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        Ok(SetPage { sets: decode(&path, response.body())?, next })
    }

    /// Ends what has not ended; with `dry_run` only says what that would be.
    pub async fn cancel_set(
        &self,
        kind: SetKind,
        id: &str,
        dry_run: bool,
    ) -> Result<BulkResult, ClientError> {
        let mut query = Query::of(format!("{}/{}/cancel", resource(kind), encode(id)));
        query.add_some("dry_run", dry_run.then_some("true"));
        self.exchange(Call::new(Method::POST, query.path).timeout(SUBMIT_TIMEOUT)).await
    }

    /// Runs again what failed or was cancelled; of a pipeline, from a step on if one is named. With `dry_run`
    /// only says what that would be.
    pub async fn retry_set(
        &self,
        kind: SetKind,
        id: &str,
        from: Option<&str>,
        dry_run: bool,
    ) -> Result<BulkResult, ClientError> {
        let mut query = Query::of(format!("{}/{}/retry", resource(kind), encode(id)));
        query.add_some("from", from);
        query.add_some("dry_run", dry_run.then_some("true"));
        self.exchange(Call::new(Method::POST, query.path).timeout(SUBMIT_TIMEOUT)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_part_of_the_address() {
        let file = PipelineFile {
            text: "steps: []".into(),
            params: [("DATE".to_owned(), "a b=c&d".to_owned())].into(),
            working_dir: Some("/data".into()),
            user: Some("ada".into()),
            idempotency_key: Some("once".into()),
            uploads: [("a=b".to_owned(), "id".to_owned())].into(),
        };
        let shown = format!("{:?}", file.call("/pipelines".to_owned()).unwrap());
        assert!(shown.contains(r#""idempotency-key": "once""#), "{shown}");
        assert!(
            shown.contains(
                "/pipelines?param=DATE%3Da%20b%3Dc%26d&upload=a%3Db%3Did&working_dir=%2Fdata&user=ada"
            ),
            "{shown}"
        );
    }
}
