//! Where a job stands: its phase with the data that only that state has, and the reasons that go with it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, WorkerId};
use crate::job::Exit;
use crate::rule::{Needs, Rule};
use crate::time::Timestamp;

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
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancel { message: None } => f.write_str("cancelled"),
            Self::Cancel { message: Some(message) } => write!(f, "cancelled: {message}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Deadline => f.write_str("deadline passed"),
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
            Self::Deadline => f.write_str("deadline passed"),
            Self::DependencyFailed { ancestor } => write!(f, "dependency {ancestor} failed"),
            Self::DependencyCancelled { ancestor } => write!(f, "dependency {ancestor} was cancelled"),
            Self::Skipped { rule, .. } => {
                write!(f, "skipped: its rule {} can no longer be met", rule.as_str())
            }
            Self::Cancelled { message: None } => f.write_str("cancelled"),
            Self::Cancelled { message: Some(message) } => write!(f, "cancelled: {message}"),
        }
    }
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
    /// Placed on a worker that has not claimed it yet.
    Reserved {
        worker: WorkerId,
        reserved_at: Timestamp,
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
    Done,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 11] = [
        Self::Pending,
        Self::Delayed,
        Self::Held,
        Self::Blocked,
        Self::Reserved,
        Self::Running,
        Self::Preempting,
        Self::Preempted,
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
