//! The state machine of jobs. [`transition`] is the only function that changes a job's phase.
//!
//! Guarantees: a terminal job never changes; a refused trigger changes nothing; a report counts only
//! under the lease that is in force, and the same report repeated under the same lease is harmless.
//! The page docs/state-machine.md is generated from this code and checked against it.

mod authority;
mod drain;
mod gang;
mod reports;
mod round;
mod standing;
mod stops;
mod waiting;

use std::sync::Arc;

use crate::devices::Grant;
use crate::event::EventKind;
use crate::ids::{JobId, Lease, WorkerId};
use crate::job::{Exit, Job, ReportKind};
use crate::kept_room::Unit;
use crate::limits::LeaseTerms;
use crate::phase::{EndReason, Hold, Phase};
use crate::rejection::Rejection;
use crate::rule::{Ended, Needs, Rule};
use crate::time::{Span, Timestamp};
use crate::usage::Spent;

pub use gang::{Effects, GangChange, Place, gang_ended, gang_transition, lapse, reserve};
pub use waiting::first_phase;

/// Who makes a report. Both are optional on the wire, so that clients of the original API still work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    pub lease: Option<Lease>,
    pub worker: Option<WorkerId>,
}

/// How long silence is borne. While nobody listened, silence proves nothing: it counts only from
/// `listening_since`, so that a scheduler which was down gives living workers the time to report first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub timeout: Span,
    pub listening_since: Timestamp,
}

impl Patience {
    /// For a job whose lease is taken away, whatever it says about its end.
    pub const NONE: Self = Self { timeout: Span::ZERO, listening_since: Timestamp::from_micros(i64::MIN) };

    /// Whether nothing was heard of the job for longer than its lease lasts: what ran under it is stopped by then.
    fn is_lost(self, job: &Job, now: Timestamp) -> bool {
        let own = Self { timeout: job.own_lease().unwrap_or(self.timeout), ..self };
        self == Self::NONE || own.is_over(job.last_sign_of_life(), now)
    }

    /// Whether `task` is lost together with `first`. A lease that is taken away says nothing about other workers.
    fn is_lost_with(self, first: &Job, task: &Job, now: Timestamp) -> bool {
        self.is_lost(task, now) && (self != Self::NONE || task.worker() == first.worker())
    }

    /// Whether `since` lies strictly longer ago than the timeout.
    fn is_over(self, since: Timestamp, now: Timestamp) -> bool {
        self == Self::NONE || now.since(since.max(self.listening_since)) > self.timeout
    }
}

/// What happens to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// One of the dependencies that it waits for under `rule` has ended; `ancestor` is where a bad end began.
    DependencyEnded {
        rule: Rule,
        ended: Ended,
        ancestor: JobId,
    },
    /// A delay may have ended.
    Due,
    Hold {
        hold: Hold,
    },
    Release,
    Claim {
        worker: Option<WorkerId>,
        /// Lets the same claim be answered again.
        key: Option<Arc<str>>,
        /// GPUs of the worker, for a job that was not reserved before.
        devices: Option<Grant>,
        /// Whether the worker prepares a task of a gang and waits for the word to start it.
        prepares: bool,
        /// For a worker that stops its jobs by itself before their leases end.
        terms: Option<LeaseTerms>,
    },
    /// Nothing but the start is left to do for a task that was claimed so. The last one starts the round.
    Prepared {
        caller: Caller,
    },
    Report {
        caller: Caller,
        kind: ReportKind,
        exit: Exit,
        message: Option<String>,
        /// A JSON object for the job's dependants.
        outputs: Option<Arc<str>>,
        /// What the attempt used, where its worker measures it.
        spent: Option<Spent>,
    },
    Heartbeat {
        caller: Caller,
    },
    /// The acknowledgement of a stop order by its epoch, as old workers send it.
    StopAcknowledged {
        caller: Caller,
        epoch: i64,
    },
    /// The job hands in a checkpoint of this size: during the stop with this epoch, or, without one, at any
    /// time while it is held by a caller that proves who it is.
    SaveCheckpoint {
        caller: Caller,
        epoch: Option<i64>,
        bytes: u64,
        /// The file that holds it, when it is too large for the database.
        file: Option<Arc<str>>,
    },
    /// Take the lease away if the job was silent for longer than `patience` allows.
    Silence {
        patience: Patience,
    },
    /// Order a stop if the attempt has run longer than the job allows and its worker did nothing.
    Overrun,
    /// End the job, or order a stop, if its deadline has passed.
    Expire,
    /// Take the process for gone if a stop order is older than `patience` allows.
    StopOverdue {
        patience: Patience,
    },
    /// Believe an exit that was reported without proof, if nothing contradicted it for long enough.
    ExitPresumed,
    Cancel {
        message: Option<String>,
    },
    /// Stop a running job politely; it comes back at no cost.
    Preempt {
        message: Option<String>,
        /// What is to start in its place, which it may not stop in turn.
        in_favour_of: Option<Unit>,
    },
    /// Run a job again that failed or was cancelled, with all its attempts, once its dependencies allow.
    Retry {
        needs: Needs,
    },
    /// Wait again: a dependency is being run again. The state of all of them is given anew.
    Revive {
        needs: Needs,
    },
}

/// The effect of an accepted trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The job changed; what happened, for the log.
    Happened(EventKind),
    /// The job was touched (heartbeat, one of several dependencies) without anything worth a line.
    Touched,
    /// The trigger had been applied before; nothing changed.
    Repeated,
    /// Written down as evidence, but refused: the caller is told that the job is not running.
    Noted,
}

type Outcome = Result<Change, Rejection>;

/// Applies `trigger` to `job`, or refuses it and leaves the job as it is.
///
/// What concerns the other tasks of a gang too is refused here: [`gang_transition`] decides on it.
pub fn transition(job: &mut Job, trigger: &Trigger, now: Timestamp) -> Outcome {
    if job.spec.gang.is_some() && trigger.concerns_gang() {
        return Err(Rejection::GangTask);
    }
    let before = standing::Before::of(job);
    let outcome = decide(job, trigger, now);
    before.settle(job, now);
    note_spent(job, trigger, outcome.as_ref().ok());
    outcome
}

/// Adds up what the worker says that the attempt used, once.
fn note_spent(job: &mut Job, trigger: &Trigger, change: Option<&Change>) {
    if let (Trigger::Report { spent: Some(spent), .. }, Some(Change::Happened(_) | Change::Touched)) =
        (trigger, change)
    {
        job.note_spent(spent);
    }
}

fn decide(job: &mut Job, trigger: &Trigger, now: Timestamp) -> Outcome {
    match trigger {
        Trigger::DependencyEnded { rule, ended, ancestor } => {
            waiting::dependency_ended(job, *rule, *ended, *ancestor, now)
        }
        Trigger::Due => waiting::due(job, now),
        Trigger::Hold { hold } => waiting::hold(job, hold),
        Trigger::Release => waiting::release(job, now),
        Trigger::Claim { worker, key, devices, prepares, terms } => {
            let claim = reports::Claim {
                worker: worker.as_ref(),
                key: key.as_ref(),
                devices: devices.as_ref(),
                prepares: *prepares,
            };
            let change = reports::claim(job, &claim, now)?;
            job.lease_span = terms.map(|terms| terms.lease_of(job.spec.on_disconnect));
            Ok(change)
        }
        Trigger::Report { caller, kind, exit, message, outputs, spent: _ } => {
            let (message, outputs) = (message.as_ref(), outputs.as_ref());
            let ending = reports::Ending { kind: *kind, exit: *exit, message, outputs };
            reports::report(job, caller, &ending, now)
        }
        // Only tasks of gangs are prepared; for others it is a sign of life.
        Trigger::Heartbeat { caller } | Trigger::Prepared { caller } => reports::heartbeat(job, caller, now),
        Trigger::StopAcknowledged { caller, epoch } => stops::acknowledged(job, caller, *epoch, now),
        Trigger::SaveCheckpoint { caller, epoch, bytes, file } => {
            stops::save_checkpoint(job, caller, *epoch, (*bytes, file.as_ref()), now)
        }
        Trigger::Silence { patience } => reports::silence(job, *patience, now),
        Trigger::Overrun => stops::overrun(job, now),
        Trigger::Expire => stops::expire(job, now),
        Trigger::StopOverdue { patience } => stops::overdue(job, *patience, now),
        Trigger::ExitPresumed => stops::presumed(job, now),
        Trigger::Preempt { message, in_favour_of } => {
            stops::preempt(job, message.as_ref(), *in_favour_of, now)
        }
        Trigger::Cancel { message } => stops::cancel(job, message.as_ref(), now),
        Trigger::Retry { needs } => waiting::retry(job, needs, now),
        Trigger::Revive { needs } => waiting::revive(job, needs, now),
    }
}

/// Whether the caller holds the job: what it says changes nothing about the phase.
pub fn speaks_for(job: &Job, caller: &Caller) -> Result<(), Rejection> {
    match authority::authority(job, caller, None)? {
        authority::Authority::Proven => Ok(()),
        authority::Authority::Anonymous | authority::Authority::Repeats => {
            Err(Rejection::AnonymousAfterLoss { current: job.lease })
        }
    }
}

/// Ends the job; who ran it last stays known.
fn end(job: &mut Job, phase: Phase) {
    job.ran_on = job.worker().or(job.last_worker.as_ref()).cloned();
    job.last_worker = None;
    job.phase = phase;
}

fn end_failed(job: &mut Job, reason: EndReason, now: Timestamp) -> EventKind {
    end(job, Phase::Failed { at: now, reason: reason.clone() });
    EventKind::Failed { attempt: job.attempts, reason }
}

fn end_cancelled(job: &mut Job, reason: EndReason, now: Timestamp) -> EventKind {
    end(job, Phase::Cancelled { at: now, reason: reason.clone() });
    EventKind::Cancelled { reason }
}
