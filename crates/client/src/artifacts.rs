//! Calls about artifacts: handing them in, listing and reading them.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use muster_protocol::{ArtifactKept, ArtifactList, ArtifactUrl};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::checkpoints::{Proof, with_token};
use crate::error::ClientError;
use crate::jobs::Query;
use crate::output::next_data;
use crate::request_body::Pieces;
use crate::transport::Body;

/// What a slow network may take for each MiB, beyond what any call may take.
const TIME_PER_MIB: Duration = Duration::from_secs(8);
const LEAST_TIME: Duration = Duration::from_secs(60);
/// The longest silence in the middle of an artifact.
const SILENCE: Duration = Duration::from_secs(60);

/// Which artifacts of a job are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArtifactQuery {
    /// The last attempt that left any, unless said.
    pub attempt: Option<u32>,
    /// Those behind this name.
    pub after: Option<String>,
}

/// The bytes of an artifact, in order.
#[derive(Debug)]
pub struct ArtifactReader {
    body: Body,
    url: String,
}

impl ArtifactReader {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let url = self.url.clone();
        tokio::time::timeout(SILENCE, next_data(&mut self.body, &self.url))
            .await
            .unwrap_or(Err(ClientError::TimedOut { url, after: SILENCE }))
    }
}

fn path(job_id: &str, name: &str) -> String {
    format!("/jobs/{}/artifacts/{}", encode(job_id), encode(name))
}

impl Client {
    /// A page of the artifacts of a job.
    pub async fn artifacts(&self, job_id: &str, query: &ArtifactQuery) -> Result<ArtifactList, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/artifacts", encode(job_id)));
        target.add_some("attempt", query.attempt.map(|attempt| attempt.to_string()).as_deref());
        target.add_some("after", query.after.as_deref());
        self.exchange(Call::new(Method::GET, target.path)).await
    }

    /// Keeps a file of the attempt that the proof speaks for, and tells what arrived.
    pub async fn put_artifact(
        &self,
        job_id: &str,
        proof: &Proof,
        name: &str,
        (size, pieces): (u64, Pieces),
    ) -> Result<ArtifactKept, ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        target.add_some("size", Some(&size.to_string()));
        let mib = u32::try_from(size >> 20).unwrap_or(u32::MAX);
        let timeout = LEAST_TIME.saturating_add(TIME_PER_MIB.saturating_mul(mib));
        let call = Call::new(Method::PUT, target.path).pieces(size, pieces);
        let (status, body) = self.whole(with_token(call, proof)?.timeout(timeout)).await?;
        if status.is_success() { decode("artifact", &body) } else { Err(refused(status, &body)) }
    }

    /// Says why a file of the attempt could not be kept.
    pub async fn miss_artifact(
        &self,
        job_id: &str,
        proof: &Proof,
        name: &str,
        why: &str,
    ) -> Result<(), ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        target.add_some("missing", Some(why));
        self.accepted(with_token(Call::new(Method::PUT, target.path), proof)?).await
    }

    /// Opens an artifact at an offset; `None` when nothing lies behind it.
    pub async fn artifact(
        &self,
        job_id: &str,
        name: &str,
        attempt: Option<u32>,
        offset: u64,
    ) -> Result<Option<ArtifactReader>, ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("attempt", attempt.map(|attempt| attempt.to_string()).as_deref());
        target.add_some("redirect", Some("false"));
        let mut call = Call::new(Method::GET, target.path);
        if offset > 0 {
            call = call.header("range", &format!("bytes={offset}-"));
        }
        let after = call.time_limit();
        let response = tokio::time::timeout(after, self.open(call))
            .await
            .unwrap_or_else(|_| Err(ClientError::TimedOut { url: self.url().to_owned(), after }))?;
        match response.status() {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(None),
            status if status.is_success() => {
                Ok(Some(ArtifactReader { body: response.into_body(), url: self.url().to_owned() }))
            }
            status => {
                let text = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(refused(status, &text.unwrap_or_default()))
            }
        }
    }

    /// A link to an artifact that anybody can follow until it expires.
    pub async fn artifact_url(
        &self,
        job_id: &str,
        name: &str,
        attempt: Option<u32>,
        expires: Option<&str>,
    ) -> Result<ArtifactUrl, ClientError> {
        let mut target = Query::of(format!("{}/url", path(job_id, name)));
        target.add_some("attempt", attempt.map(|attempt| attempt.to_string()).as_deref());
        target.add_some("expires", expires);
        self.exchange(Call::new(Method::POST, target.path)).await
    }
}
