//! Sending directories and files that travel with jobs, and fetching them again where a job runs.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use muster_protocol::{ChunkRequest, Upload, UploadLimits, UploadManifest};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::checkpoints::{LEAST_TIME, TIME_PER_MIB};
use crate::error::ClientError;
use crate::output::next_data;
use crate::transport::Body;

/// The longest silence in the middle of chunks that are fetched.
const SILENCE: Duration = Duration::from_secs(60);
/// The scheduler looks for each chunk before it answers.
const DECLARE_TIME: Duration = Duration::from_secs(300);

/// Chunks on their way, each with its length and its digest before it.
#[derive(Debug)]
pub struct ChunkReader {
    body: Body,
    url: String,
}

impl ChunkReader {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let url = self.url.clone();
        tokio::time::timeout(SILENCE, next_data(&mut self.body, &self.url))
            .await
            .unwrap_or(Err(ClientError::TimedOut { url, after: SILENCE }))
    }
}

impl Client {
    /// What one upload may have at most.
    pub async fn upload_limits(&self) -> Result<UploadLimits, ClientError> {
        self.exchange(Call::new(Method::GET, "/uploads/limits")).await
    }

    /// Says what an upload consists of; the answer names the chunks that are to be sent.
    pub async fn declare_upload(&self, manifest: &UploadManifest) -> Result<Upload, ClientError> {
        let call = Call::new(Method::POST, "/uploads").json(manifest)?;
        self.exchange(call.timeout(DECLARE_TIME)).await
    }

    /// Sends chunks of an upload, framed one after the other.
    pub async fn send_chunks(&self, id: &str, chunks: Bytes) -> Result<(), ClientError> {
        let mib = u32::try_from(chunks.len() >> 20).unwrap_or(u32::MAX);
        let timeout = LEAST_TIME.saturating_add(TIME_PER_MIB.saturating_mul(mib));
        let call = Call::new(Method::POST, format!("/uploads/{}/chunks", encode(id)));
        self.accepted(call.bytes("application/octet-stream", chunks).timeout(timeout)).await
    }

    /// Says that every chunk was sent; from then on jobs may name the upload.
    pub async fn complete_upload(&self, id: &str) -> Result<Upload, ClientError> {
        let call = Call::new(Method::POST, format!("/uploads/{}/complete", encode(id)));
        self.exchange(call.timeout(DECLARE_TIME)).await
    }

    /// What an upload that a job names consists of.
    pub async fn job_upload(&self, job_id: &str, id: &str) -> Result<UploadManifest, ClientError> {
        let path = format!("/jobs/{}/uploads/{}", encode(job_id), encode(id));
        let (status, body) = self.whole(Call::new(Method::GET, path.clone()).timeout(DECLARE_TIME)).await?;
        if status.is_success() { decode(&path, &body) } else { Err(refused(status, &body)) }
    }

    /// Fetches some chunks of an upload that a job names.
    pub async fn job_chunks(
        &self,
        job_id: &str,
        id: &str,
        wanted: &ChunkRequest,
    ) -> Result<ChunkReader, ClientError> {
        let path = format!("/jobs/{}/uploads/{}/chunks", encode(job_id), encode(id));
        let body = self.open_stream(Call::new(Method::POST, path).json(wanted)?).await?;
        Ok(ChunkReader { body, url: self.url().to_owned() })
    }
}
