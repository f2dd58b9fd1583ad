//! The state machine of jobs. [`transition`] is the only function that changes a job's phase.
//!
//! Guarantees: a terminal job never changes; a refused trigger changes nothing; a report counts only
//! under the lease that is in force, and the same report repeated under the same lease is harmless.
//! The diagram in docs/state-machine.md is checked against this file.

use crate::event::{EventKind, RequeueCause};
use crate::ids::{JobId, Lease, WorkerId};
use crate::job::{ClosedLease, EndReason, Exit, Job, Phase, ReportKind, Status, StopReason};
use crate::rejection::Rejection;
use crate::time::{Span, Timestamp};

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
    /// Whether `since` lies strictly longer ago than the timeout.
    fn is_over(self, since: Timestamp, now: Timestamp) -> bool {
        now.since(since.max(self.listening_since)) > self.timeout
    }
}

/// What happens to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// One of the dependencies it waits for is done.
    DependencyDone,
    /// A dependency ended badly for good; `ancestor` is where it began.
    DependencyEnded {
        ancestor: JobId,
        cancelled: bool,
    },
    Claim {
        worker: Option<WorkerId>,
    },
    Report {
        caller: Caller,
        kind: ReportKind,
        exit: Exit,
        message: Option<String>,
    },
    Heartbeat {
        caller: Caller,
    },
    /// The acknowledgement of a stop order by its epoch, as old workers send it.
    StopAcknowledged {
        caller: Caller,
        epoch: i64,
    },
    /// The job hands in a checkpoint of this size during the stop with this epoch.
    SaveCheckpoint {
        caller: Caller,
        epoch: i64,
        bytes: u64,
    },
    /// Take the lease away if the job was silent for longer than `patience` allows.
    Silence {
        patience: Patience,
    },
    /// Take the process for gone if a stop order is older than `patience` allows.
    StopOverdue {
        patience: Patience,
    },
    Cancel {
        message: Option<String>,
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
}

type Outcome = Result<Change, Rejection>;

/// Applies `trigger` to `job`, or refuses it and leaves the job as it is.
pub fn transition(job: &mut Job, trigger: &Trigger, now: Timestamp) -> Outcome {
    match trigger {
        Trigger::DependencyDone => dependency_done(job, now),
        Trigger::DependencyEnded { ancestor, cancelled } => dependency_ended(job, *ancestor, *cancelled, now),
        Trigger::Claim { worker } => claim(job, worker.as_ref(), now),
        Trigger::Report { caller, kind, exit, message } => {
            let attempt = Ending { kind: *kind, exit: *exit, message: message.as_ref() };
            report(job, caller, &attempt, now)
        }
        Trigger::Heartbeat { caller } => heartbeat(job, caller, now),
        Trigger::StopAcknowledged { caller, epoch } => stop_acknowledged(job, caller, *epoch, now),
        Trigger::SaveCheckpoint { caller, epoch, bytes } => save_checkpoint(job, caller, *epoch, *bytes),
        Trigger::Silence { patience } => silence(job, *patience, now),
        Trigger::StopOverdue { patience } => stop_overdue(job, *patience, now),
        Trigger::Cancel { message } => cancel(job, message.as_ref(), now),
    }
}

/// A new job: pending when nothing is to be waited for, else blocked.
pub fn first_phase(unfinished_dependencies: u32) -> Phase {
    match unfinished_dependencies {
        0 => Phase::Pending,
        waiting_on => Phase::Blocked { waiting_on },
    }
}

fn dependency_done(job: &mut Job, now: Timestamp) -> Outcome {
    match &mut job.phase {
        Phase::Blocked { waiting_on } if *waiting_on > 1 => {
            *waiting_on -= 1;
            Ok(Change::Touched)
        }
        // A gang task that waits for nothing more still waits for its gang's placement.
        Phase::Blocked { waiting_on } if job.spec.gang.is_some() => {
            *waiting_on = 0;
            Ok(Change::Touched)
        }
        Phase::Blocked { .. } => {
            job.phase = Phase::Pending;
            job.ready_at = now;
            Ok(Change::Happened(EventKind::Unblocked))
        }
        _ => Err(Rejection::NotBlocked { status: job.status() }),
    }
}

fn dependency_ended(job: &mut Job, ancestor: JobId, cancelled: bool, now: Timestamp) -> Outcome {
    if job.status() != Status::Blocked {
        return Err(Rejection::NotBlocked { status: job.status() });
    }
    if cancelled {
        let reason = EndReason::DependencyCancelled { ancestor };
        return Ok(Change::Happened(end_cancelled(job, reason, now)));
    }
    let reason = EndReason::DependencyFailed { ancestor };
    Ok(Change::Happened(end_failed(job, reason, now)))
}

fn claim(job: &mut Job, worker: Option<&WorkerId>, now: Timestamp) -> Outcome {
    if job.spec.gang.is_some() {
        return Err(Rejection::GangTask);
    }
    if job.status() != Status::Pending {
        return Err(Rejection::NotPending { status: job.status() });
    }
    let waited = now.since(job.ready_at);
    job.attempts += 1;
    job.lease = job.lease.next();
    job.started_at = Some(now);
    job.exit = None;
    job.phase = Phase::Running { worker: worker.cloned(), last_heartbeat: None };
    Ok(Change::Happened(EventKind::Claimed {
        worker: worker.cloned(),
        lease: job.lease,
        attempt: job.attempts,
        waited,
    }))
}

/// How an attempt ended, as reported.
struct Ending<'a> {
    kind: ReportKind,
    exit: Exit,
    message: Option<&'a String>,
}

/// How far a caller may speak for a job.
enum Authority {
    /// It named the lease in force, or is the worker that holds the job.
    Proven,
    /// It said nothing about itself; the original rule applies: the status alone decides.
    Anonymous,
    /// It repeats the report that ended its lease.
    Repeats,
}

/// Decides whether `caller` speaks for `job`. `report` is `None` for heartbeats, which never repeat.
fn authority(job: &Job, caller: &Caller, report: Option<ReportKind>) -> Result<Authority, Rejection> {
    let held = matches!(job.status(), Status::Running | Status::Preempting);
    if let Some(given) = caller.lease {
        if held && given == job.lease {
            return Ok(Authority::Proven);
        }
        return match job.closed {
            Some(closed) if closed.lease == given && report.is_some() && closed.by == report => {
                Ok(Authority::Repeats)
            }
            Some(closed) if closed.lease == given && closed.by.is_some() => {
                Err(Rejection::ContradictsReport { given })
            }
            _ => Err(Rejection::StaleLease { given, current: job.lease }),
        };
    }
    if !held {
        return Err(Rejection::NotRunning { status: job.status() });
    }
    match &caller.worker {
        None => Ok(Authority::Anonymous),
        Some(worker) if job.worker() == Some(worker) => Ok(Authority::Proven),
        Some(worker) => Err(Rejection::NotHolder { given: worker.clone(), holder: job.worker().cloned() }),
    }
}

fn report(job: &mut Job, caller: &Caller, ending: &Ending<'_>, now: Timestamp) -> Outcome {
    let authority = authority(job, caller, Some(ending.kind))?;
    if matches!(authority, Authority::Repeats) {
        return Ok(Change::Repeated);
    }
    if job.status() == Status::Preempting {
        // Only a caller that proves who it is shows that the process is gone.
        return match authority {
            Authority::Proven => Ok(Change::Happened(stopped(job, ending.exit, Some(ending.kind), now))),
            Authority::Anonymous | Authority::Repeats => Err(Rejection::NotRunning { status: job.status() }),
        };
    }
    match ending.kind {
        ReportKind::Done => {
            close_lease(job, Some(ReportKind::Done));
            let ran = now.since(job.started_at.unwrap_or(now));
            job.exit = known(ending.exit);
            end(job, Phase::Done { at: now });
            Ok(Change::Happened(EventKind::Done { lease: job.lease, exit: ending.exit, ran }))
        }
        ReportKind::Failed => Ok(Change::Happened(attempt_failed(job, ending, now))),
        ReportKind::Released => Ok(Change::Happened(released(job, now))),
        ReportKind::Preempted => Err(Rejection::NotStopping { status: job.status() }),
    }
}

fn attempt_failed(job: &mut Job, ending: &Ending<'_>, now: Timestamp) -> EventKind {
    job.exit = known(ending.exit);
    let message = ending.message.cloned();
    if job.attempts >= job.spec.max_attempts {
        close_lease(job, Some(ReportKind::Failed));
        return end_failed(job, EndReason::Attempt { exit: ending.exit, message }, now);
    }
    requeue(job, Some(ReportKind::Failed), RequeueCause::Failed { exit: ending.exit, message }, now)
}

fn released(job: &mut Job, now: Timestamp) -> EventKind {
    let event = requeue(job, Some(ReportKind::Released), RequeueCause::Released, now);
    job.attempts = job.attempts.saturating_sub(1);
    event
}

/// Ends the lease and puts the job back. The number is skipped too, so that nothing which arrives
/// between now and the next claim can match.
fn requeue(job: &mut Job, by: Option<ReportKind>, cause: RequeueCause, now: Timestamp) -> EventKind {
    let lease = job.lease;
    close_lease(job, by);
    job.lease = lease.next();
    job.phase = Phase::Pending;
    job.ready_at = now;
    EventKind::Requeued { lease, attempt: job.attempts, cause }
}

/// An exit of which nothing is known is no exit.
fn known(exit: Exit) -> Option<Exit> {
    (exit != Exit::default()).then_some(exit)
}

fn close_lease(job: &mut Job, by: Option<ReportKind>) {
    job.closed = Some(ClosedLease { lease: job.lease, by });
}

fn heartbeat(job: &mut Job, caller: &Caller, now: Timestamp) -> Outcome {
    authority(job, caller, None)?;
    match &mut job.phase {
        Phase::Running { last_heartbeat, .. } | Phase::Preempting { last_heartbeat, .. } => {
            *last_heartbeat = Some(last_heartbeat.map_or(now, |last| last.max(now)));
            Ok(Change::Touched)
        }
        _ => Err(Rejection::NotRunning { status: job.status() }),
    }
}

fn stop_acknowledged(job: &mut Job, caller: &Caller, epoch: i64, now: Timestamp) -> Outcome {
    // A lease is judged first: a repeated acknowledgement is answered as the first was, and a late one
    // counts as stale whatever became of the job.
    let report = Some(ReportKind::Preempted);
    if caller.lease.is_some() && matches!(authority(job, caller, report)?, Authority::Repeats) {
        return Ok(Change::Repeated);
    }
    if job.status() != Status::Preempting {
        return Err(Rejection::NotStopping { status: job.status() });
    }
    authority(job, caller, report)?;
    check_epoch(job, epoch)?;
    Ok(Change::Happened(stopped(job, Exit::default(), report, now)))
}

fn save_checkpoint(job: &mut Job, caller: &Caller, epoch: i64, bytes: u64) -> Outcome {
    if job.status() != Status::Preempting {
        return Err(Rejection::NotStopping { status: job.status() });
    }
    authority(job, caller, None)?;
    check_epoch(job, epoch)?;
    job.checkpoint_bytes = Some(bytes);
    Ok(Change::Happened(EventKind::CheckpointSaved { epoch: job.preemption_epoch, bytes }))
}

/// Whether `epoch` names the stop that is under way.
fn check_epoch(job: &Job, epoch: i64) -> Result<(), Rejection> {
    if epoch == i64::from(job.preemption_epoch) {
        return Ok(());
    }
    Err(Rejection::EpochMismatch { given: epoch, current: job.preemption_epoch })
}

fn silence(job: &mut Job, patience: Patience, now: Timestamp) -> Outcome {
    let Phase::Running { worker, .. } = &job.phase else {
        return Err(Rejection::NotRunning { status: job.status() });
    };
    if !patience.is_over(job.last_sign_of_life(), now) {
        return Err(Rejection::NotOverdue);
    }
    if job.attempts >= job.spec.max_attempts {
        let reason = EndReason::WorkerLost { worker: worker.clone() };
        close_lease(job, None);
        return Ok(Change::Happened(end_failed(job, reason, now)));
    }
    Ok(Change::Happened(requeue(job, None, RequeueCause::WorkerLost, now)))
}

fn stop_overdue(job: &mut Job, patience: Patience, now: Timestamp) -> Outcome {
    match job.phase {
        Phase::Preempting { drain_started_at, .. } if patience.is_over(drain_started_at, now) => {
            Ok(Change::Happened(stopped(job, Exit::default(), None, now)))
        }
        Phase::Preempting { .. } => Err(Rejection::NotOverdue),
        _ => Err(Rejection::NotStopping { status: job.status() }),
    }
}

/// The process of a job that was told to stop is gone: the reason of the stop decides what follows.
fn stopped(job: &mut Job, exit: Exit, by: Option<ReportKind>, now: Timestamp) -> EventKind {
    close_lease(job, by);
    job.exit = known(exit);
    let message = match &job.phase {
        Phase::Preempting { stop: StopReason::Cancel { message }, .. } => message.clone(),
        _ => None,
    };
    end_cancelled(job, EndReason::Cancelled { message }, now)
}

fn cancel(job: &mut Job, message: Option<&String>, now: Timestamp) -> Outcome {
    match &job.phase {
        Phase::Pending | Phase::Blocked { .. } | Phase::Reserved { .. } | Phase::Preempted { .. } => {
            let reason = EndReason::Cancelled { message: message.cloned() };
            Ok(Change::Happened(end_cancelled(job, reason, now)))
        }
        Phase::Running { worker, last_heartbeat } => {
            let stop = StopReason::Cancel { message: message.cloned() };
            let reason = stop.to_string();
            job.preemption_epoch += 1;
            job.phase = Phase::Preempting {
                worker: worker.clone(),
                last_heartbeat: *last_heartbeat,
                drain_started_at: now,
                stop,
            };
            Ok(Change::Happened(EventKind::StopRequested { epoch: job.preemption_epoch, reason }))
        }
        Phase::Preempting { .. } | Phase::Cancelled { .. } => Ok(Change::Repeated),
        Phase::Done { .. } | Phase::Failed { .. } => Err(Rejection::AlreadyEnded { status: job.status() }),
    }
}

/// Ends the job; who ran it last stays known.
fn end(job: &mut Job, phase: Phase) {
    job.ran_on = job.worker().cloned();
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
