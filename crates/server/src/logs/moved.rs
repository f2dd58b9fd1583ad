//! Output that has moved out of the files of schedulers, as readers see it.

use std::io;
use std::sync::Arc;

use muster_domain::Job;
use muster_protocol::{LogRun, LogStream};
use muster_store::{MovedOutput, OutputContent};

use super::layout::{Extent, Layout};
use super::names::Run;
use super::objects::{Body, Objects};
use super::pack::{Pack, STREAMS, index};
use super::times::Times;

/// One run.
#[derive(Debug, Clone)]
pub(super) struct MovedRun {
    pub(super) run: Run,
    written: [u64; 2],
    whole: bool,
    pack: Pack,
    body: Body,
}

impl MovedRun {
    fn new(output: MovedOutput, objects: &Arc<Objects>) -> io::Result<Self> {
        let pack: Pack = serde_json::from_str(&output.facts)?;
        let body = match output.content {
            OutputContent::Inline(bytes) => Body::Inline(bytes.into()),
            OutputContent::Blob(key) => {
                Body::Object { objects: Arc::clone(objects), key: key.into(), size: pack.size() }
            }
            OutputContent::Removed => Body::Gone,
        };
        let run = Run { lease: output.lease.0, attempt: output.attempt };
        Ok(Self { run, written: output.written, whole: output.whole, pack, body })
    }

    pub(super) fn length(&self) -> u64 {
        self.written.iter().sum()
    }

    pub(super) fn layout(&self, stream: LogStream) -> Layout {
        match self.body {
            Body::Gone => Layout::new(Vec::new(), self.written[index(stream)]),
            Body::Inline(_) | Body::Object { .. } => self.pack.layout(stream),
        }
    }

    /// Up to `most` bytes of a piece, from a position in the stream on.
    pub(super) fn read(
        &self,
        stream: LogStream,
        extent: Extent,
        position: u64,
        most: usize,
    ) -> io::Result<Vec<u8>> {
        let place = self.pack.place(stream, extent.start).ok_or(io::ErrorKind::NotFound)?;
        let mut buffer = vec![0; most];
        self.body.read(place.bytes + (position - extent.start), &mut buffer)?;
        Ok(buffer)
    }

    pub(super) fn times(&self, stream: LogStream, start: u64) -> Times {
        match self.pack.place(stream, start) {
            Some(place) => Times::packed(self.body.clone(), place.times, place.pairs),
            None => Times::none(),
        }
    }
}

/// What has moved of the output of one job, oldest run first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    pub(super) runs: Arc<Vec<MovedRun>>,
}

impl Moved {
    pub(crate) fn new(outputs: Vec<MovedOutput>, objects: &Arc<Objects>) -> io::Result<Self> {
        let runs: io::Result<Vec<MovedRun>> =
            outputs.into_iter().map(|output| MovedRun::new(output, objects)).collect();
        Ok(Self { runs: Arc::new(runs?) })
    }

    /// Whether reading it may have to wait for the blob store.
    pub(crate) fn is_far(&self) -> bool {
        self.runs.iter().any(|run| matches!(run.body, Body::Object { .. }))
    }

    pub(super) fn run(&self, run: Run) -> Option<&MovedRun> {
        self.runs.iter().find(|moved| moved.run == run)
    }

    pub(crate) fn told(&self) -> Vec<LogRun> {
        let told = |moved: &MovedRun| {
            let [stdout_bytes, stderr_bytes] = STREAMS.map(|stream| moved.written[index(stream)]);
            LogRun { lease: moved.run.lease, attempt: moved.run.attempt, stdout_bytes, stderr_bytes }
        };
        self.runs.iter().map(told).collect()
    }

    /// Whether no scheduler can have more of what is asked for: all of it, of the last attempt or the named one.
    pub(crate) fn is_all(&self, job: &Job, attempt: Option<u32>) -> bool {
        let wanted = |moved: &&MovedRun| attempt.is_none_or(|attempt| moved.run.attempt == attempt);
        let last = attempt.is_none_or(|attempt| attempt == job.attempts);
        let newest = self.runs.iter().rev().find(wanted);
        let ended = job.is_terminal() || !last;
        newest.is_some_and(|moved| moved.whole && ended && (!last || moved.run.lease == last_lease(job)))
    }
}

/// The lease under which a job that has ended ran last.
fn last_lease(job: &Job) -> u64 {
    job.closed.map_or(job.lease, |closed| closed.lease).0
}
