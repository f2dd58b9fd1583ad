//! Where the output of a job goes: each stream to ours of the same name, or all as lines of JSON.
//!
//! Guarantee: standard output gets the bytes of the job and nothing else. What is missing is said on standard
//! error, and remembered for the exit code.

use std::io::{self, Write};

use jiff::Timestamp;
use muster_client::{LogItem, base64};
use muster_protocol::{Job, LogGap, LogGapCause, LogStream};
use serde::Serialize;

use crate::output::{Screen, json, status};
use crate::zone::Zone;

/// Which of the two streams are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    Both,
    /// Goes to standard output, whichever it is.
    Only(LogStream),
}

impl Streams {
    /// The one that is wanted, when it is one.
    pub(crate) fn only(self) -> Option<LogStream> {
        match self {
            Self::Both => None,
            Self::Only(stream) => Some(stream),
        }
    }
}

/// Takes pieces of output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sink {
    streams: Streams,
    json: bool,
    zone: Zone,
    timestamps: bool,
    /// Whether the last piece of each stream ended within a line.
    within: [bool; 2],
    /// Whether something was missing.
    incomplete: bool,
}

/// A task of a gang that wrote something.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Writer<'a> {
    pub(super) rank: u32,
    pub(super) job_id: &'a str,
}

/// A piece of output for programs: text when it is UTF-8, otherwise base64.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    writer: Option<Writer<'a>>,
    attempt: u32,
    stream: LogStream,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Output that is missing, for programs.
#[derive(Serialize)]
struct Missing<'a> {
    #[serde(flatten)]
    writer: Option<Writer<'a>>,
    missing: &'a LogGap,
}

/// The last line: how the job ended.
#[derive(Serialize)]
struct End<'a> {
    job: &'a Job,
}

impl Sink {
    pub(crate) fn new(streams: Streams, screen: Screen, timestamps: bool) -> Self {
        Self {
            streams,
            json: screen.json,
            zone: screen.zone,
            timestamps,
            within: [false; 2],
            incomplete: false,
        }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether something was missing of what was to be written.
    pub(crate) fn is_incomplete(self) -> bool {
        self.incomplete
    }

    /// Writes an item at once. It may block as long as the reader does.
    pub(crate) fn write(&mut self, item: &LogItem) -> io::Result<()> {
        self.incomplete |= matches!(item, LogItem::Gap(_));
        match item {
            item if self.json => as_json(item, None),
            LogItem::Output { stream, at, bytes, .. } => {
                let within = self.within[index(*stream)];
                self.within[index(*stream)] = bytes.last().map_or(within, |last| *last != b'\n');
                if self.timestamps {
                    return self
                        .put(*stream, &stamped(bytes, at.map(|at| self.zone.stamp(at)).as_deref(), within));
                }
                self.put(*stream, bytes)
            }
            LogItem::Gap(gap) => {
                // After a gap nobody knows where a line begins.
                self.within[index(gap.stream)] = false;
                let within = self.streams == Streams::Both
                    && std::mem::take(&mut self.within[index(LogStream::Stderr)]);
                put_marker(marker(gap, within).as_bytes())
            }
            LogItem::End => Ok(()),
        }
    }

    fn put(self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        put(self.streams, stream, bytes)
    }

    /// Tells programs how the job ended; people see it in the exit code.
    pub(crate) fn end(self, job: &Job) -> io::Result<()> {
        if self.json { json::line(&End { job }) } else { Ok(()) }
    }
}

/// Writes to our stream of the same name; the only one that is wanted goes to standard output.
pub(super) fn put(streams: Streams, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
    status::clear();
    if stream == LogStream::Stderr && streams == Streams::Both {
        return write_all(io::stderr().lock(), bytes);
    }
    write_all(io::stdout().lock(), bytes)
}

/// Says what is missing. Whoever reads standard output as data must not find it there.
pub(super) fn put_marker(bytes: &[u8]) -> io::Result<()> {
    status::clear();
    write_all(io::stderr().lock(), bytes)
}

fn write_all(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes).and_then(|()| out.flush())
}

/// One line of JSON for an item, with who wrote it when there are several.
pub(super) fn as_json(item: &LogItem, writer: Option<Writer<'_>>) -> io::Result<()> {
    match item {
        LogItem::Output { attempt, stream, offset, at, bytes } => {
            let text = std::str::from_utf8(bytes).ok();
            let base64 = text.is_none().then(|| base64(bytes));
            let (attempt, stream, offset, at) = (*attempt, *stream, *offset, *at);
            json::line(&Shown { writer, attempt, stream, offset, at, text, base64 })
        }
        LogItem::Gap(gap) => json::line(&Missing { writer, missing: gap }),
        LogItem::End => Ok(()),
    }
}

pub(super) fn index(stream: LogStream) -> usize {
    match stream {
        LogStream::Stdout => 0,
        LogStream::Stderr => 1,
    }
}

/// Puts the time before each line that begins here.
fn stamped(bytes: &[u8], at: Option<&str>, within: bool) -> Vec<u8> {
    let stamp = at.map(|at| format!("{at} ")).unwrap_or_default();
    let mut out = Vec::with_capacity(bytes.len() + stamp.len());
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if index > 0 || !within {
            out.extend_from_slice(stamp.as_bytes());
        }
        out.extend_from_slice(line);
    }
    out
}

/// Says what is missing and where, on a line of its own.
pub(super) fn marker(gap: &LogGap, within: bool) -> String {
    let why = match gap.cause {
        LogGapCause::Dropped => "dropped, the output is longer than the limit",
        LogGapCause::Expired => "removed, they were too old or took too much space",
    };
    let before = if within { "\n" } else { "" };
    let stream = ["stdout", "stderr"][index(gap.stream)];
    format!(
        "{before}[muster: {} bytes of {stream} are missing from byte {} on: {why}]\n",
        gap.bytes, gap.offset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn every_line_has_its_time_once() {
        let at = Some("2026-05-05T08:33:00.123Z");
        let stamp = "2026-05-05T08:33:00.123Z ";
        assert_eq!(text(stamped(b"a\nb\n", at, false)), format!("{stamp}a\n{stamp}b\n"));
        assert_eq!(text(stamped(b"rest\nc", at, true)), format!("rest\n{stamp}c"));
        assert_eq!(text(stamped(b"a\n", None, false)), "a\n");
    }

    #[test]
    fn a_marker_stands_on_its_own_line() {
        let gap = LogGap {
            attempt: 1,
            lease: 1,
            stream: LogStream::Stdout,
            offset: 5,
            bytes: 7,
            cause: LogGapCause::Dropped,
        };
        let line = "[muster: 7 bytes of stdout are missing from byte 5 on: dropped, the output is longer than the limit]\n";
        assert_eq!(marker(&gap, false), line);
        assert_eq!(marker(&gap, true), format!("\n{line}"));
    }
}
