//! The output of a job as a stream of pieces, which can be taken up again where it broke off.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use muster_protocol::{LogGap, LogPiece, LogStream};

use crate::base_url::encode;
use crate::call::{Call, Client, decode};
use crate::error::ClientError;
use crate::event_stream::{Message, Parser};
use crate::jobs::Query;
use crate::output::next_data;
use crate::transport::Body;

/// Which output to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub job_id: String,
    /// Both when absent.
    pub stream: Option<LogStream>,
    /// Only this attempt; without it and without `from_lease` the newest.
    pub attempt: Option<u32>,
    /// The run under this lease and those after it.
    pub from_lease: Option<u64>,
    /// Only the last lines of what is there.
    pub tail: Option<u64>,
    /// Only what was written at this time or later, in any attempt unless one is named.
    pub since: Option<Timestamp>,
    /// Cut pieces so that each has one time.
    pub timestamps: bool,
    /// Stay until the job has ended.
    pub follow: bool,
    /// Go on where a reader has stopped; what says where to begin does not count then.
    pub cursor: Option<String>,
}

/// What comes out of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogItem {
    Output {
        attempt: u32,
        stream: LogStream,
        offset: u64,
        at: Option<Timestamp>,
        bytes: Bytes,
    },
    /// Bytes that nobody has any more.
    Gap(LogGap),
    /// Nothing more will come. A stream that ends without it has broken off.
    End,
}

/// The items of a stream, in order.
#[derive(Debug)]
pub struct LogReader {
    body: Body,
    url: String,
    parser: Parser,
    ready: VecDeque<Message>,
    cursor: Option<String>,
}

impl LogReader {
    /// The next item; `None` when the stream broke off and can be taken up again at the cursor.
    pub async fn next(&mut self) -> Result<Option<LogItem>, ClientError> {
        loop {
            while let Some(message) = self.ready.pop_front() {
                if !message.id.is_empty() {
                    self.cursor = Some(message.id.clone());
                }
                match message.kind.as_str() {
                    "output" => return output(&message).map(Some),
                    "gap" => return Ok(Some(LogItem::Gap(read(&message)?))),
                    "end" => return Ok(Some(LogItem::End)),
                    // We were too slow; the scheduler waits for us to come back.
                    "dropped" => return Ok(None),
                    // Others say where we are, at most.
                    _ => {}
                }
            }
            let Some(bytes) = next_data(&mut self.body, &self.url).await? else { return Ok(None) };
            self.ready.extend(self.parser.feed(&bytes));
        }
    }

    /// Where another reader can go on after the last item; `None` before the first word of the scheduler.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
}

/// Bytes that are no text, as text.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn read<T: serde::de::DeserializeOwned>(message: &Message) -> Result<T, ClientError> {
    decode("/jobs/{id}/logs/stream", message.data.as_bytes())
}

fn output(message: &Message) -> Result<LogItem, ClientError> {
    let piece: LogPiece = read(message)?;
    let bytes = match (piece.text, piece.base64) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(encoded)) => STANDARD.decode(encoded).map_err(|error| {
            let path = "/jobs/{id}/logs/stream".to_owned();
            ClientError::Decode { path, source: serde::de::Error::custom(error) }
        })?,
        (None, None) => Vec::new(),
    };
    let LogPiece { attempt, stream, offset, at, .. } = piece;
    Ok(LogItem::Output { attempt, stream, offset, at, bytes: bytes.into() })
}

impl Client {
    /// Opens the output of a job.
    pub async fn log_stream(&self, query: &LogQuery) -> Result<LogReader, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/logs/stream", encode(&query.job_id)));
        target.add_some(
            "stream",
            query.stream.map(|stream| match stream {
                LogStream::Stdout => "stdout",
                LogStream::Stderr => "stderr",
            }),
        );
        target.add_some("attempt", query.attempt.map(|number| number.to_string()).as_deref());
        target.add_some("from_lease", query.from_lease.map(|number| number.to_string()).as_deref());
        target.add_some("cursor", query.cursor.as_deref());
        if query.cursor.is_none() {
            target.add_some("tail", query.tail.map(|lines| lines.to_string()).as_deref());
            target.add_some("since", query.since.map(|since| since.to_string()).as_deref());
        }
        for (name, wanted) in [("timestamps", query.timestamps), ("follow", query.follow)] {
            target.add_some(name, wanted.then_some("true"));
        }
        let body = self.open_stream(Call::new(Method::GET, target.path)).await?;
        let (parser, ready, cursor) = (Parser::default(), VecDeque::new(), query.cursor.clone());
        Ok(LogReader { body, url: self.url().to_owned(), parser, ready, cursor })
    }
}
