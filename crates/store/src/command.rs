//! Commands, their outcomes, and what a committed batch tells the rest of the server.

use std::sync::Arc;

use muster_domain::limits::Timeouts;
use muster_domain::{
    Caller, Event, EventKind, Exit, Job, JobId, JobSpec, Rejection, ReportKind, Span, Timestamp, Worker,
    WorkerId,
};

/// One job of a submission. The id is made at the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    /// `depends_on` is empty here; the engine fills it from `depends_on` below.
    pub spec: Arc<JobSpec>,
    /// Local name that other jobs of the same submission may depend on.
    pub reference: Option<String>,
    /// Ids of existing jobs, or references within the submission, as the client wrote them.
    pub depends_on: Vec<String>,
}

/// A submission of one or many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submit {
    pub jobs: Vec<NewJob>,
    /// All or none.
    pub atomic: bool,
}

/// A request for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// `None` for an anonymous claimer.
    pub worker: Option<WorkerId>,
    pub max: u32,
    /// How many jobs beyond its slots the worker queues locally.
    pub ahead: u32,
}

/// What a worker says about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub job: JobId,
    pub caller: Caller,
    pub kind: ReportKind,
    pub exit: Exit,
    pub message: Option<String>,
}

/// One pass over what is overdue, in bounded steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    pub timeouts: Timeouts,
    /// Since when workers could have reported; silence before that proves nothing.
    pub listening_since: Timestamp,
    /// The most jobs to handle in one transaction.
    pub limit: usize,
    /// Finished jobs older than this are removed; `None` keeps them.
    pub retention: Option<Span>,
}

/// A change asked of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Submit(Submit),
    Claim(Ask),
    Report(Report),
    Heartbeat { job: JobId, caller: Caller },
    AcknowledgeStop { job: JobId, caller: Caller, epoch: i64 },
    SaveCheckpoint { job: JobId, caller: Caller, epoch: i64, bytes: Vec<u8> },
    Cancel { job: JobId, message: Option<String> },
    RegisterWorker(Worker),
    WorkerHeartbeat { worker: WorkerId },
    Sweep(Sweep),
}

/// A job that was taken in, or the earlier one that its idempotency key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub job: Job,
    /// The key was used before; this is the job made then.
    pub repeated: bool,
    /// Remarks, such as resources that no worker has today.
    pub warnings: Vec<String>,
}

/// A job handed to a worker, with its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub job: Job,
    pub checkpoint: Option<Arc<[u8]>>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The job after the heartbeat; when it is `preempting`, the worker must stop it.
    pub job: Job,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepSummary {
    pub requeued: u32,
    pub failed: u32,
    pub stops_forced: u32,
    pub workers_offline: u32,
    pub removed: u32,
    /// A step reached its limit: sweep again at once.
    pub more: bool,
    /// When the next running job or stop order can become overdue.
    pub next_due: Option<Timestamp>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// One for each job, in order.
    Submitted(Vec<Result<Submitted, Rejection>>),
    Claimed(Vec<Claimed>),
    /// The job after the report; `repeated` when the same report had been applied before.
    Reported {
        job: Job,
        repeated: bool,
    },
    Heartbeat(HeartbeatReply),
    StopAcknowledged,
    CheckpointSaved,
    /// Jobs that ended at once, and jobs that were told to stop; the named one first.
    Cancelled {
        cancelled: Vec<JobId>,
        stopping: Vec<JobId>,
    },
    Registered(Worker),
    WorkerSeen,
    Swept(SweepSummary),
}

/// One answer for each command of a batch.
pub type Answer = Result<Outcome, Rejection>;

/// What others should look at after a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wake {
    /// A job became runnable, or room became free: parked claims should be tried again.
    pub work: bool,
    /// Workers that have a stop order waiting.
    pub stops: Vec<WorkerId>,
    /// Events were appended.
    pub events: bool,
}

impl Wake {
    /// Derives the wake-up from what happened and the jobs it happened to.
    pub fn note(&mut self, event: &Event, job: Option<&Job>) {
        self.events = true;
        match &event.kind {
            EventKind::Submitted { blocked: false }
            | EventKind::Unblocked
            | EventKind::Requeued { .. }
            | EventKind::Done { .. }
            | EventKind::Failed { .. }
            | EventKind::Cancelled { .. }
            | EventKind::WorkerRegistered => self.work = true,
            EventKind::StopRequested { .. } => {
                if let Some(worker) = job.and_then(Job::worker) {
                    self.stops.push(worker.clone());
                }
            }
            EventKind::Submitted { blocked: true }
            | EventKind::Claimed { .. }
            | EventKind::CheckpointSaved { .. }
            | EventKind::WorkerOffline => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.work && !self.events && self.stops.is_empty()
    }

    pub fn merge(&mut self, other: Self) {
        self.work |= other.work;
        self.events |= other.events;
        self.stops.extend(other.stops);
    }
}

/// A committed batch.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// One for each command, in order.
    pub answers: Vec<Answer>,
    /// Everything that happened, numbered.
    pub events: Vec<Event>,
    pub wake: Wake,
}
