//! The lines about jobs and workers that operators read, with a bound on how many a second are written.
//!
//! Guarantee: warnings and errors are always written; of the lines about normal progress at most
//! [`LINES_PER_SECOND`], and a line says how many were left out. The event log in the store is complete.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use muster_domain::{EndReason, Event, EventKind, RequeueCause};

/// Beyond this rate a line per job would cost more than the job.
const LINES_PER_SECOND: u64 = 500;

/// Counts lines of normal progress.
#[derive(Debug)]
pub(crate) struct Journal {
    started: Instant,
    second: AtomicU64,
    lines: AtomicU64,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), second: AtomicU64::new(0), lines: AtomicU64::new(0) }
    }

    /// Whether one more line of normal progress may be written now.
    pub(crate) fn admits(&self) -> bool {
        if !tracing::enabled!(tracing::Level::INFO) {
            return false;
        }
        let second = self.started.elapsed().as_secs();
        if self.second.swap(second, Ordering::Relaxed) != second {
            let left_out = self.lines.swap(0, Ordering::Relaxed).saturating_sub(LINES_PER_SECOND);
            if left_out > 0 {
                tracing::info!(count = left_out, "lines about jobs left out");
            }
        }
        self.lines.fetch_add(1, Ordering::Relaxed) < LINES_PER_SECOND
    }
}

/// Writes down what no request will: the acts of the reaper and what follows from a job's end.
pub(crate) fn note(event: &Event) {
    let job_id = event.job.map(tracing::field::display);
    match &event.kind {
        EventKind::Requeued { cause: RequeueCause::WorkerLost, attempt, .. } => {
            tracing::warn!(job_id, attempt, "stale heartbeat, re-queuing");
        }
        EventKind::Failed { reason: EndReason::WorkerLost { worker }, attempt } => {
            let worker_id = worker.as_ref().map(tracing::field::display);
            tracing::error!(job_id, worker_id, attempt, "stale heartbeat, marking failed");
        }
        EventKind::Failed { reason, .. } => match reason {
            EndReason::DependencyFailed { .. } | EndReason::DependencyCancelled { .. } => {
                tracing::warn!(job_id, %reason, "job ended with its dependency");
            }
            EndReason::Deadline | EndReason::Timeout => tracing::warn!(job_id, %reason, "job failed"),
            EndReason::Attempt { .. }
            | EndReason::OutOfMemory { .. }
            | EndReason::Cancelled { .. }
            | EndReason::Skipped { .. }
            | EndReason::Gang { .. }
            | EndReason::NotNeeded
            | EndReason::WorkerLost { .. } => {}
        },
        EventKind::WorkerOffline => {
            let worker_id = event.worker.as_ref().map(tracing::field::display);
            tracing::warn!(worker_id, "worker offline");
        }
        EventKind::Requeued { cause: RequeueCause::Poison { workers }, .. } => {
            tracing::error!(job_id, ?workers, "job held: its workers were lost one after the other");
        }
        EventKind::WorkerQuarantined { evidence } => {
            let worker_id = event.worker.as_ref().map(tracing::field::display);
            tracing::error!(worker_id, ?evidence, "worker in quarantine");
        }
        EventKind::WorkerReleased { reason } => {
            let worker_id = event.worker.as_ref().map(tracing::field::display);
            tracing::info!(worker_id, reason, "worker out of quarantine");
        }
        EventKind::Due
        | EventKind::Held { .. }
        | EventKind::Released
        | EventKind::RetryRequested
        | EventKind::Edited { .. }
        | EventKind::QueueChanged
        | EventKind::Submitted { .. }
        | EventKind::Unblocked
        | EventKind::Claimed { .. }
        | EventKind::Requeued { .. }
        | EventKind::Prepared { .. }
        | EventKind::Started { .. }
        | EventKind::Finished { .. }
        | EventKind::Done { .. }
        | EventKind::StopRequested { .. }
        | EventKind::Reserved { .. }
        | EventKind::Unreserved { .. }
        | EventKind::RoomMade { .. }
        | EventKind::Pinned { .. }
        | EventKind::Drained { .. }
        | EventKind::Cancelled { .. }
        | EventKind::CheckpointSaved { .. }
        | EventKind::TerminalOpened { .. }
        | EventKind::ImagePulling { .. }
        | EventKind::ImagePulled { .. }
        | EventKind::WorkerRegistered => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_lines_are_bounded() {
        let journal = Journal::new();
        let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        let admitted = tracing::subscriber::with_default(subscriber, || {
            (0..LINES_PER_SECOND * 3).filter(|_| journal.admits()).count() as u64
        });
        assert!((LINES_PER_SECOND..LINES_PER_SECOND * 3).contains(&admitted), "{admitted}");
    }
}
