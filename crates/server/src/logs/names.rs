//! Names of the files in a job's directory.
//!
//! `<attempt>.<lease>.<stream>` holds the beginning of a stream, `….from.<offset>` a later part of it,
//! `….times` beside each of these when its bytes were written, `….gone` how much there was before it was
//! removed. The lease is in the name because an attempt that was handed back does not count: the next one
//! has the same number and another lease.

use muster_protocol::LogStream;

/// One run of a job that has output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) lease: u64,
    pub(crate) attempt: u32,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes from this offset on.
    Data { start: u64 },
    /// When the bytes of the file that begins at this offset were written.
    Times,
    /// Only the length of what is gone.
    Gone,
}

/// One file of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) run: Run,
    pub(super) stream: LogStream,
    pub(super) kind: Kind,
}

pub(super) fn stream_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    }
}

/// The file of the part of a stream that begins at an offset.
pub(super) fn data(run: Run, stream: LogStream, start: u64) -> String {
    let Run { attempt, lease } = run;
    match start {
        0 => format!("{attempt}.{lease}.{}", stream_name(stream)),
        start => format!("{attempt}.{lease}.{}.from.{start}", stream_name(stream)),
    }
}

/// The times that belong to [`data`].
pub(super) fn times(run: Run, stream: LogStream, start: u64) -> String {
    data(run, stream, start) + ".times"
}

/// What stays of a removed stream.
pub(super) fn gone(run: Run, stream: LogStream) -> String {
    data(run, stream, 0) + ".gone"
}

/// Reads a name; `None` when it is none of ours.
pub(super) fn parse(name: &str) -> Option<Entry> {
    let mut parts = name.split('.');
    let attempt = parts.next()?.parse().ok()?;
    let lease = parts.next()?.parse().ok()?;
    let stream = match parts.next()? {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return None,
    };
    let kind = match (parts.next(), parts.next(), parts.next()) {
        (None, _, _) => Kind::Data { start: 0 },
        (Some("gone"), None, _) => Kind::Gone,
        (Some("from"), Some(start), None) => Kind::Data { start: start.parse().ok()? },
        (Some("times"), None, _) | (Some("from"), Some(_), Some("times")) => Kind::Times,
        _ => return None,
    };
    Some(Entry { run: Run { lease, attempt }, stream, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let run = Run { lease: 7, attempt: 2 };
        let kind = |name: &str| parse(name).map(|entry| (entry.run, entry.kind));
        for start in [0, 5] {
            let name = data(run, LogStream::Stderr, start);
            assert_eq!(parse(&name).unwrap().stream, LogStream::Stderr);
            assert_eq!(kind(&name), Some((run, Kind::Data { start })));
            assert_eq!(kind(&times(run, LogStream::Stdout, start)), Some((run, Kind::Times)));
        }
        assert_eq!(kind(&gone(run, LogStream::Stdout)), Some((run, Kind::Gone)));
        for other in ["", "x", "1.2", "1.2.stdin", "1.2.stdout.cut", "1.2.stdout.from.x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
