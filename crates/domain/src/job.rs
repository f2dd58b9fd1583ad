//! Jobs: what was asked for ([`JobSpec`]) and where it stands ([`Phase`], changed only by
//! [`crate::lifecycle`]).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::devices::Grant;
use crate::ids::{JobId, Lease, SetId, WorkerId};
use crate::image::ImageState;
use crate::kept_room::Unit;
use crate::limits::{EXIT_EVIDENCE, OVERRUN_SLACK, PREPARATION};
use crate::phase::{EndReason, Hold, Phase, Preparation, Status};
use crate::rule::Ended;
use crate::spec::{JobSpec, ShapeId};
use crate::time::{Span, Timestamp};
use crate::usage::JobSpent;

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
    /// Stopped by the worker because the attempt ran longer than the job allows.
    TimedOut,
    /// Killed because it wanted more memory than it may have.
    OutOfMemory,
    /// Handed back unfinished; costs no attempt.
    Released,
    /// Ended because of a stop order.
    Preempted,
    /// Ended during a stop, having said itself that its work is done.
    Finished,
    /// Nobody knows how the attempt ended; its process is gone.
    Lost,
    /// There never was a process, and another attempt would end the same way.
    Refused,
}

/// The lease that ended last, and the report that ended it. Lets a repeated report be told from a
/// contradicting or a late one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedLease {
    pub lease: Lease,
    /// `None` when the lease was taken away rather than given up.
    pub by: Option<ReportKind>,
}

/// Who lost the job without a word. A late report of theirs that names neither lease nor worker cannot be told
/// from one of the present holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strays {
    /// This worker only.
    Worker(WorkerId),
    /// More than one worker, or a claimer that gave no name.
    Several,
}

/// The place of a job in a pipeline or an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub set: SetId,
    /// Name of the step, in a pipeline.
    pub step: Option<Arc<str>>,
    /// Which element of the array, or of a step that was multiplied.
    pub index: Option<u32>,
}

/// A task's part in one round of its gang; the number of the round is the job's `reservation_epoch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Tasks that the round counts with.
    pub size: u32,
    pub reserved_at: Timestamp,
    /// The port that the worker keeps for the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where the worker is reached, and the task there; empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// It was started at its claim, by a worker that does not wait for the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
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
    /// Those that may still run it after their lease was taken away; kept to the end of the job.
    pub strays: Option<Strays>,
    pub created_at: Timestamp,
    /// When the job last became runnable; queue wait is measured from here.
    pub ready_at: Timestamp,
    /// Time of the last start, or of the claim while a task waits for its round; kept when the job is requeued.
    pub started_at: Option<Timestamp>,
    pub exit: Option<Exit>,
    /// The worker of the last attempt, once the job has ended.
    pub ran_on: Option<WorkerId>,
    pub preemption_epoch: u32,
    pub reservation_epoch: u32,
    /// Keeps the job from starting until it is released.
    pub hold: Option<Hold>,
    /// Workers on which an attempt failed, the latest last; others are preferred.
    pub tried: Vec<WorkerId>,
    /// Workers that were lost with the job on them, attempt after attempt.
    pub lost_on: Vec<WorkerId>,
    /// The pipeline or array that it belongs to.
    pub member: Option<Member>,
    /// What the last attempt left for its dependants: a JSON object, as text.
    pub outputs: Option<Arc<str>>,
    /// Size of the stored checkpoint; the bytes themselves are kept apart.
    pub checkpoint_bytes: Option<u64>,
    pub checkpoint_at: Option<Timestamp>,
    /// The file that holds the checkpoint when it is too large for the database.
    pub checkpoint_file: Option<Arc<str>>,
    /// The round of its gang that the task was placed for last.
    pub round: Option<Round>,
    /// The worker of the round that was drained last, while the task waits.
    pub last_worker: Option<WorkerId>,
    /// How long the current lease lasts without a sign of life, as it was handed out to a worker that stops the job by
    /// itself before; the scheduler's timeout when absent.
    pub lease_span: Option<Span>,
    /// The key of the claim that the current lease was handed out for.
    pub claim_key: Option<Arc<str>>,
    /// The GPUs that it holds while it holds room, and those that it held last afterwards.
    pub devices: Option<Grant>,
    /// In whose favour it was stopped, until it runs again: it does not stop that one in turn.
    pub stopped_for: Option<Unit>,
    /// How long runs of the same name took before it came in.
    pub expected: Option<Span>,
    /// The stored name of the spec's shape.
    pub shape: ShapeId,
    /// How long it has held its place running, over all attempts that have ended.
    pub served: Span,
    /// How long it has waited while it could have run, in earlier rounds; the present one began at `ready_at`.
    pub waited: Span,
    /// What it has used, over all attempts that have ended; absent where nothing was measured.
    pub spent: Option<Box<JobSpent>>,
    /// What its workers told of the image of its container.
    pub image: Option<Box<ImageState>>,
    /// It has waited for very long: it goes first, and is not stopped for having had much service.
    pub pinned: bool,
    /// Its place in the line: smaller goes first, then the smaller `seq`. Whoever writes the job computes it.
    pub rank: i64,
}

impl Job {
    /// A job as it is when it enters: never claimed, in the given phase.
    pub fn new(id: JobId, spec: Arc<JobSpec>, phase: Phase, now: Timestamp) -> Self {
        let shape = ShapeId::of(&spec.shape());
        Self {
            id,
            seq: 0,
            spec,
            phase,
            attempts: 0,
            lease: Lease(0),
            closed: None,
            strays: None,
            created_at: now,
            ready_at: now,
            started_at: None,
            exit: None,
            ran_on: None,
            preemption_epoch: 0,
            reservation_epoch: 0,
            hold: None,
            tried: Vec::new(),
            lost_on: Vec::new(),
            member: None,
            outputs: None,
            checkpoint_bytes: None,
            checkpoint_at: None,
            checkpoint_file: None,
            round: None,
            last_worker: None,
            lease_span: None,
            claim_key: None,
            devices: None,
            stopped_for: None,
            expected: None,
            shape,
            served: Span::ZERO,
            waited: Span::ZERO,
            spent: None,
            image: None,
            pinned: false,
            rank: 0,
        }
    }

    pub const fn status(&self) -> Status {
        match self.phase {
            Phase::Pending => Status::Pending,
            Phase::Delayed { .. } => Status::Delayed,
            Phase::Held { .. } => Status::Held,
            Phase::Blocked { .. } => Status::Blocked,
            Phase::Reserved { .. } => Status::Reserved,
            Phase::Running { .. } => Status::Running,
            Phase::Preempting { .. } => Status::Preempting,
            Phase::Preempted { .. } => Status::Preempted,
            Phase::Finished { .. } => Status::Finished,
            Phase::Done { .. } => Status::Done,
            Phase::Failed { .. } => Status::Failed,
            Phase::Cancelled { .. } => Status::Cancelled,
        }
    }

    pub const fn is_terminal(&self) -> bool {
        self.status().is_terminal()
    }

    /// The workers whose leases have ended, as far as they are remembered.
    pub fn former_workers(&self) -> impl Iterator<Item = &WorkerId> {
        self.ran_on.iter().chain(&self.last_worker).chain(&self.tried)
    }

    /// The worker that holds the job, or for which it is reserved.
    pub fn worker(&self) -> Option<&WorkerId> {
        match &self.phase {
            Phase::Reserved { worker, .. } => Some(worker),
            Phase::Running { worker, .. } | Phase::Preempting { worker, .. } => worker.as_ref(),
            Phase::Pending
            | Phase::Delayed { .. }
            | Phase::Held { .. }
            | Phase::Blocked { .. }
            | Phase::Preempted { .. }
            | Phase::Finished { .. }
            | Phase::Done { .. }
            | Phase::Failed { .. }
            | Phase::Cancelled { .. } => None,
        }
    }

    /// Whether a report without lease and name may come from somebody else than the holder.
    pub fn has_other_strays(&self) -> bool {
        match &self.strays {
            None => false,
            Some(Strays::Worker(stray)) => self.worker() != Some(stray),
            Some(Strays::Several) => true,
        }
    }

    /// How far a task has come that is claimed and waits for the others of its round.
    pub const fn preparation(&self) -> Option<Preparation> {
        match self.phase {
            Phase::Reserved { claim, .. } => claim,
            _ => None,
        }
    }

    /// Whether a worker holds it under its lease, with a process or ready to start one.
    pub const fn is_leased(&self) -> bool {
        matches!(self.phase, Phase::Preempting { .. }) || self.must_be_heard()
    }

    /// Whether its lease ends when nothing is heard of it.
    pub const fn must_be_heard(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Reserved { claim: Some(_), .. })
    }

    pub const fn last_heartbeat(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Reserved { claim: Some(Preparation { last_heartbeat, .. }), .. } => last_heartbeat,
            Phase::Running { last_heartbeat, .. } | Phase::Preempting { last_heartbeat, .. } => {
                last_heartbeat
            }
            _ => None,
        }
    }

    /// The last heartbeat under the current lease, or the claim itself: a heartbeat that was heard by a slow clock
    /// makes no job older than it is.
    pub fn last_sign_of_life(&self) -> Timestamp {
        self.last_heartbeat().max(self.started_at).unwrap_or(self.created_at)
    }

    /// How long its lease lasts without a sign of life, where that is known: a task that is only prepared has no process
    /// that would have to end before, so that the scheduler's timeout counts for it.
    pub fn own_lease(&self) -> Option<Span> {
        self.lease_span.filter(|_| self.status() != Status::Reserved)
    }

    /// When the current lease ends unless something is heard of the job, where the lease itself says how long it lasts.
    pub fn lease_ends_at(&self) -> Option<Timestamp> {
        let held = self.must_be_heard() || self.status() == Status::Preempting;
        self.lease_span.filter(|_| held).map(|span| self.last_sign_of_life() + span)
    }

    /// Since when it holds its place with a process: while it runs and while it stops.
    pub fn running_since(&self) -> Option<Timestamp> {
        self.started_at.filter(|_| matches!(self.status(), Status::Running | Status::Preempting))
    }

    /// Since when it waits for nothing but its turn and room, a placement that is not claimed yet included.
    pub fn waiting_since(&self) -> Option<Timestamp> {
        let ready = match &self.phase {
            Phase::Pending | Phase::Reserved { .. } => true,
            Phase::Blocked { needs } => {
                self.spec.gang.is_some() && self.hold.is_none() && needs.unfinished() == 0
            }
            Phase::Delayed { .. }
            | Phase::Held { .. }
            | Phase::Running { .. }
            | Phase::Preempting { .. }
            | Phase::Preempted { .. }
            | Phase::Finished { .. }
            | Phase::Done { .. }
            | Phase::Failed { .. }
            | Phase::Cancelled { .. } => false,
        };
        ready.then_some(self.ready_at)
    }

    /// When a delay ends, if one is under way.
    pub const fn delayed_until(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Delayed { until } => Some(until),
            Phase::Held { until } => until,
            _ => None,
        }
    }

    /// The next time at which the job itself asks to be looked at: the end of its delay, its deadline, or
    /// the end of the time that an attempt may take.
    pub fn alarm(&self) -> Option<Timestamp> {
        let deadline = self.spec.deadline;
        let own = match self.phase {
            Phase::Delayed { until } => Some(until),
            Phase::Running { .. } => self
                .spec
                .timeout
                .zip(self.started_at)
                .map(|(timeout, started)| started + timeout + OVERRUN_SLACK),
            Phase::Reserved { claim: Some(Preparation { prepared_at: None, .. }), .. } => {
                self.started_at.map(|claimed| claimed + PREPARATION)
            }
            Phase::Pending | Phase::Held { .. } | Phase::Blocked { .. } | Phase::Reserved { .. } => None,
            Phase::Preempting { exit_reported_at, .. } => {
                return exit_reported_at.map(|at| at + EXIT_EVIDENCE);
            }
            // The siblings of a finished task that still run have the alarm for their gang.
            Phase::Preempted { .. }
            | Phase::Finished { .. }
            | Phase::Done { .. }
            | Phase::Failed { .. }
            | Phase::Cancelled { .. } => return None,
        };
        own.into_iter().chain(deadline).min()
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
            | Phase::Delayed { .. }
            | Phase::Held { .. }
            | Phase::Blocked { .. }
            | Phase::Reserved { .. }
            | Phase::Running { .. }
            | Phase::Finished { .. }
            | Phase::Done { .. } => None,
        }
    }

    /// When the process of a task ended well that waits for the others of its gang.
    pub const fn finished_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Finished { at } => Some(at),
            _ => None,
        }
    }

    /// How the job ended, as those that depend on it count it; `None` while it has not.
    pub const fn ended(&self) -> Option<Ended> {
        match &self.phase {
            Phase::Done { .. } => Some(Ended::Done),
            Phase::Failed { .. } => Some(Ended::Failed),
            Phase::Cancelled { reason: EndReason::Skipped { .. }, .. } => Some(Ended::Skipped),
            Phase::Cancelled { .. } => Some(Ended::Cancelled),
            Phase::Pending
            | Phase::Delayed { .. }
            | Phase::Held { .. }
            | Phase::Blocked { .. }
            | Phase::Reserved { .. }
            | Phase::Running { .. }
            | Phase::Preempting { .. }
            | Phase::Preempted { .. }
            | Phase::Finished { .. } => None,
        }
    }

    /// Whether its gang ran without it.
    pub const fn was_spared(&self) -> bool {
        matches!(self.phase, Phase::Cancelled { reason: EndReason::NotNeeded, .. })
    }

    /// The job whose end brought this one down, when it ended because of a dependency; else itself.
    pub fn root_cause(&self) -> JobId {
        match &self.phase {
            Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. } => match reason {
                EndReason::DependencyFailed { ancestor }
                | EndReason::DependencyCancelled { ancestor }
                | EndReason::Skipped { ancestor, .. } => *ancestor,
                EndReason::Gang { stop, .. } => stop.trigger.unwrap_or(self.id),
                EndReason::Attempt { .. }
                | EndReason::WorkerLost { .. }
                | EndReason::Timeout
                | EndReason::OutOfMemory { .. }
                | EndReason::Deadline
                | EndReason::NotNeeded
                | EndReason::Cancelled { .. } => self.id,
            },
            _ => self.id,
        }
    }
}
