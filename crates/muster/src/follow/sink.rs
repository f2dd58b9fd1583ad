//! Where the output of a job goes: each stream to ours of the same name, or all as lines of JSON.

use std::io::{self, Write as _};

use muster_protocol::{Job, LogStream};
use serde::Serialize;

use crate::output::json;

/// Which of the two streams are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    Both,
    /// Goes to standard output, whichever it is.
    Only(LogStream),
}

impl Streams {
    pub(crate) fn list(self) -> Vec<LogStream> {
        match self {
            Self::Both => vec![LogStream::Stdout, LogStream::Stderr],
            Self::Only(stream) => vec![stream],
        }
    }
}

/// Takes pieces of output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sink {
    pub(crate) streams: Streams,
    pub(crate) json: bool,
}

/// A piece of output for programs. Bytes that are no UTF-8 are replaced.
#[derive(Serialize)]
struct Piece<'a> {
    attempt: u32,
    stream: LogStream,
    text: &'a str,
}

/// The last line: how the job ended.
#[derive(Serialize)]
struct End<'a> {
    job: &'a Job,
}

impl Sink {
    /// Writes a piece at once. It may block as long as the reader does.
    pub(crate) fn write(self, attempt: u32, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        if self.json {
            return json::line(&Piece { attempt, stream, text: &String::from_utf8_lossy(bytes) });
        }
        if stream == LogStream::Stderr && self.streams == Streams::Both {
            let mut out = io::stderr().lock();
            return out.write_all(bytes).and_then(|()| out.flush());
        }
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    }

    /// Tells programs how the job ended; people see it in the exit code.
    pub(crate) fn end(self, job: &Job) -> io::Result<()> {
        if self.json { json::line(&End { job }) } else { Ok(()) }
    }
}
