//! Stops: ordered for a reason, carried out by the worker, and judged by the reason once the process is
//! gone.

use std::sync::Arc;

use super::authority::{Authority, authority};
use super::reports::{Ending, Failure, attempt_failed, close_lease, done, known, lose, requeue};
use super::{Caller, Change, Outcome, Patience, end_cancelled, end_failed};
use crate::event::{EventKind, RequeueCause};
use crate::job::{Exit, Job, ReportKind};
use crate::kept_room::Unit;
use crate::limits::{EXIT_EVIDENCE, OVERRUN_SLACK};
use crate::phase::{EndReason, Phase, Status, StopReason};
use crate::rejection::Rejection;
use crate::retry::Cause;
use crate::time::{Span, Timestamp};

/// Tells a running job to stop.
fn order(job: &mut Job, stop: StopReason, now: Timestamp) -> Outcome {
    let Phase::Running { worker, last_heartbeat } = &job.phase else {
        return Err(Rejection::NotRunning { status: job.status() });
    };
    let (worker, last_heartbeat, reason) = (worker.clone(), *last_heartbeat, stop.to_string());
    job.preemption_epoch += 1;
    job.phase =
        Phase::Preempting { worker, last_heartbeat, drain_started_at: now, stop, exit_reported_at: None };
    Ok(Change::Happened(EventKind::StopRequested { epoch: job.preemption_epoch, reason }))
}

pub(super) fn cancel(job: &mut Job, message: Option<&String>, now: Timestamp) -> Outcome {
    match &job.phase {
        Phase::Pending
        | Phase::Delayed { .. }
        | Phase::Held { .. }
        | Phase::Blocked { .. }
        | Phase::Reserved { .. }
        | Phase::Preempted { .. }
        | Phase::Finished { .. } => {
            let reason = EndReason::Cancelled { message: message.cloned() };
            Ok(Change::Happened(end_cancelled(job, reason, now)))
        }
        Phase::Running { .. } => order(job, StopReason::Cancel { message: message.cloned() }, now),
        // A stop for another reason becomes a cancel: the process is told to stop already.
        Phase::Preempting {
            stop:
                StopReason::Timeout | StopReason::Deadline | StopReason::Preempt { .. } | StopReason::Gang(_),
            ..
        } => {
            let cancel = StopReason::Cancel { message: message.cloned() };
            let reason = cancel.to_string();
            if let Phase::Preempting { stop, .. } = &mut job.phase {
                *stop = cancel;
            }
            Ok(Change::Happened(EventKind::StopRequested { epoch: job.preemption_epoch, reason }))
        }
        Phase::Preempting { .. } | Phase::Cancelled { .. } => Ok(Change::Repeated),
        Phase::Done { .. } | Phase::Failed { .. } => Err(Rejection::AlreadyEnded { status: job.status() }),
    }
}

/// The worker stops an attempt that runs too long; should it not, the scheduler orders it.
pub(super) fn overrun(job: &mut Job, now: Timestamp) -> Outcome {
    let (Some(timeout), Some(started)) = (job.spec.timeout, job.started_at) else {
        return Err(Rejection::NotOverdue);
    };
    if now.since(started) <= timeout + OVERRUN_SLACK {
        return Err(Rejection::NotOverdue);
    }
    order(job, StopReason::Timeout, now)
}

pub(super) fn expire(job: &mut Job, now: Timestamp) -> Outcome {
    if job.spec.deadline.is_none_or(|deadline| deadline > now) {
        return Err(Rejection::NotOverdue);
    }
    match job.phase {
        Phase::Running { .. } => order(job, StopReason::Deadline, now),
        Phase::Pending | Phase::Delayed { .. } | Phase::Held { .. } | Phase::Blocked { .. } => {
            Ok(Change::Happened(end_failed(job, EndReason::Deadline, now)))
        }
        Phase::Reserved { .. }
        | Phase::Preempting { .. }
        | Phase::Preempted { .. }
        | Phase::Finished { .. } => Err(Rejection::NotOverdue),
        Phase::Done { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
            Err(Rejection::AlreadyEnded { status: job.status() })
        }
    }
}

pub(super) fn acknowledged(job: &mut Job, caller: &Caller, epoch: i64, now: Timestamp) -> Outcome {
    if judge_acknowledgement(job, caller, epoch)? {
        return Ok(Change::Repeated);
    }
    Ok(Change::Happened(stopped(job, Exit::default(), Some(ReportKind::Preempted), None, now)))
}

/// Whether an acknowledgement counts; true when it only repeats one that did.
pub(super) fn judge_acknowledgement(job: &Job, caller: &Caller, epoch: i64) -> Result<bool, Rejection> {
    // A lease is judged first: a repeated acknowledgement is answered as the first was, and a late one
    // counts as stale whatever became of the job.
    let report = Some(ReportKind::Preempted);
    if caller.lease.is_some() && matches!(authority(job, caller, report)?, Authority::Repeats) {
        return Ok(true);
    }
    if job.status() != Status::Preempting {
        return Err(Rejection::NotStopping { status: job.status() });
    }
    authority(job, caller, report)?;
    check_epoch(job, epoch)?;
    Ok(false)
}

pub(super) fn save_checkpoint(
    job: &mut Job,
    caller: &Caller,
    epoch: Option<i64>,
    (bytes, file): (u64, Option<&Arc<str>>),
    now: Timestamp,
) -> Outcome {
    if let Some(epoch) = epoch {
        if job.status() != Status::Preempting {
            return Err(Rejection::NotStopping { status: job.status() });
        }
        authority(job, caller, None)?;
        check_epoch(job, epoch)?;
    } else if !matches!(authority(job, caller, None)?, Authority::Proven) {
        return Err(Rejection::NotStopping { status: job.status() });
    }
    job.checkpoint_bytes = Some(bytes);
    job.checkpoint_at = Some(now);
    job.checkpoint_file = file.cloned();
    Ok(Change::Happened(EventKind::CheckpointSaved { epoch: job.preemption_epoch, bytes }))
}

/// Somebody who cannot prove it says that the process of a stopping job is gone.
pub(super) fn note_exit(job: &mut Job, now: Timestamp) -> Change {
    if let Phase::Preempting { exit_reported_at, .. } = &mut job.phase {
        exit_reported_at.get_or_insert(now);
    }
    Change::Noted
}

/// Whether an exit that was reported without proof may be believed by now.
pub(super) fn judge_evidence(job: &Job, now: Timestamp, patience: Span) -> Result<(), Rejection> {
    match job.phase {
        Phase::Preempting { exit_reported_at: Some(at), .. } if now.since(at) >= patience => Ok(()),
        Phase::Preempting { .. } => Err(Rejection::NotOverdue),
        _ => Err(Rejection::NotStopping { status: job.status() }),
    }
}

pub(super) fn presumed(job: &mut Job, now: Timestamp) -> Outcome {
    judge_evidence(job, now, EXIT_EVIDENCE)?;
    Ok(Change::Happened(stopped(job, Exit::default(), None, None, now)))
}

pub(super) fn preempt(
    job: &mut Job,
    message: Option<&String>,
    in_favour_of: Option<Unit>,
    now: Timestamp,
) -> Outcome {
    if let Phase::Preempting { .. } = job.phase {
        return Ok(Change::Repeated);
    }
    let change = order(job, StopReason::Preempt { message: message.cloned() }, now)?;
    job.stopped_for = in_favour_of;
    Ok(change)
}

/// Whether `epoch` names the stop that is under way.
fn check_epoch(job: &Job, epoch: i64) -> Result<(), Rejection> {
    if epoch == i64::from(job.preemption_epoch) {
        return Ok(());
    }
    Err(Rejection::EpochMismatch { given: epoch, current: job.preemption_epoch })
}

pub(super) fn overdue(job: &mut Job, patience: Patience, now: Timestamp) -> Outcome {
    judge_overdue(job, patience, now)?;
    lose(job);
    let comes_back = match &job.phase {
        Phase::Preempting { stop, .. } => !matches!(stop, StopReason::Cancel { .. } | StopReason::Deadline),
        _ => false,
    };
    if comes_back && !job.spec.retry.on.lost {
        // Nobody has said that its process ended, nor how far it came.
        let worker = job.worker().cloned();
        close_lease(job, None);
        return Ok(Change::Happened(end_failed(job, EndReason::WorkerLost { worker }, now)));
    }
    Ok(Change::Happened(stopped(job, Exit::default(), None, None, now)))
}

/// Whether the process of a job that was told to stop may be taken for gone. Where the worker stops it by itself before
/// the lease ends, that is known only then; a worker that is heard says that the process is still there.
pub(super) fn judge_overdue(job: &Job, patience: Patience, now: Timestamp) -> Result<(), Rejection> {
    let Phase::Preempting { drain_started_at, .. } = job.phase else {
        return Err(Rejection::NotStopping { status: job.status() });
    };
    let is_over = match job.lease_span {
        Some(_) => patience.is_lost(job, now),
        None => patience.is_over(drain_started_at, now),
    };
    if is_over { Ok(()) } else { Err(Rejection::NotOverdue) }
}

/// The process of a job that was told to stop is gone: the reason of the stop decides what follows.
/// `rule` is how the worker judged the exit, in words.
pub(super) fn stopped(
    job: &mut Job,
    exit: Exit,
    by: Option<ReportKind>,
    rule: Option<&String>,
    now: Timestamp,
) -> EventKind {
    job.exit = known(exit);
    let stop = match &job.phase {
        Phase::Preempting { stop, .. } => stop.clone(),
        _ => StopReason::Cancel { message: None },
    };
    match stop {
        StopReason::Cancel { message } => {
            close_lease(job, by);
            end_cancelled(job, EndReason::Cancelled { message }, now)
        }
        StopReason::Timeout => attempt_failed(job, by, Failure { cause: Cause::Timeout, message: None }, now),
        StopReason::Deadline => {
            close_lease(job, by);
            end_failed(job, EndReason::Deadline, now)
        }
        StopReason::Preempt { .. } | StopReason::Gang(_) if by == Some(ReportKind::Finished) => {
            done(job, &Ending { kind: ReportKind::Finished, exit, message: None, outputs: None }, now)
        }
        StopReason::Preempt { .. } | StopReason::Gang(_) => {
            let refunded = job.attempts.saturating_sub(1);
            let event = requeue(job, by, RequeueCause::Preempted { rule: rule.cloned() }, Span::ZERO, now);
            job.attempts = refunded;
            event
        }
    }
}
