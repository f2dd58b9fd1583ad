//! Stops: ordered for a reason, carried out by the worker, and judged by the reason once the process is
//! gone.

use super::authority::{Authority, authority};
use super::reports::{Failure, attempt_failed, close_lease, known};
use super::{Caller, Change, Outcome, Patience, end_cancelled, end_failed};
use crate::event::EventKind;
use crate::job::{Exit, Job, ReportKind};
use crate::limits::OVERRUN_SLACK;
use crate::phase::{EndReason, Phase, Status, StopReason};
use crate::rejection::Rejection;
use crate::retry::Cause;
use crate::time::Timestamp;

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
        | Phase::Preempted { .. } => {
            let reason = EndReason::Cancelled { message: message.cloned() };
            Ok(Change::Happened(end_cancelled(job, reason, now)))
        }
        Phase::Running { .. } => order(job, StopReason::Cancel { message: message.cloned() }, now),
        // A stop for another reason becomes a cancel: the process is told to stop already.
        Phase::Preempting { stop: StopReason::Timeout | StopReason::Deadline, .. } => {
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
        Phase::Reserved { .. } | Phase::Preempting { .. } | Phase::Preempted { .. } => {
            Err(Rejection::NotOverdue)
        }
        Phase::Done { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
            Err(Rejection::AlreadyEnded { status: job.status() })
        }
    }
}

pub(super) fn acknowledged(job: &mut Job, caller: &Caller, epoch: i64, now: Timestamp) -> Outcome {
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

pub(super) fn save_checkpoint(job: &mut Job, caller: &Caller, epoch: i64, bytes: u64) -> Outcome {
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

pub(super) fn overdue(job: &mut Job, patience: Patience, now: Timestamp) -> Outcome {
    match job.phase {
        Phase::Preempting { drain_started_at, .. } if patience.is_over(drain_started_at, now) => {
            Ok(Change::Happened(stopped(job, Exit::default(), None, now)))
        }
        Phase::Preempting { .. } => Err(Rejection::NotOverdue),
        _ => Err(Rejection::NotStopping { status: job.status() }),
    }
}

/// The process of a job that was told to stop is gone: the reason of the stop decides what follows.
pub(super) fn stopped(job: &mut Job, exit: Exit, by: Option<ReportKind>, now: Timestamp) -> EventKind {
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
    }
}
