//! What is written down about each change, in the transaction that makes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::by::By;
use crate::ids::{JobId, Lease, WorkerId};
use crate::job::Exit;
use crate::kept_room::Unit;
use crate::phase::EndReason;
use crate::terminal::TerminalKind;
use crate::time::{Span, Timestamp};
use crate::usage::Measured;

/// Why a claimed job went back to the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum RequeueCause {
    /// The attempt failed and another is allowed.
    Failed {
        exit: Exit,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The worker fell silent.
    WorkerLost,
    /// The worker fell silent, as others had before it with this job: it is held.
    Poison { workers: Vec<WorkerId> },
    /// The attempt ran longer than the job allows.
    Timeout,
    /// The attempt was killed because it wanted more memory than it may have.
    OutOfMemory {
        exit: Exit,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The job asked for it by its exit code; the attempt was refunded.
    AskedFor { exit: Exit },
    /// The worker handed it back; the attempt was refunded.
    Released,
    /// It made room; the attempt was refunded. `rule` says how its exit was judged.
    Preempted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// Its gang stopped and waits to start again.
    Gang { reason: String },
}

/// One thing that happened to a job or a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum EventKind {
    Submitted {
        blocked: bool,
    },
    Unblocked,
    /// A delay has ended.
    Due,
    Held {
        reason: String,
    },
    /// A hold has ended.
    Released,
    RetryRequested,
    /// Changed while it waited; what was changed, in words.
    Edited {
        what: String,
    },
    QueueChanged,
    Claimed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<WorkerId>,
        lease: Lease,
        attempt: u32,
        waited: Span,
    },
    Requeued {
        lease: Lease,
        attempt: u32,
        #[serde(default)]
        delay: Span,
        #[serde(flatten)]
        cause: RequeueCause,
    },
    /// The worker of a task has everything ready for its start.
    Prepared {
        lease: Lease,
    },
    /// All tasks of the round are prepared: this one starts, with all others.
    Started {
        lease: Lease,
        round: u32,
    },
    /// A task ended well; it is done when all tasks of its gang have.
    Finished {
        lease: Lease,
        exit: Exit,
        ran: Span,
    },
    Done {
        lease: Lease,
        exit: Exit,
        ran: Span,
    },
    Failed {
        attempt: u32,
        reason: EndReason,
    },
    StopRequested {
        epoch: u32,
        reason: String,
    },
    Cancelled {
        reason: EndReason,
    },
    /// A task was placed on a worker, with all of its gang.
    Reserved {
        worker: WorkerId,
        /// The number of the round, and how many tasks it counts with.
        round: u32,
        size: u32,
    },
    /// The placement was taken back before the task was claimed.
    Unreserved {
        reason: String,
    },
    /// Others were told to stop so that it, or the gang of which it is the first task, can start.
    RoomMade {
        by: Vec<Unit>,
    },
    /// It has waited for so long that it, with all of its gang, goes first.
    Pinned {
        waited: Span,
    },
    /// The process of a task that was told to stop is gone; its gang is judged when all are.
    Drained {
        epoch: u32,
        lease: Lease,
        exit: Exit,
        /// Nobody said so: the time for it was up.
        forced: bool,
        ran: Span,
        /// How the exit was judged, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    CheckpointSaved {
        epoch: u32,
        bytes: u64,
    },
    /// Somebody opened a terminal in the running job, or ran a program beside it.
    TerminalOpened {
        kind: TerminalKind,
    },
    /// The worker that holds the job began to pull the image of its container.
    ImagePulling {
        image: String,
    },
    ImagePulled {
        image: String,
        digest: Arc<str>,
        /// Those that came over the network, as far as the engine told of them.
        bytes: u64,
        took: Span,
    },
    WorkerRegistered,
    WorkerOffline,
    /// Job after job failed on the worker at once: it gets no work for now.
    WorkerQuarantined {
        evidence: Vec<String>,
    },
    /// The worker gets work again.
    WorkerReleased {
        reason: String,
    },
}

impl EventKind {
    /// Every name that [`EventKind::name`] gives: those that people may ask for. A new one goes here too.
    pub const NAMES: [&'static str; 30] = [
        "submitted",
        "unblocked",
        "due",
        "held",
        "released",
        "retry_requested",
        "edited",
        "queue_changed",
        "claimed",
        "requeued",
        "prepared",
        "started",
        "finished",
        "done",
        "failed",
        "stop_requested",
        "cancelled",
        "reserved",
        "unreserved",
        "room_made",
        "pinned",
        "drained",
        "checkpoint_saved",
        "terminal_opened",
        "image_pulling",
        "image_pulled",
        "worker_registered",
        "worker_offline",
        "worker_quarantined",
        "worker_released",
    ];

    /// Whether it ends an attempt, if one was under way.
    pub const fn ends_attempt(&self) -> bool {
        matches!(
            self,
            Self::Requeued { .. }
                | Self::Finished { .. }
                | Self::Done { .. }
                | Self::Failed { .. }
                | Self::Cancelled { .. }
                | Self::Drained { .. }
        )
    }

    /// The stable name under which the API shows the event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Submitted { .. } => "submitted",
            Self::Unblocked => "unblocked",
            Self::Due => "due",
            Self::Held { .. } => "held",
            Self::Released => "released",
            Self::RetryRequested => "retry_requested",
            Self::Edited { .. } => "edited",
            Self::QueueChanged => "queue_changed",
            Self::Claimed { .. } => "claimed",
            Self::Requeued { .. } => "requeued",
            Self::Prepared { .. } => "prepared",
            Self::Started { .. } => "started",
            Self::Finished { .. } => "finished",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::StopRequested { .. } => "stop_requested",
            Self::Cancelled { .. } => "cancelled",
            Self::Reserved { .. } => "reserved",
            Self::Unreserved { .. } => "unreserved",
            Self::RoomMade { .. } => "room_made",
            Self::Pinned { .. } => "pinned",
            Self::Drained { .. } => "drained",
            Self::CheckpointSaved { .. } => "checkpoint_saved",
            Self::TerminalOpened { .. } => "terminal_opened",
            Self::ImagePulling { .. } => "image_pulling",
            Self::ImagePulled { .. } => "image_pulled",
            Self::WorkerRegistered => "worker_registered",
            Self::WorkerOffline => "worker_offline",
            Self::WorkerQuarantined { .. } => "worker_quarantined",
            Self::WorkerReleased { .. } => "worker_released",
        }
    }
}

/// An event about to be appended, or read back with the number that the log gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Position in the log, and the cursor of its readers; 0 until it is appended.
    pub seq: u64,
    pub at: Timestamp,
    pub job: Option<JobId>,
    pub worker: Option<WorkerId>,
    /// Who caused it, where the event does not say so already; see [`Event::by`].
    pub noted_by: Option<By>,
    /// What the attempt used that ended with it.
    pub measured: Option<Box<Measured>>,
    pub kind: EventKind,
}

impl Event {
    pub const fn of_job(job: JobId, at: Timestamp, kind: EventKind) -> Self {
        Self { seq: 0, at, job: Some(job), worker: None, noted_by: None, measured: None, kind }
    }

    pub const fn of_worker(worker: WorkerId, at: Timestamp, kind: EventKind) -> Self {
        Self { seq: 0, at, job: None, worker: Some(worker), noted_by: None, measured: None, kind }
    }

    /// With what the attempt used that ended with it.
    #[must_use]
    pub fn measured(self, measured: Option<Measured>) -> Self {
        Self { measured: measured.map(Box::new), ..self }
    }

    /// Of the cluster as a whole.
    pub const fn of_all(at: Timestamp, kind: EventKind) -> Self {
        Self { seq: 0, at, job: None, worker: None, noted_by: None, measured: None, kind }
    }

    /// Who caused it; `None` of events from before that was written down.
    pub fn by(&self) -> Option<By> {
        match &self.kind {
            EventKind::Claimed { worker, .. } => Some(By::Worker(worker.clone())),
            EventKind::WorkerRegistered => Some(By::Worker(self.worker.clone())),
            _ => self.noted_by.clone(),
        }
    }

    /// Notes who caused it, unless the event itself says so.
    #[must_use]
    pub fn caused_by(self, by: Option<By>) -> Self {
        match self.kind {
            EventKind::Claimed { .. } | EventKind::WorkerRegistered => self,
            _ => Self { noted_by: by, ..self },
        }
    }
}
