//! Calls that speak for one attempt: saving and reading checkpoints, the image that it runs, and the notice that the job must
//! leave.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use muster_protocol::{HEADER_JOB_TOKEN, ImageReport, Notice};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::error::ClientError;
use crate::jobs::Query;
use crate::output::next_data;
use crate::transport::Body;

/// What a slow network may take for each MiB, beyond what any call may take.
pub(crate) const TIME_PER_MIB: Duration = Duration::from_secs(2);
pub(crate) const LEAST_TIME: Duration = Duration::from_secs(30);
/// The longest silence in the middle of a checkpoint.
const SILENCE: Duration = Duration::from_secs(30);

/// Who speaks for a job: by the lease of an attempt, by the token that it was given, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    pub lease: Option<u64>,
    pub token: Option<String>,
}

/// The bytes of a kept checkpoint, in order.
#[derive(Debug)]
pub struct CheckpointReader {
    body: Body,
    url: String,
}

impl CheckpointReader {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let url = self.url.clone();
        tokio::time::timeout(SILENCE, next_data(&mut self.body, &self.url))
            .await
            .unwrap_or(Err(ClientError::TimedOut { url, after: SILENCE }))
    }
}

impl Client {
    /// Keeps a checkpoint in the place of the one before. `epoch` names the stop that is under way, if one is.
    pub async fn save_checkpoint(
        &self,
        job_id: &str,
        proof: &Proof,
        epoch: Option<u32>,
        bytes: Bytes,
    ) -> Result<(), ClientError> {
        let mut target = Query::of(format!("/jobs/{}/checkpoint", encode(job_id)));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        target.add_some("epoch", epoch.map(|epoch| epoch.to_string()).as_deref());
        let mib = u32::try_from(bytes.len() >> 20).unwrap_or(u32::MAX);
        let timeout = LEAST_TIME.saturating_add(TIME_PER_MIB.saturating_mul(mib));
        let call = Call::new(Method::POST, target.path).bytes("application/octet-stream", bytes);
        let (status, body) = self.whole(with_token(call, proof)?.timeout(timeout)).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status, &body)) }
    }

    /// Opens the checkpoint of a job; `None` when it has none.
    pub async fn checkpoint(&self, job_id: &str) -> Result<Option<CheckpointReader>, ClientError> {
        let call = Call::new(Method::GET, format!("/jobs/{}/checkpoint", encode(job_id)));
        let after = call.time_limit();
        let response = tokio::time::timeout(after, self.open(call))
            .await
            .unwrap_or_else(|_| Err(ClientError::TimedOut { url: self.url().to_owned(), after }))?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(None),
            status if status.is_success() => {
                Ok(Some(CheckpointReader { body: response.into_body(), url: self.url().to_owned() }))
            }
            status => {
                let text = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(refused(status, &text.unwrap_or_default()))
            }
        }
    }

    /// Says how far the pull of a job's image is, or which image it runs.
    pub async fn note_image(
        &self,
        job_id: &str,
        proof: &Proof,
        report: &ImageReport,
    ) -> Result<(), ClientError> {
        let mut target = Query::of(format!("/jobs/{}/image", encode(job_id)));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        let call = Call::new(Method::POST, target.path).json(report)?;
        self.accepted(with_token(call, proof)?).await
    }

    /// The notice of the job that the proof speaks for; `None` while it may go on.
    pub async fn notice(&self, proof: &Proof) -> Result<Option<Notice>, ClientError> {
        let call = with_token(Call::new(Method::GET, "/notice"), proof)?;
        let (status, body) = self.whole(call).await?;
        match status {
            StatusCode::NO_CONTENT => Ok(None),
            status if status.is_success() => Ok(Some(decode("/notice", &body)?)),
            status => Err(refused(status, &body)),
        }
    }
}

pub(crate) fn with_token(call: Call, proof: &Proof) -> Result<Call, ClientError> {
    match &proof.token {
        Some(token) => call.checked_header(HEADER_JOB_TOKEN, token),
        None => Ok(call),
    }
}
