//! What is written down about each change, in the transaction that makes it.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Lease, WorkerId};
use crate::job::{EndReason, Exit};
use crate::time::{Span, Timestamp};

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
    /// The worker handed it back; the attempt was refunded.
    Released,
}

/// One thing that happened to a job or a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum EventKind {
    Submitted {
        blocked: bool,
    },
    Unblocked,
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
        #[serde(flatten)]
        cause: RequeueCause,
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
    CheckpointSaved {
        epoch: u32,
        bytes: u64,
    },
    WorkerRegistered,
    WorkerOffline,
}

impl EventKind {
    /// The stable name under which the API shows the event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Submitted { .. } => "submitted",
            Self::Unblocked => "unblocked",
            Self::Claimed { .. } => "claimed",
            Self::Requeued { .. } => "requeued",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::StopRequested { .. } => "stop_requested",
            Self::Cancelled { .. } => "cancelled",
            Self::CheckpointSaved { .. } => "checkpoint_saved",
            Self::WorkerRegistered => "worker_registered",
            Self::WorkerOffline => "worker_offline",
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
    pub kind: EventKind,
}

impl Event {
    pub const fn of_job(job: JobId, at: Timestamp, kind: EventKind) -> Self {
        Self { seq: 0, at, job: Some(job), worker: None, kind }
    }

    pub const fn of_worker(worker: WorkerId, at: Timestamp, kind: EventKind) -> Self {
        Self { seq: 0, at, job: None, worker: Some(worker), kind }
    }
}
