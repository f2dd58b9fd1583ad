//! The output of jobs on the wire: what a worker hears about its uploads, and the messages of the live stream.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request header of an upload: when the bytes were written, as `END@MICROSECONDS` pairs with commas between
/// them. A pair says that the bytes before offset `END` were there at that time of the worker's clock.
pub const HEADER_LOG_TIMES: &str = "x-muster-log-times";
/// Response header of a read of one stream: how many bytes the job has written to it so far.
pub const HEADER_LOG_LENGTH: &str = "x-muster-log-length";
/// Response header of a read of one stream: the first range of offsets that is not kept, such as `100-199`.
pub const HEADER_LOG_MISSING: &str = "x-muster-log-missing";

/// Response header of a read: schedulers that may have more of the output and do not answer.
pub const HEADER_LOG_UNREACHABLE: &str = "x-muster-log-unreachable";

/// The output of one run that a scheduler keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogRun {
    pub lease: u64,
    pub attempt: u32,
    /// Bytes that have arrived, also those that are no longer kept.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// One of the two outputs of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// The answer to a log upload: the offset up to which the stream has arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogAppended {
    pub length: u64,
    /// How far the slowest of those who follow the stream has read it; absent when nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<u64>,
}

/// One message of the live stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogMessage {
    /// The cursor at which to go on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `start`, `output`, `gap`, `end` or `dropped`.
    pub event: String,
    /// JSON: a `LogPiece` of `output`, a `LogGap` of `gap`, otherwise an empty object.
    pub data: String,
}

/// A message `output` of the live stream: some bytes, at their place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPiece {
    pub attempt: u32,
    /// Tells runs apart that have the same attempt number, as after a hand-back.
    pub lease: u64,
    pub stream: LogStream,
    /// Where the piece begins in what the process wrote.
    pub offset: u64,
    /// When the worker saw the first byte of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The bytes, when they are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes, when they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A message `gap` of the live stream: bytes that the process wrote and that nobody has any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogGap {
    pub attempt: u32,
    pub lease: u64,
    pub stream: LogStream,
    pub offset: u64,
    pub bytes: u64,
    pub cause: LogGapCause,
}

/// Why output is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogGapCause {
    /// The stream is longer than its limit: beginning and end are kept.
    Dropped,
    /// It was removed because of its age, or because all output together became too large.
    Expired,
}
