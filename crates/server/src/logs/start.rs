//! Where a reader begins that wants only the end of the output, or what was written since some time.

use std::io;

use muster_protocol::LogStream;

use super::batch::{Content, Item, PIECE, Source};
use super::cursor::Place;
use super::layout::Layout;
use super::names::Run;
use super::reader::{Selection, Start};
use super::view::View;

/// The place at which the reader begins; `None` when there is no run that it wants.
pub(super) fn place(view: &View, selection: &Selection, runs: &[Run]) -> io::Result<Option<Place>> {
    let Some(first) = selection.first(runs) else { return Ok(None) };
    let search = Search { view, selection };
    match selection.start {
        Start::Offset(offset) => Ok(Some(Place { run: first, stdout: offset, stderr: offset })),
        Start::Tail(lines) => search.tail(first, lines).map(Some),
        Start::Since(micros) => {
            let (mut place, mut any) = search.since(first, micros)?;
            let later = runs.iter().filter(|run| run.lease > first.lease && selection.wants(**run));
            for run in later.filter(|_| selection.onward) {
                if !any {
                    (place, any) = search.since(*run, micros)?;
                }
            }
            Ok(Some(place))
        }
    }
}

/// A look at the output of one job.
struct Search<'a> {
    view: &'a View,
    selection: &'a Selection,
}

/// A line near the end of a stream.
struct Line {
    at: Option<i64>,
    stream: LogStream,
    offset: u64,
}

impl Search<'_> {
    fn layout(&self, run: Run, stream: LogStream) -> io::Result<Layout> {
        self.view.layout(run, stream)
    }

    /// The first bytes of a run that were written at `micros` or later, and whether there are any.
    fn since(&self, run: Run, micros: i64) -> io::Result<(Place, bool)> {
        let mut place = Place { run, stdout: 0, stderr: 0 };
        let mut any = false;
        for stream in &self.selection.streams {
            let layout = self.layout(run, *stream)?;
            let found = self.first_since(run, *stream, &layout, micros)?;
            any |= found.is_some();
            *place.of(*stream) = found.unwrap_or_else(|| layout.end());
        }
        Ok((place, any))
    }

    fn first_since(
        &self,
        run: Run,
        stream: LogStream,
        layout: &Layout,
        micros: i64,
    ) -> io::Result<Option<u64>> {
        for extent in layout.extents() {
            let times = self.view.times(run, stream, extent.start)?;
            if let Some(offset) = times.since(micros, extent.start)?
                && offset < extent.end()
            {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    /// The last lines of the wanted streams together.
    fn tail(&self, run: Run, count: usize) -> io::Result<Place> {
        let mut place = Place { run, stdout: 0, stderr: 0 };
        let mut lines: Vec<Line> = Vec::new();
        for stream in &self.selection.streams {
            let layout = self.layout(run, *stream)?;
            *place.of(*stream) = layout.end();
            lines.extend(self.last_lines(run, *stream, &layout, count)?);
        }
        // Stable, so that lines of one stream stay in order.
        lines.sort_by_key(|line| line.at);
        let surplus = lines.len().saturating_sub(count);
        for line in lines.into_iter().skip(surplus) {
            let position = place.of(line.stream);
            *position = line.offset.min(*position);
        }
        Ok(place)
    }

    /// The beginnings of the last lines of a stream, up to a gap: before it there is another part of the output.
    fn last_lines(
        &self,
        run: Run,
        stream: LogStream,
        layout: &Layout,
        count: usize,
    ) -> io::Result<Vec<Line>> {
        let end = layout.end();
        let mut lines = Vec::new();
        let (mut upper, mut from) = (end, end);
        // When the byte after the one that is looked at was written.
        let mut later = None;
        while from > 0 && lines.len() < count {
            from = from.saturating_sub(PIECE as u64);
            let source = Source { view: self.view, run, stream, layout, until: upper };
            let (items, gap) = after_gap(source.ahead(from)?.items);
            for item in items.iter().rev() {
                let Content::Bytes(bytes) = &item.content else { continue };
                for (index, byte) in bytes.iter().enumerate().rev() {
                    let offset = item.offset + index as u64 + 1;
                    if *byte == b'\n' && offset < end && lines.len() < count {
                        lines.push(Line { at: later, stream, offset });
                    }
                    later = item.at;
                }
            }
            let begin = items.first().map_or(upper, |item| item.offset);
            if (from == 0 || gap) && begin < end && lines.len() < count {
                lines.push(Line { at: later, stream, offset: begin });
            }
            if gap || items.is_empty() {
                break;
            }
            upper = from;
        }
        lines.reverse();
        Ok(lines)
    }
}

/// What comes after the last gap, and whether there is one.
fn after_gap(mut items: Vec<Item>) -> (Vec<Item>, bool) {
    let gap = items.iter().rposition(|item| matches!(item.content, Content::Missing { .. }));
    items.drain(..gap.map_or(0, |gap| gap + 1));
    (items, gap.is_some())
}
