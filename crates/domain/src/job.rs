//! Jobs: what was asked for ([`JobSpec`], never changed) and where it stands ([`Phase`], changed only
//! by [`crate::lifecycle`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{GangId, JobId, Lease, QueueName, WorkerId};
use crate::resources::{Requirement, Resources};
use crate::time::{Span, Timestamp};

/// How the process is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// A line for `sh -c`.
    #[serde(rename = "sh")]
    Shell(String),
    /// A program and its arguments, run as they are.
    #[serde(rename = "argv")]
    Argv(Vec<String>),
}

impl Program {
    /// One line for people; arguments that need it are quoted for a shell.
    pub fn to_line(&self) -> String {
        match self {
            Self::Shell(line) => line.clone(),
            Self::Argv(words) => words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
        }
    }
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Membership in a gang. The transitions of gangs come with the gang rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangMembership {
    pub id: GangId,
    pub size: u32,
    pub index: u32,
}

/// What was submitted. It never changes, so it is shared rather than copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    #[serde(rename = "p")]
    pub program: Program,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// `None` when the submitter said nothing, which the wire shows differently from an empty object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Tags required of the worker.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Higher is more important.
    #[serde(default)]
    pub priority: i32,
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<JobId>,
    /// Time between the polite signal and the kill; the scheduler's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangMembership>,
}

impl JobSpec {
    /// A shell job with every default; tests and callers set what they are about.
    pub fn shell(line: impl Into<String>) -> Self {
        Self {
            program: Program::Shell(line.into()),
            name: None,
            env: BTreeMap::new(),
            working_dir: None,
            resources: None,
            tags: BTreeSet::new(),
            queue: None,
            priority: 0,
            max_attempts: crate::limits::DEFAULT_MAX_ATTEMPTS,
            depends_on: Vec::new(),
            grace: None,
            idempotency_key: None,
            gang: None,
        }
    }

    pub fn requirement(&self) -> Requirement {
        Requirement { resources: self.resources.clone().unwrap_or_default(), tags: self.tags.clone() }
    }

    pub fn shape(&self) -> ShapeId {
        ShapeId::of(&self.requirement())
    }
}

/// Names a [`Requirement`]: jobs of one shape fit the same workers and take the same room. The store
/// keeps the requirement under this name and moves a newcomer to the next free name on a collision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShapeId(pub i64);

impl ShapeId {
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    pub fn of(requirement: &Requirement) -> Self {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        requirement.hash(&mut hasher);
        Self(hasher.finish() as i64)
    }
}

/// FNV-1a: the id is stored, so it must not depend on the process that computes it.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// How a process ended, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (_, Some(signal)) => write!(f, "killed by signal {signal}"),
            (Some(code), None) => write!(f, "exit code {code}"),
            (None, None) => f.write_str("no exit status"),
        }
    }
}

/// What a worker says about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReportKind {
    Done,
    Failed,
    /// Handed back unfinished; costs no attempt.
    Released,
    /// Ended because of a stop order.
    Preempted,
}

/// The lease that ended last, and the report that ended it. Lets a repeated report be told from a
/// contradicting or a late one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedLease {
    pub lease: Lease,
    /// `None` when the lease was taken away rather than given up.
    pub by: Option<ReportKind>,
}

/// Why a running job is being stopped; decides what becomes of it once its process is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    Cancel { message: Option<String> },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancel { message: None } => f.write_str("cancelled"),
            Self::Cancel { message: Some(message) } => write!(f, "cancelled: {message}"),
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
    DependencyFailed {
        ancestor: JobId,
    },
    DependencyCancelled {
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
            Self::DependencyFailed { ancestor } => write!(f, "dependency {ancestor} failed"),
            Self::DependencyCancelled { ancestor } => write!(f, "dependency {ancestor} was cancelled"),
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
    /// Waits for dependencies that are not done yet (or, for a gang task, for placement).
    Blocked {
        waiting_on: u32,
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
    },
    /// The process is gone; waits for the verdict on its gang.
    Preempted {
        drain_started_at: Timestamp,
        stop: StopReason,
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
    pub const ALL: [Self; 9] = [
        Self::Pending,
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

/// A job with its history as far as rules need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    /// Order of submission, given by the store; 0 before that. Age is compared by it.
    pub seq: u64,
    pub spec: Arc<JobSpec>,
    pub phase: Phase,
    /// Claims that count against `max_attempts`.
    pub attempts: u32,
    /// The current lease, or the last one handed out or skipped.
    pub lease: Lease,
    pub closed: Option<ClosedLease>,
    pub created_at: Timestamp,
    /// When the job last became runnable; queue wait is measured from here.
    pub ready_at: Timestamp,
    /// Time of the last claim; kept when the job is requeued.
    pub started_at: Option<Timestamp>,
    pub exit: Option<Exit>,
    /// The worker of the last attempt, once the job has ended.
    pub ran_on: Option<WorkerId>,
    pub preemption_epoch: u32,
    pub reservation_epoch: u32,
    /// Size of the stored checkpoint; the bytes themselves are kept apart.
    pub checkpoint_bytes: Option<u64>,
    /// The stored name of the spec's requirement.
    pub shape: ShapeId,
}

impl Job {
    /// A job as it is when it enters: never claimed, in the given phase.
    pub fn new(id: JobId, spec: Arc<JobSpec>, phase: Phase, now: Timestamp) -> Self {
        let shape = spec.shape();
        Self {
            id,
            seq: 0,
            spec,
            phase,
            attempts: 0,
            lease: Lease(0),
            closed: None,
            created_at: now,
            ready_at: now,
            started_at: None,
            exit: None,
            ran_on: None,
            preemption_epoch: 0,
            reservation_epoch: 0,
            checkpoint_bytes: None,
            shape,
        }
    }

    pub const fn status(&self) -> Status {
        match self.phase {
            Phase::Pending => Status::Pending,
            Phase::Blocked { .. } => Status::Blocked,
            Phase::Reserved { .. } => Status::Reserved,
            Phase::Running { .. } => Status::Running,
            Phase::Preempting { .. } => Status::Preempting,
            Phase::Preempted { .. } => Status::Preempted,
            Phase::Done { .. } => Status::Done,
            Phase::Failed { .. } => Status::Failed,
            Phase::Cancelled { .. } => Status::Cancelled,
        }
    }

    pub const fn is_terminal(&self) -> bool {
        self.status().is_terminal()
    }

    /// The worker that holds the job, or for which it is reserved.
    pub fn worker(&self) -> Option<&WorkerId> {
        match &self.phase {
            Phase::Reserved { worker, .. } => Some(worker),
            Phase::Running { worker, .. } | Phase::Preempting { worker, .. } => worker.as_ref(),
            Phase::Pending
            | Phase::Blocked { .. }
            | Phase::Preempted { .. }
            | Phase::Done { .. }
            | Phase::Failed { .. }
            | Phase::Cancelled { .. } => None,
        }
    }

    pub const fn last_heartbeat(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Running { last_heartbeat, .. } | Phase::Preempting { last_heartbeat, .. } => {
                last_heartbeat
            }
            _ => None,
        }
    }

    /// The last heartbeat under the current lease, else the claim itself.
    pub fn last_sign_of_life(&self) -> Timestamp {
        self.last_heartbeat().or(self.started_at).unwrap_or(self.created_at)
    }

    pub const fn done_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Done { at } | Phase::Failed { at, .. } | Phase::Cancelled { at, .. } => Some(at),
            _ => None,
        }
    }

    pub const fn drain_started_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Preempting { drain_started_at, .. } | Phase::Preempted { drain_started_at, .. } => {
                Some(drain_started_at)
            }
            _ => None,
        }
    }

    /// Why the job ended or is being stopped, in words.
    pub fn reason(&self) -> Option<String> {
        match &self.phase {
            Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. } => Some(reason.to_string()),
            Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } => Some(stop.to_string()),
            Phase::Pending
            | Phase::Blocked { .. }
            | Phase::Reserved { .. }
            | Phase::Running { .. }
            | Phase::Done { .. } => None,
        }
    }

    /// The job whose end brought this one down, when it ended because of a dependency; else itself.
    pub fn root_cause(&self) -> JobId {
        match &self.phase {
            Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. } => match reason {
                EndReason::DependencyFailed { ancestor } | EndReason::DependencyCancelled { ancestor } => {
                    *ancestor
                }
                EndReason::Attempt { .. } | EndReason::WorkerLost { .. } | EndReason::Cancelled { .. } => {
                    self.id
                }
            },
            _ => self.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_quotes_what_a_shell_would_split() {
        let argv = |words: &[&str]| Program::Argv(words.iter().map(|w| (*w).to_owned()).collect()).to_line();
        assert_eq!(argv(&["echo", "a b"]), "echo 'a b'");
        assert_eq!(argv(&["echo", "it's", ""]), r"echo 'it'\''s' ''");
        assert_eq!(argv(&["ls", "-l", "/tmp"]), "ls -l /tmp");
    }

    #[test]
    fn equal_requirements_have_one_shape_and_different_ones_do_not() {
        let mut a = JobSpec::shell("a");
        a.resources = Some(Resources { gpus: 1, ..Resources::default() });
        let b = JobSpec { program: Program::Shell("b".into()), ..a.clone() };
        assert_eq!(a.shape(), b.shape());
        assert_ne!(a.shape(), JobSpec::shell("a").shape());
    }
}
