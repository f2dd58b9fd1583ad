//! Ranges of one stream: offsets count what the process wrote, also what is not kept any more.

use std::io;
use std::sync::Arc;

use muster_domain::JobId;
use muster_protocol::LogStream;

use super::files::LogStore;
use super::layout::{Layout, Next};
use super::moved::Moved;
use super::names::Run;
use super::reader::Selection;
use super::view::View;

/// What a `Range` header asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Everything; also when the header says something that we do not serve, as it may then be ignored.
    Whole,
    From {
        first: u64,
        last: u64,
    },
    /// The last bytes.
    Last(u64),
}

/// Reads the header.
pub(crate) fn ask(header: Option<&str>) -> Asked {
    let Some((first, last)) =
        header.and_then(|text| text.trim().strip_prefix("bytes=")).and_then(|range| range.split_once('-'))
    else {
        return Asked::Whole;
    };
    match (first.trim(), last.trim()) {
        ("", last) => last.parse().map_or(Asked::Whole, Asked::Last),
        (first, last) => {
            let end = if last.is_empty() { Ok(u64::MAX) } else { last.parse() };
            match (first.parse(), end) {
                (Ok(first), Ok(last)) if first <= last => Asked::From { first, last },
                _ => Asked::Whole,
            }
        }
    }
}

/// How a range is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    Whole,
    /// These bytes, both ends included. They begin later than asked for when the first ones are not kept,
    /// and end earlier at a gap.
    Part {
        first: u64,
        last: u64,
    },
    Unsatisfiable,
}

/// What is known about one stream.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) run: Run,
    layout: Layout,
}

impl Facts {
    /// Bytes that the process wrote.
    pub(crate) fn length(&self) -> u64 {
        self.layout.end()
    }

    /// The first range that is not kept, as first and last offset.
    pub(crate) fn missing(&self) -> Option<(u64, u64)> {
        self.layout.missing_after(0).map(|(from, to)| (from, to.saturating_sub(1)))
    }
}

/// Which part of a stream answers a request.
pub(crate) fn serve(asked: Asked, facts: &Facts) -> Served {
    let length = facts.layout.end();
    let (first, last) = match asked {
        Asked::Whole => return Served::Whole,
        Asked::Last(0) => return Served::Unsatisfiable,
        Asked::Last(count) => (length.saturating_sub(count), u64::MAX),
        Asked::From { first, last } => (first, last),
    };
    let first = match facts.layout.at(first) {
        Next::Data(_) => first,
        Next::Dropped { to } | Next::Expired { to } => to,
        Next::End => return Served::Unsatisfiable,
    };
    let end = facts.layout.contiguous_end(first).min(last.saturating_add(1));
    if first < end { Served::Part { first, last: end - 1 } } else { Served::Unsatisfiable }
}

impl LogStore {
    /// What is kept of one stream of the run that the selection begins with.
    pub(crate) async fn facts(
        self: &Arc<Self>,
        selection: Selection,
        stream: LogStream,
        moved: &Moved,
    ) -> io::Result<Option<Facts>> {
        let (logs, moved) = (Arc::clone(self), moved.clone());
        let job: JobId = selection.job;
        let look = move || {
            let view = View::open(&logs, job, &moved)?;
            let Some(run) = selection.first(&view.runs()) else { return Ok(None) };
            Ok(Some(Facts { run, layout: view.layout(run, stream)? }))
        };
        self.reading(job, look).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Extent;
    use super::*;

    #[test]
    fn headers_as_clients_write_them() {
        assert_eq!(ask(None), Asked::Whole);
        assert_eq!(ask(Some("bytes=0-9")), Asked::From { first: 0, last: 9 });
        assert_eq!(ask(Some("bytes=5-")), Asked::From { first: 5, last: u64::MAX });
        assert_eq!(ask(Some("bytes=-3")), Asked::Last(3));
        for ignored in
            ["bytes=9-0", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", "bytes=", "bytes=-", "bytes=-x"]
        {
            assert_eq!(ask(Some(ignored)), Asked::Whole, "{ignored}");
        }
    }

    #[test]
    fn parts_end_at_gaps_and_begin_after_them() {
        let extent = |start, length| Extent { start, length };
        let layout = Layout::new(vec![extent(0, 10), extent(20, 5), extent(25, 5)], 0);
        let facts = Facts { run: Run { lease: 1, attempt: 1 }, layout };
        let of = |header| serve(ask(Some(header)), &facts);
        assert_eq!(of("bytes=2-5"), Served::Part { first: 2, last: 5 });
        assert_eq!(of("bytes=2-"), Served::Part { first: 2, last: 9 });
        assert_eq!(of("bytes=12-27"), Served::Part { first: 20, last: 27 });
        assert_eq!(of("bytes=22-"), Served::Part { first: 22, last: 29 });
        assert_eq!(of("bytes=-4"), Served::Part { first: 26, last: 29 });
        assert_eq!(of("bytes=-400"), Served::Part { first: 0, last: 9 });
        assert_eq!(of("bytes=12-15"), Served::Unsatisfiable);
        assert_eq!(of("bytes=30-"), Served::Unsatisfiable);
        assert_eq!(of("bytes=-0"), Served::Unsatisfiable);
        assert_eq!((facts.length(), facts.missing()), (30, Some((10, 19))));
    }
}
