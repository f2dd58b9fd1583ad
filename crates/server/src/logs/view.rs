//! All output of one job that can be read here: what lies in files, and what has moved.
//!
//! Guarantee: of two copies of a run the longer one is read, and of equal ones the one that has moved, so that files may go
//! while nobody looks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use muster_domain::JobId;
use muster_protocol::LogStream;

use super::files::{LogStore, Stream};
use super::layout::{Extent, Layout};
use super::moved::{Moved, MovedRun};
use super::names::{self, Entry, Run};
use super::pack::STREAMS;
use super::times::Times;

#[derive(Debug)]
pub(super) struct View {
    directory: PathBuf,
    entries: Vec<Entry>,
    moved: Moved,
}

impl View {
    pub(super) fn open(logs: &LogStore, job: JobId, moved: &Moved) -> io::Result<Self> {
        let mut view =
            Self { directory: logs.directory(job), entries: logs.entries(job)?, moved: moved.clone() };
        for moved in moved.runs.iter() {
            let here: io::Result<Vec<Layout>> =
                STREAMS.into_iter().map(|kind| view.stream(moved.run, kind).layout(&view.entries)).collect();
            if here?.iter().map(Layout::end).sum::<u64>() <= moved.length() {
                view.entries.retain(|entry| entry.run != moved.run);
            }
        }
        Ok(view)
    }

    fn stream(&self, run: Run, kind: LogStream) -> Stream {
        Stream { directory: self.directory.clone(), run, kind }
    }

    /// Where a run is read from, unless that is files.
    fn moved(&self, run: Run) -> Option<&MovedRun> {
        self.moved.run(run).filter(|_| !self.entries.iter().any(|entry| entry.run == run))
    }

    /// The runs, oldest first.
    pub(super) fn runs(&self) -> Vec<Run> {
        let moved = self.moved.runs.iter().map(|moved| moved.run);
        let mut runs: Vec<Run> = self.entries.iter().map(|entry| entry.run).chain(moved).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    /// What is kept of one stream.
    pub(super) fn layout(&self, run: Run, stream: LogStream) -> io::Result<Layout> {
        match self.moved(run) {
            Some(moved) => Ok(moved.layout(stream)),
            None => self.stream(run, stream).layout(&self.entries),
        }
    }

    /// Up to `most` bytes of a piece of a stream, from a position in the stream on; none when it was dropped meanwhile.
    pub(super) fn read(
        &self,
        (run, stream): (Run, LogStream),
        extent: Extent,
        position: u64,
        most: usize,
    ) -> io::Result<Vec<u8>> {
        if let Some(moved) = self.moved(run) {
            return moved.read(stream, extent, position, most);
        }
        let file = match File::open(self.directory.join(names::data(run, stream, extent.start))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut buffer = vec![0; most];
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], position - extent.start + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    /// When the bytes were written of the piece that begins at `start`.
    pub(super) fn times(&self, run: Run, stream: LogStream, start: u64) -> io::Result<Times> {
        match self.moved(run) {
            Some(moved) => Ok(moved.times(stream, start)),
            None => Times::open(&self.directory.join(names::times(run, stream, start))),
        }
    }
}
