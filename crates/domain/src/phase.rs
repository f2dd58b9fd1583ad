//! Where a job stands: its phase with the data that only that state has, and the reasons that go with it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, WorkerId};
use crate::job::Exit;
use crate::rule::{Needs, Rule};
use crate::time::{Span, Timestamp};

/// Why a job is kept from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// Somebody asked for it.
    Asked { message: Option<String> },
    /// It took worker after worker with it.
    Poison { workers: Vec<WorkerId> },
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { message: None } => f.write_str("held"),
            Self::Asked { message: Some(message) } => write!(f, "held: {message}"),
            Self::Poison { workers } => {
                let names: Vec<&str> = workers.iter().map(WorkerId::as_str).collect();
                write!(f, "held because its workers were lost one after the other: {}", names.join(", "))
            }
        }
    }
}

/// Why a running job is being stopped; decides what becomes of it once its process is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    Cancel {
        message: Option<String>,
    },
    /// The attempt ran longer than the job allows.
    Timeout,
    /// The job's deadline has passed.
    Deadline,
    /// To make room; it comes back at no cost.
    Preempt {
        message: Option<String>,
    },
    /// Its gang stops.
    Gang(GangStop),
}

impl StopReason {
    /// Whether the job may be started again after the stop.
    pub const fn comes_back(&self) -> bool {
        match self {
            Self::Cancel { .. } | Self::Deadline => false,
            Self::Timeout | Self::Preempt { .. } => true,
            Self::Gang(stop) => stop.restart.is_some(),
        }
    }
}

/// What went wrong with one task, so that its gang stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GangCause {
    Failed {
        exit: Exit,
        message: Option<String>,
    },
    WorkerLost {
        worker: Option<WorkerId>,
    },
    Timeout,
    /// Its worker handed it back.
    Released {
        worker: Option<WorkerId>,
    },
    /// The worker that it was placed on did not take it.
    NotClaimed {
        worker: WorkerId,
    },
    /// Its worker could not get it ready for the start, or not in time.
    NotPrepared {
        worker: Option<WorkerId>,
        message: Option<String>,
    },
    MadeRoom {
        message: Option<String>,
    },
}

/// Why a gang stops, because of which task, and whether it starts again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangStop {
    pub trigger: Option<JobId>,
    pub rank: Option<u32>,
    pub cause: GangCause,
    /// The pause before the next round; `None` when there is none.
    pub restart: Option<Span>,
    /// The task ran out of memory: the next round may ask for more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
}

impl fmt::Display for GangStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank} of the gang ")?,
            None => f.write_str("the gang ")?,
        }
        match &self.cause {
            GangCause::Failed { exit, message: None } => write!(f, "failed: {exit}"),
            GangCause::Failed { exit, message: Some(message) } if *exit == Exit::default() => {
                write!(f, "failed: {message}")
            }
            GangCause::Failed { exit, message: Some(message) } => write!(f, "failed: {exit}: {message}"),
            GangCause::WorkerLost { worker: Some(worker) } => write!(f, "was lost with worker {worker}"),
            GangCause::WorkerLost { worker: None } => f.write_str("was lost with its worker"),
            GangCause::Timeout => f.write_str("ran longer than it may"),
            GangCause::Released { worker: Some(worker) } => write!(f, "was handed back by worker {worker}"),
            GangCause::Released { worker: None } => f.write_str("was handed back by its worker"),
            GangCause::NotClaimed { worker } => write!(f, "was not taken by worker {worker} in time"),
            GangCause::NotPrepared { worker, message } => {
                f.write_str("was not prepared")?;
                if let Some(worker) = worker {
                    write!(f, " by worker {worker}")?;
                }
                write!(f, ": {}", message.as_deref().unwrap_or("it took too long"))
            }
            GangCause::MadeRoom { message: Some(message) } => f.write_str(message),
            GangCause::MadeRoom { message: None } => f.write_str("made room"),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancel { message: None } => f.write_str("cancelled"),
            Self::Cancel { message: Some(message) } => write!(f, "cancelled: {message}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Deadline => f.write_str("deadline passed"),
            Self::Preempt { message: None } => f.write_str("preempted"),
            Self::Preempt { message: Some(message) } => write!(f, "preempted: {message}"),
            Self::Gang(stop) => stop.fmt(f),
        }
    }
}

/// Why a job failed or was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// The process ended badly, or could not be started, and no attempt was left.
    Attempt {
        exit: Exit,
        message: Option<String>,
    },
    /// The worker fell silent and no attempt was left.
    WorkerLost {
        worker: Option<WorkerId>,
    },
    /// It ran longer than it may, and no attempt was left for that.
    Timeout,
    /// It wanted more memory than it may have, and no attempt was left for that.
    OutOfMemory {
        exit: Exit,
        message: Option<String>,
    },
    /// It had not ended by its deadline.
    Deadline,
    DependencyFailed {
        ancestor: JobId,
    },
    DependencyCancelled {
        ancestor: JobId,
    },
    /// It was not wanted: the rule of its dependencies can no longer be met, though none of them went wrong.
    Skipped {
        rule: Rule,
        ancestor: JobId,
    },
    Cancelled {
        message: Option<String>,
    },
    /// Its gang failed; `partial` when it could not start again because a task had ended before.
    Gang {
        stop: GangStop,
        partial: bool,
    },
    /// Its gang ran without it.
    NotNeeded,
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt { exit, message: None } => exit.fmt(f),
            Self::Attempt { exit, message: Some(message) } if *exit == Exit::default() => {
                f.write_str(message)
            }
            Self::Attempt { exit, message: Some(message) } => write!(f, "{exit}: {message}"),
            Self::WorkerLost { worker: Some(worker) } => write!(f, "worker {worker} was lost"),
            Self::WorkerLost { worker: None } => f.write_str("its worker was lost"),
            Self::Timeout => f.write_str("timeout"),
            Self::OutOfMemory { message: Some(message), .. } => f.write_str(message),
            Self::OutOfMemory { message: None, .. } => f.write_str("out of memory"),
            Self::Deadline => f.write_str("deadline passed"),
            Self::DependencyFailed { ancestor } => write!(f, "dependency {ancestor} failed"),
            Self::DependencyCancelled { ancestor } => write!(f, "dependency {ancestor} was cancelled"),
            Self::Skipped { rule, .. } => {
                write!(f, "skipped: its rule {} can no longer be met", rule.as_str())
            }
            Self::Cancelled { message: None } => f.write_str("cancelled"),
            Self::Cancelled { message: Some(message) } => write!(f, "cancelled: {message}"),
            Self::Gang { stop, partial: false } => stop.fmt(f),
            Self::Gang { stop, partial: true } => {
                write!(f, "{stop}; other tasks had ended before, so the gang cannot start again")
            }
            Self::NotNeeded => f.write_str("its gang ran without it"),
        }
    }
}

/// What is known of a task that its worker has claimed and not started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preparation {
    pub last_heartbeat: Option<Timestamp>,
    /// When the worker said that nothing but the start is left to do.
    pub prepared_at: Option<Timestamp>,
}

/// Where a job stands, with the data that only that state has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Ready to run.
    Pending,
    /// Ready but for the time: a start time that was asked for, or the pause before a new attempt.
    Delayed {
        until: Timestamp,
    },
    /// Ready but for the hold on it. `until` is a delay that goes on meanwhile.
    Held {
        until: Option<Timestamp>,
    },
    /// Waits for dependencies that are not done yet (or, for a gang task, for placement).
    Blocked {
        needs: Needs,
    },
    /// Placed on a worker; its process starts when all tasks of the round are prepared.
    Reserved {
        worker: WorkerId,
        reserved_at: Timestamp,
        /// How far the worker has come that claimed it; `None` before the claim.
        claim: Option<Preparation>,
    },
    /// A worker holds it. `worker` is `None` when the claim was anonymous.
    Running {
        worker: Option<WorkerId>,
        last_heartbeat: Option<Timestamp>,
    },
    /// Told to stop; the process may still be alive.
    Preempting {
        worker: Option<WorkerId>,
        last_heartbeat: Option<Timestamp>,
        drain_started_at: Timestamp,
        stop: StopReason,
        /// Somebody who could not prove it said that the process is gone; a heartbeat takes it back.
        exit_reported_at: Option<Timestamp>,
    },
    /// The process is gone; waits for the verdict on its gang.
    Preempted {
        drain_started_at: Timestamp,
        stop: StopReason,
        /// The task said itself that its work is done.
        finished: bool,
    },
    /// A task of a gang that ended well; it counts as done when all tasks of its gang have. It holds no room.
    Finished {
        at: Timestamp,
    },
    Done {
        at: Timestamp,
    },
    Failed {
        at: Timestamp,
        reason: EndReason,
    },
    Cancelled {
        at: Timestamp,
        reason: EndReason,
    },
}

/// The name of a phase, as the API and the database spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Delayed,
    Held,
    Blocked,
    Reserved,
    Running,
    Preempting,
    Preempted,
    Finished,
    Done,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 12] = [
        Self::Pending,
        Self::Delayed,
        Self::Held,
        Self::Blocked,
        Self::Reserved,
        Self::Running,
        Self::Preempting,
        Self::Preempted,
        Self::Finished,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delayed => "delayed",
            Self::Held => "held",
            Self::Blocked => "blocked",
            Self::Reserved => "reserved",
            Self::Running => "running",
            Self::Preempting => "preempting",
            Self::Preempted => "preempted",
            Self::Finished => "finished",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// The name that the API shows: a job that waits for a time or a release is `pending` there.
    pub const fn wire_name(self) -> &'static str {
        match self {
            Self::Delayed | Self::Held => Self::Pending.as_str(),
            other => other.as_str(),
        }
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Whether a job in this state takes room on its worker.
    pub const fn holds_capacity(self) -> bool {
        matches!(self, Self::Reserved | Self::Running | Self::Preempting)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
