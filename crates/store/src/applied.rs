//! What a committed batch tells the rest of the server.

use muster_domain::{Event, EventKind, GangId, Job, JobId, Span, Status, Timestamp, WorkerId};

use crate::command::Answer;
use crate::tx::UsageEntry;

/// What others should look at after a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wake {
    /// A job became runnable, or room became free: parked claims should be tried again.
    pub work: bool,
    /// A gang may be placed: it came in, became ready, or fell back. Or something urgent waits.
    pub gangs: bool,
    /// Workers that have an order waiting: to stop a job, or to start a task that they have prepared.
    pub stops: Vec<WorkerId>,
    /// Events were appended.
    pub events: bool,
    /// The earliest alarm that a job set: the sweep may have to come sooner than it thinks.
    pub alarm: Option<Timestamp>,
}

impl Wake {
    /// Derives the wake-up from what happened and the jobs it happened to.
    pub fn note(&mut self, event: &Event, job: Option<&Job>) {
        self.events = true;
        self.gangs |= job.is_some_and(|job| match job.status() {
            Status::Blocked => job.spec.gang.is_some(),
            // Others may have to stop for it.
            Status::Pending => job.spec.priority > 0,
            _ => false,
        });
        match &event.kind {
            EventKind::Reserved { .. }
            | EventKind::Unreserved { .. }
            | EventKind::Drained { .. }
            | EventKind::Submitted { blocked: false }
            | EventKind::Unblocked
            | EventKind::Due
            | EventKind::Released
            | EventKind::RetryRequested
            | EventKind::QueueChanged
            | EventKind::Edited { .. }
            | EventKind::Requeued { .. }
            | EventKind::Finished { .. }
            | EventKind::Done { .. }
            | EventKind::Failed { .. }
            | EventKind::Cancelled { .. }
            | EventKind::WorkerReleased { .. }
            | EventKind::WorkerRegistered => self.work = true,
            EventKind::StopRequested { .. } | EventKind::Started { .. } => {
                if let Some(worker) = job.and_then(Job::worker) {
                    self.stops.push(worker.clone());
                }
            }
            EventKind::Submitted { blocked: true }
            | EventKind::Held { .. }
            | EventKind::Claimed { .. }
            | EventKind::Prepared { .. }
            | EventKind::RoomMade { .. }
            | EventKind::Pinned { .. }
            | EventKind::CheckpointSaved { .. }
            | EventKind::TerminalOpened { .. }
            | EventKind::ImagePulling { .. }
            | EventKind::ImagePulled { .. }
            | EventKind::WorkerQuarantined { .. }
            | EventKind::WorkerOffline => {}
        }
    }

    /// Notes an alarm if it is earlier than those before it.
    pub fn note_alarm(&mut self, alarm: Option<Timestamp>) {
        self.alarm = self.alarm.into_iter().chain(alarm).min();
    }

    pub fn is_empty(&self) -> bool {
        !self.work && !self.gangs && !self.events && self.alarm.is_none() && self.stops.is_empty()
    }

    pub fn merge(&mut self, other: Self) {
        self.work |= other.work;
        self.gangs |= other.gangs;
        self.events |= other.events;
        self.note_alarm(other.alarm);
        self.stops.extend(other.stops);
    }
}

/// What happened to a gang as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangNote {
    pub gang: GangId,
    /// The newest epoch of its drains.
    pub epoch: u32,
    pub step: GangStep,
}

/// What made a gang drain, as far as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainCause {
    /// An attempt of a task failed or took too long.
    Failed,
    /// A worker fell silent.
    Lost,
    /// No attempt was lost: a cancellation, room for others, a placement that was not claimed.
    Stopped,
}

/// One step of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GangStep {
    Placed {
        size: u32,
        round: u32,
    },
    /// A placement was taken back.
    Lapsed {
        size: u32,
    },
    DrainStarted {
        trigger: Option<JobId>,
        cause: DrainCause,
        tasks: u32,
        reason: String,
    },
    /// A task was taken for gone because the time for it was up.
    Forced {
        task: JobId,
        age: Span,
    },
    /// A drain ended: what became of the gang, how long it took, and what its tasks had run in vain.
    Completed {
        outcome: &'static str,
        took: Span,
        wasted: Span,
        gpus: u64,
    },
}

/// A committed batch.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// One for each command, in order.
    pub answers: Vec<Answer>,
    /// Everything that happened, numbered.
    pub events: Vec<Event>,
    /// What happened to gangs.
    pub gangs: Vec<GangNote>,
    /// What was added to the sums of usage.
    pub usage: Vec<UsageEntry>,
    pub wake: Wake,
}
