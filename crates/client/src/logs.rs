//! Calls on the output of jobs.

use bytes::Bytes;
use http::{Method, StatusCode};
use muster_protocol::{HEADER_LOG_TIMES, LogAppended, LogStream};

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
    /// What is missing before it is lost for good.
    pub skip: bool,
    /// When its bytes were written.
    pub ticks: Vec<LogTick>,
}

/// The bytes before the offset `end` were there at this time, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTick {
    pub end: u64,
    pub micros: i64,
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
        let skip = if chunk.skip { "&skip=true" } else { "" };
        let path = format!(
            "/jobs/{}/logs?lease={}&attempt={}&stream={stream}&offset={}{skip}",
            encode(&chunk.job_id),
            chunk.lease,
            chunk.attempt,
            chunk.offset
        );
        let mut call = Call::new(Method::POST, path.as_str()).bytes("application/octet-stream", chunk.bytes);
        if !chunk.ticks.is_empty() {
            let pairs: Vec<String> =
                chunk.ticks.iter().map(|tick| format!("{}@{}", tick.end, tick.micros)).collect();
            call = call.header(HEADER_LOG_TIMES, &pairs.join(","));
        }
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
