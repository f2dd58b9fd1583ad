//! While a job is held by a worker: the claim, its reports, its silence, and what follows a failure.

use std::sync::Arc;

use super::authority::{Authority, authority};
use super::{Caller, Change, Outcome, Patience, end, end_failed, stops, waiting};
use crate::devices::Grant;
use crate::event::{EventKind, RequeueCause};
use crate::ids::WorkerId;
use crate::job::{ClosedLease, Exit, Job, ReportKind, Strays};
use crate::limits::POISON_AFTER;
use crate::memory_growth;
use crate::phase::{EndReason, Hold, Phase, Preparation, Status};
use crate::rejection::Rejection;
use crate::retry::{Cause, Next};
use crate::time::{Span, Timestamp};

/// How many workers on which the job failed are remembered.
const REMEMBERED_WORKERS: usize = 8;

/// Who takes a job, and how.
pub(super) struct Claim<'a> {
    pub(super) worker: Option<&'a WorkerId>,
    pub(super) key: Option<&'a Arc<str>>,
    pub(super) devices: Option<&'a Grant>,
    pub(super) prepares: bool,
}

pub(super) fn claim(job: &mut Job, claim: &Claim<'_>, now: Timestamp) -> Outcome {
    let worker = claim.worker;
    let running = Phase::Running { worker: worker.cloned(), last_heartbeat: None };
    let phase = match (&job.phase, &job.spec.gang) {
        (Phase::Pending, None) => {
            job.devices = claim.devices.cloned();
            running
        }
        (Phase::Reserved { worker: chosen, reserved_at, claim: None }, _) if worker == Some(chosen) => {
            if claim.prepares {
                let claim = Some(Preparation::default());
                Phase::Reserved { worker: chosen.clone(), reserved_at: *reserved_at, claim }
            } else {
                job.round.iter_mut().for_each(|round| round.alone = true);
                running
            }
        }
        (Phase::Pending, Some(_)) => return Err(Rejection::GangTask),
        _ => return Err(Rejection::NotPending { status: job.status() }),
    };
    job.claim_key = claim.key.cloned();
    job.last_worker = None;
    job.stopped_for = None;
    let waited = now.since(job.ready_at);
    job.attempts += 1;
    job.lease = job.lease.next();
    job.started_at = Some(now);
    job.exit = None;
    job.phase = phase;
    Ok(Change::Happened(EventKind::Claimed {
        worker: worker.cloned(),
        lease: job.lease,
        attempt: job.attempts,
        waited,
    }))
}

/// How an attempt ended, as reported.
pub(super) struct Ending<'a> {
    pub(super) kind: ReportKind,
    pub(super) exit: Exit,
    pub(super) message: Option<&'a String>,
    /// A JSON object that the attempt left for the job's dependants.
    pub(super) outputs: Option<&'a Arc<str>>,
}

pub(super) fn report(job: &mut Job, caller: &Caller, ending: &Ending<'_>, now: Timestamp) -> Outcome {
    let authority = authority(job, caller, Some(ending.kind))?;
    if matches!(authority, Authority::Repeats) {
        return Ok(Change::Repeated);
    }
    if job.status() == Status::Preempting {
        // Only a caller that proves who it is shows that the process is gone.
        return match authority {
            Authority::Proven => {
                Ok(Change::Happened(stops::stopped(job, ending.exit, Some(ending.kind), ending.message, now)))
            }
            Authority::Anonymous | Authority::Repeats => Ok(stops::note_exit(job, now)),
        };
    }
    let by = Some(ending.kind);
    if let Some(outputs) = ending.outputs {
        job.outputs = Some(Arc::clone(outputs));
    }
    match ending.kind {
        ReportKind::Done | ReportKind::Finished => Ok(Change::Happened(done(job, ending, now))),
        ReportKind::Failed => {
            job.exit = known(ending.exit);
            let failure = Failure { cause: Cause::Exit(ending.exit), message: ending.message.cloned() };
            Ok(Change::Happened(attempt_failed(job, by, failure, now)))
        }
        ReportKind::TimedOut => {
            job.exit = known(ending.exit);
            let failure = Failure { cause: Cause::Timeout, message: None };
            Ok(Change::Happened(attempt_failed(job, by, failure, now)))
        }
        ReportKind::OutOfMemory => {
            job.exit = known(ending.exit);
            let failure = Failure { cause: Cause::OutOfMemory, message: ending.message.cloned() };
            Ok(Change::Happened(attempt_failed(job, by, failure, now)))
        }
        ReportKind::Released if is_spent(job, ending.exit) => {
            Ok(Change::Happened(hand_back_spent(job, ending, now)))
        }
        ReportKind::Released => {
            let refunded = job.attempts.saturating_sub(1);
            let event = requeue(job, by, RequeueCause::Released, Span::ZERO, now);
            job.attempts = refunded;
            Ok(Change::Happened(event))
        }
        ReportKind::Lost => {
            let failure = Failure { cause: Cause::WorkerLost, message: None };
            Ok(Change::Happened(attempt_failed(job, by, failure, now)))
        }
        ReportKind::Refused => {
            let failure = Failure { cause: Cause::Refused, message: ending.message.cloned() };
            Ok(Change::Happened(attempt_failed(job, by, failure, now)))
        }
        ReportKind::Preempted => Err(Rejection::NotStopping { status: job.status() }),
    }
}

/// Whether a job that is handed back must not start again: a process of it ran, and the job is not to run again after
/// something else than itself has ended it.
pub(super) fn is_spent(job: &Job, exit: Exit) -> bool {
    !job.spec.retry.on.lost && known(exit).is_some()
}

fn hand_back_spent(job: &mut Job, ending: &Ending<'_>, now: Timestamp) -> EventKind {
    close_lease(job, Some(ending.kind));
    job.exit = known(ending.exit);
    let reason = EndReason::Attempt { exit: ending.exit, message: Some(spent_words(ending.message)) };
    end_failed(job, reason, now)
}

fn spent_words(message: Option<&String>) -> String {
    let why = message.map_or("its worker handed it back", String::as_str);
    format!("{why}; it had started, and is not to start again (retry_on: lost is false)")
}

/// A job that ended well.
pub(super) fn done(job: &mut Job, ending: &Ending<'_>, now: Timestamp) -> EventKind {
    if let Some(outputs) = ending.outputs {
        job.outputs = Some(Arc::clone(outputs));
    }
    close_lease(job, Some(ending.kind));
    let ran = now.since(job.started_at.unwrap_or(now));
    job.exit = known(ending.exit);
    job.lost_on.clear();
    end(job, Phase::Done { at: now });
    EventKind::Done { lease: job.lease, exit: ending.exit, ran }
}

/// A task that ended well while others of its gang have not: its exit and its outputs are kept, its room is free.
pub(super) fn finished(job: &mut Job, ending: &Ending<'_>, now: Timestamp) -> EventKind {
    if let Some(outputs) = ending.outputs {
        job.outputs = Some(Arc::clone(outputs));
    }
    close_lease(job, Some(ending.kind));
    let ran = now.since(job.started_at.unwrap_or(now));
    job.exit = known(ending.exit);
    job.last_worker = job.worker().cloned();
    job.phase = Phase::Finished { at: now };
    EventKind::Finished { lease: job.lease, exit: ending.exit, ran }
}

/// Notes a worker on which the job fared badly, the latest last.
pub(super) fn remember(job: &mut Job, worker: &WorkerId) {
    job.tried.retain(|tried| tried != worker);
    job.tried.push(worker.clone());
    let surplus = job.tried.len().saturating_sub(REMEMBERED_WORKERS);
    job.tried.drain(..surplus);
}

/// A failed attempt: why, and what the worker said.
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) message: Option<String>,
}

/// Asks the job's policy what follows: another attempt, a free one, or the end.
pub(super) fn attempt_failed(
    job: &mut Job,
    by: Option<ReportKind>,
    failure: Failure,
    now: Timestamp,
) -> EventKind {
    let Failure { cause, message } = failure;
    let worker = job.worker().cloned();
    if let Some(worker) = &worker {
        remember(job, worker);
    }
    match (&worker, cause) {
        (Some(worker), Cause::WorkerLost) if !job.lost_on.contains(worker) => {
            job.lost_on.push(worker.clone());
        }
        (_, Cause::WorkerLost) => {}
        (_, Cause::Exit(_) | Cause::Timeout | Cause::OutOfMemory | Cause::Refused) => job.lost_on.clear(),
    }
    // A job that takes worker after worker with it is kept for somebody to look at, whatever its attempts.
    if job.lost_on.len() >= POISON_AFTER && matches!(cause, Cause::WorkerLost) {
        job.hold = Some(Hold::Poison { workers: job.lost_on.clone() });
        let workers = job.lost_on.clone();
        return requeue(job, by, RequeueCause::Poison { workers }, Span::ZERO, now);
    }
    let seed = job.id.as_uuid().as_u64_pair().0;
    let attempt = job.attempts;
    match job.spec.retry.next(cause, attempt, job.spec.max_attempts, seed) {
        Next::Requeue { delay } => {
            let Cause::Exit(exit) = cause else {
                return requeue(job, by, RequeueCause::Released, delay, now);
            };
            let event = requeue(job, by, RequeueCause::AskedFor { exit }, delay, now);
            job.attempts = attempt.saturating_sub(1);
            event
        }
        Next::Retry { delay } => {
            let cause = match cause {
                Cause::Exit(exit) => RequeueCause::Failed { exit, message },
                Cause::WorkerLost => RequeueCause::WorkerLost,
                Cause::Timeout => RequeueCause::Timeout,
                Cause::OutOfMemory => {
                    RequeueCause::OutOfMemory { exit: job.exit.unwrap_or_default(), message }
                }
                Cause::Refused => RequeueCause::Failed { exit: Exit::default(), message },
            };
            if matches!(cause, RequeueCause::OutOfMemory { .. }) {
                memory_growth::grow(job);
            }
            requeue(job, by, cause, delay, now)
        }
        Next::Exhausted | Next::NotRetried => {
            close_lease(job, by);
            let reason = match cause {
                Cause::Exit(exit) => EndReason::Attempt { exit, message },
                Cause::WorkerLost => EndReason::WorkerLost { worker },
                Cause::Timeout => EndReason::Timeout,
                Cause::OutOfMemory => EndReason::OutOfMemory { exit: job.exit.unwrap_or_default(), message },
                Cause::Refused => EndReason::Attempt { exit: Exit::default(), message },
            };
            end_failed(job, reason, now)
        }
    }
}

/// Ends the lease and puts the job back. The number is skipped too, so that nothing which arrives
/// between now and the next claim can match.
pub(super) fn requeue(
    job: &mut Job,
    by: Option<ReportKind>,
    cause: RequeueCause,
    delay: Span,
    now: Timestamp,
) -> EventKind {
    let lease = job.lease;
    close_lease(job, by);
    job.lease = lease.next();
    waiting::make_ready(job, (delay > Span::ZERO).then(|| now + delay), now);
    EventKind::Requeued { lease, attempt: job.attempts, delay, cause }
}

/// An exit of which nothing is known is no exit.
pub(super) fn known(exit: Exit) -> Option<Exit> {
    (exit != Exit::default()).then_some(exit)
}

pub(super) fn close_lease(job: &mut Job, by: Option<ReportKind>) {
    job.closed = Some(ClosedLease { lease: job.lease, by });
}

/// The lease is taken away though the process may be alive: its holder may still report.
pub(super) fn lose(job: &mut Job) {
    let worker = job.worker().cloned();
    job.strays = Some(match (job.strays.take(), worker) {
        (None, Some(worker)) => Strays::Worker(worker),
        (Some(Strays::Worker(known)), Some(worker)) if known == worker => Strays::Worker(worker),
        _ => Strays::Several,
    });
}

pub(super) fn heartbeat(job: &mut Job, caller: &Caller, now: Timestamp) -> Outcome {
    authority(job, caller, None)?;
    match &mut job.phase {
        Phase::Running { last_heartbeat, .. }
        | Phase::Reserved { claim: Some(Preparation { last_heartbeat, .. }), .. } => {
            *last_heartbeat = Some(last_heartbeat.map_or(now, |last| last.max(now)));
            Ok(Change::Touched)
        }
        Phase::Preempting { last_heartbeat, exit_reported_at, .. } => {
            *last_heartbeat = Some(last_heartbeat.map_or(now, |last| last.max(now)));
            *exit_reported_at = None;
            Ok(Change::Touched)
        }
        _ => Err(Rejection::NotRunning { status: job.status() }),
    }
}

pub(super) fn silence(job: &mut Job, patience: Patience, now: Timestamp) -> Outcome {
    if job.status() != Status::Running {
        return Err(Rejection::NotRunning { status: job.status() });
    }
    if !patience.is_lost(job, now) {
        return Err(Rejection::NotOverdue);
    }
    lose(job);
    let failure = Failure { cause: Cause::WorkerLost, message: None };
    Ok(Change::Happened(attempt_failed(job, None, failure, now)))
}
