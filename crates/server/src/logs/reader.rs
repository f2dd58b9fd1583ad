//! A reader: which output it wants, and what it gets next.
//!
//! Guarantees: every byte once, in order within its stream; what is missing is said; a reader holds one piece
//! at a time; a cursor brings it back to where it was.

use std::io;

use muster_domain::JobId;
use muster_protocol::LogStream;

use super::batch::{Ahead, Item, Source, join, merge};
use super::cursor::{Cursor, Place};
use super::files::LogStore;
use super::moved::Moved;
use super::names::Run;
use super::start;
use super::view::View;

/// With which of the wanted runs to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    Oldest,
    Newest,
}

/// Where to begin in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Offset(u64),
    /// The last lines of both streams together.
    Tail(usize),
    /// What was written at this time or later, in microseconds.
    Since(i64),
}

/// How the two streams are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other.
    InTurn,
    ByTime,
    /// By time, and cut wherever the time changes.
    Timed,
}

/// What a reader wants.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) job: JobId,
    /// `None` means any.
    pub(crate) attempt: Option<u32>,
    /// Runs under older leases are passed over.
    pub(crate) from_lease: u64,
    pub(crate) streams: Vec<LogStream>,
    pub(crate) begin: Begin,
    pub(crate) start: Start,
    /// Go on with later runs at the end of one.
    pub(crate) onward: bool,
    pub(crate) order: Order,
    /// Stop before this offset.
    pub(crate) until: u64,
}

impl Selection {
    /// Everything of the newest run.
    pub(crate) fn of(job: JobId, streams: Vec<LogStream>) -> Self {
        Self {
            job,
            attempt: None,
            from_lease: 0,
            streams,
            begin: Begin::Newest,
            start: Start::Offset(0),
            onward: false,
            order: Order::InTurn,
            until: u64::MAX,
        }
    }

    pub(super) fn wants(&self, run: Run) -> bool {
        run.lease >= self.from_lease && self.attempt.is_none_or(|attempt| attempt == run.attempt)
    }

    /// The run to begin with.
    pub(super) fn first(&self, runs: &[Run]) -> Option<Run> {
        let newest = runs.iter().rposition(|run| self.wants(*run))?;
        match (self.begin, self.attempt) {
            (Begin::Newest, _) => runs.get(newest).copied(),
            (Begin::Oldest, None) => runs.iter().find(|run| self.wants(**run)).copied(),
            // A job that was retried by hand counts its attempts from one again: older ones of that number,
            // from before, are not meant. Runs that follow one another with the same number are one attempt.
            (Begin::Oldest, Some(_)) => {
                runs[..=newest].iter().rev().take_while(|run| self.wants(**run)).last().copied()
            }
        }
    }

    /// The run after `run`, when the reader wants to go on.
    fn next(&self, runs: &[Run], run: Run) -> Option<Run> {
        let later = runs.iter().find(|next| next.lease > run.lease && self.wants(**next));
        later.filter(|_| self.onward).copied()
    }
}

/// A reader on its way.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) selection: Selection,
    cursor: Cursor,
}

impl Reader {
    pub(crate) fn new(selection: Selection) -> Self {
        Self { selection, cursor: Cursor::default() }
    }

    /// Goes on where another one has stopped.
    pub(crate) fn resume(mut selection: Selection, cursor: Cursor) -> Self {
        selection.begin = Begin::Oldest;
        selection.start = Start::Offset(0);
        Self { selection, cursor }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// How far it has come in a stream of a run; `None` when it does not read that.
    pub(super) fn position(&self, run: Run, stream: LogStream) -> Option<u64> {
        if !self.selection.wants(run) || !self.selection.streams.contains(&stream) {
            return None;
        }
        let places = &self.cursor.places;
        match places.iter().find(|place| place.run == run) {
            Some(place) => Some(*place.clone().of(stream)),
            // It has not come there yet.
            None if places.last().is_none_or(|last| self.selection.onward && last.run.lease < run.lease) => {
                Some(0)
            }
            None => None,
        }
    }

    /// The next items; none when everything was read. Touches the disk, and the blob store for what has moved.
    pub(crate) fn read(&mut self, logs: &LogStore, moved: &Moved) -> io::Result<Vec<Item>> {
        let view = View::open(logs, self.selection.job, moved)?;
        let runs = view.runs();
        if self.cursor.places.is_empty() && !self.begin(&view, &runs)? {
            return Ok(Vec::new());
        }
        loop {
            for index in 0..self.cursor.places.len() {
                let items = self.read_place(&view, index)?;
                if !items.is_empty() {
                    return Ok(items);
                }
            }
            let last = self.cursor.places.last().map(|place| place.run);
            match last.and_then(|last| self.selection.next(&runs, last)) {
                Some(run) => self.cursor.enter(Place { run, stdout: 0, stderr: 0 }),
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Finds the beginning; false when there is nothing to begin with.
    fn begin(&mut self, view: &View, runs: &[Run]) -> io::Result<bool> {
        let place = start::place(view, &self.selection, runs)?;
        // What comes after this first look is new, and wanted whole.
        self.selection.begin = Begin::Oldest;
        self.selection.start = Start::Offset(0);
        let Some(place) = place else { return Ok(false) };
        self.cursor.enter(place);
        Ok(true)
    }

    fn read_place(&mut self, view: &View, index: usize) -> io::Result<Vec<Item>> {
        let mut place = self.cursor.places[index];
        let mut sources = Vec::new();
        for stream in &self.selection.streams {
            let layout = view.layout(place.run, *stream)?;
            let until = self.selection.until;
            let source = Source { view, run: place.run, stream: *stream, layout: &layout, until };
            let ahead = source.ahead(*place.of(*stream))?;
            if self.selection.order == Order::InTurn && !ahead.items.is_empty() {
                sources = vec![ahead];
                break;
            }
            sources.push(ahead);
        }
        let mut sources = sources.into_iter();
        let first = sources.next().unwrap_or_default();
        let merged = merge(first, sources.next().unwrap_or_else(Ahead::default));
        for item in &merged {
            *place.of(item.stream) = item.end();
        }
        self.cursor.places[index] = place;
        Ok(if self.selection.order == Order::Timed { merged } else { join(merged) })
    }
}
