//! Calls on the output of jobs.

use bytes::Bytes;
use http::{Method, StatusCode};
use muster_protocol::{LogAppended, LogStream};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::error::ClientError;

/// A piece of one stream of one attempt, at its place in the stream.
#[derive(Debug, Clone)]
pub struct LogChunk {
    pub job_id: String,
    pub lease: u64,
    pub attempt: u32,
    pub stream: LogStream,
    pub offset: u64,
    pub bytes: Bytes,
}

/// What became of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogAppend {
    /// Kept; the stream now has this length.
    Kept(LogAppended),
    /// The offset is not where the kept stream ends; go on from its length.
    Misplaced(LogAppended),
}

impl Client {
    /// Appends to the kept output of an attempt. Sending the same chunk twice does no harm.
    pub async fn append_log(&self, chunk: LogChunk) -> Result<LogAppend, ClientError> {
        let stream = match chunk.stream {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        };
        let path = format!(
            "/jobs/{}/logs?lease={}&attempt={}&stream={stream}&offset={}",
            encode(&chunk.job_id),
            chunk.lease,
            chunk.attempt,
            chunk.offset
        );
        let call = Call::new(Method::POST, path.as_str()).bytes("application/octet-stream", chunk.bytes);
        let (status, body) = self.whole(call).await?;
        if status.is_success() {
            return Ok(LogAppend::Kept(decode(&path, &body)?));
        }
        if status == StatusCode::CONFLICT {
            // The same status also says that the lease is lost; only the misplaced chunk has a length.
            if let Ok(kept) = serde_json::from_slice(&body) {
                return Ok(LogAppend::Misplaced(kept));
            }
        }
        Err(refused(status, &body))
    }
}
