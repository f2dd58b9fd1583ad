//! How much uploads may be, and how much of them is in memory.

use std::sync::Arc;
use std::time::Duration;

use muster_upload::Limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// Requests with chunks that are read at the same time; each holds a few chunks.
const SENDERS: usize = 6;
/// Answers with chunks that are made at the same time.
const READERS: usize = 6;
/// How long a request waits for its place.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an operator sets about uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadConfig {
    /// Bytes of one upload.
    pub bytes: u64,
    /// Files, links and empty directories of one upload.
    pub entries: u64,
    /// Bytes of the standard input of a job.
    pub stdin_bytes: u64,
    /// How long an upload is kept that no job names.
    pub keep: Duration,
    /// The pause between two passes that remove what is older.
    pub sweep_interval: Duration,
}

impl Default for UploadConfig {
    fn default() -> Self {
        Self {
            bytes: 16 << 30,
            entries: 100_000,
            stdin_bytes: 64 << 20,
            keep: Duration::from_secs(24 * 3_600),
            sweep_interval: Duration::from_secs(3_600),
        }
    }
}

impl UploadConfig {
    pub(crate) const fn limits(&self) -> Limits {
        Limits { bytes: self.bytes, entries: self.entries }
    }
}

/// Places for requests that hold chunks in memory.
#[derive(Debug)]
pub(crate) struct Places {
    senders: Arc<Semaphore>,
    readers: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { senders: Arc::new(Semaphore::new(SENDERS)), readers: Arc::new(Semaphore::new(READERS)) }
    }
}

impl Places {
    /// A place for a request that sends chunks.
    pub(crate) async fn sender(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        place(&self.senders).await
    }

    /// A place for an answer with chunks.
    pub(crate) async fn reader(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        place(&self.readers).await
    }
}

async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    match tokio::time::timeout(PATIENCE, Arc::clone(places).acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) => Err(ApiError::shutting_down()),
        Err(_) => Err(ApiError::too_many_bodies()),
    }
}
