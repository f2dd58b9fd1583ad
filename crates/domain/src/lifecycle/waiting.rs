//! Before a job runs: dependencies, delays and holds, and the way back to the queue.

use super::{Change, Outcome, end_cancelled, end_failed};
use crate::event::EventKind;
use crate::ids::JobId;
use crate::job::Job;
use crate::phase::{EndReason, Hold, Phase};
use crate::rejection::Rejection;
use crate::rule::{Ended, IfUnmet, Needs, Rule, Verdict};
use crate::spec::JobSpec;
use crate::time::Timestamp;

/// A new job: blocked while something is to be waited for; then held, delayed or pending. One whose
/// dependencies can no longer satisfy their rules ends at once, or runs, as it wants; `ancestor` is where a
/// bad end among them began.
pub fn first_phase(
    spec: &JobSpec,
    hold: Option<&Hold>,
    needs: Needs,
    ancestor: Option<JobId>,
    now: Timestamp,
) -> Phase {
    match judge(spec, &needs, ancestor) {
        // A gang task that waits for no other job still waits to be placed.
        Judged::Ready if spec.gang.is_some() => Phase::Blocked { needs: Needs::default() },
        Judged::Ready => ready_phase(hold, spec.not_before, now),
        Judged::Waiting => Phase::Blocked { needs },
        Judged::Fails(reason) => Phase::Failed { at: now, reason },
        Judged::Cancelled(reason) => Phase::Cancelled { at: now, reason },
    }
}

/// What the dependencies mean for a job.
enum Judged {
    Waiting,
    Ready,
    Fails(EndReason),
    Cancelled(EndReason),
}

fn judge(spec: &JobSpec, needs: &Needs, ancestor: Option<JobId>) -> Judged {
    let Some((rule, tally)) = needs.unmet() else {
        return match needs.verdict() {
            Verdict::Satisfied => Judged::Ready,
            Verdict::Waiting | Verdict::OutOfReach => Judged::Waiting,
        };
    };
    let Some(ancestor) = ancestor else { return Judged::Waiting };
    match spec.if_unmet {
        Some(IfUnmet::Run) if needs.unfinished() == 0 => Judged::Ready,
        Some(IfUnmet::Run) => Judged::Waiting,
        Some(IfUnmet::Fail) => Judged::Fails(EndReason::DependencyFailed { ancestor }),
        Some(IfUnmet::Cancel) => Judged::Cancelled(EndReason::DependencyCancelled { ancestor }),
        None => match rule {
            Rule::AllSuccess | Rule::OneSuccess | Rule::NoneFailed if tally.failed > 0 => {
                Judged::Fails(EndReason::DependencyFailed { ancestor })
            }
            Rule::AllSuccess | Rule::OneSuccess if tally.cancelled > 0 => {
                Judged::Cancelled(EndReason::DependencyCancelled { ancestor })
            }
            Rule::AllSuccess
            | Rule::AllDone
            | Rule::AllFailed
            | Rule::OneFailed
            | Rule::OneSuccess
            | Rule::NoneFailed
            | Rule::Always => Judged::Cancelled(EndReason::Skipped { rule, ancestor }),
        },
    }
}

/// Where a job goes that waits for no other job.
fn ready_phase(hold: Option<&Hold>, until: Option<Timestamp>, now: Timestamp) -> Phase {
    let until = until.filter(|until| *until > now);
    match (hold, until) {
        (Some(_), until) => Phase::Held { until },
        (None, Some(until)) => Phase::Delayed { until },
        (None, None) => Phase::Pending,
    }
}

/// Puts the job where it may run, as soon as `until` and its hold allow.
pub(super) fn make_ready(job: &mut Job, until: Option<Timestamp>, now: Timestamp) {
    job.phase = match job.spec.gang {
        // It is placed with its gang, when that may start.
        Some(_) => Phase::Blocked { needs: Needs::default() },
        None => ready_phase(job.hold.as_ref(), until, now),
    };
    job.ready_at = until.map_or(now, |until| until.max(now));
}

pub(super) fn dependency_ended(
    job: &mut Job,
    rule: Rule,
    ended: Ended,
    ancestor: JobId,
    now: Timestamp,
) -> Outcome {
    let Phase::Blocked { needs } = &mut job.phase else {
        return Err(Rejection::NotBlocked { status: job.status() });
    };
    needs.count(rule, ended);
    let judged = judge(&job.spec, needs, Some(ancestor));
    Ok(settle(job, judged, now))
}

/// Follows the judgement on a blocked job.
fn settle(job: &mut Job, judged: Judged, now: Timestamp) -> Change {
    match judged {
        Judged::Waiting => Change::Touched,
        Judged::Ready => {
            make_ready(job, job.spec.not_before, now);
            Change::Happened(EventKind::Unblocked)
        }
        Judged::Fails(reason) => Change::Happened(end_failed(job, reason, now)),
        Judged::Cancelled(reason) => Change::Happened(end_cancelled(job, reason, now)),
    }
}

pub(super) fn due(job: &mut Job, now: Timestamp) -> Outcome {
    match job.phase {
        Phase::Delayed { until } if until <= now => {
            make_ready(job, None, now);
            Ok(Change::Happened(EventKind::Due))
        }
        Phase::Delayed { .. } => Err(Rejection::NotOverdue),
        _ => Err(Rejection::NotPending { status: job.status() }),
    }
}

pub(super) fn hold(job: &mut Job, hold: &Hold) -> Outcome {
    match job.phase {
        Phase::Pending | Phase::Delayed { .. } => {
            job.phase = Phase::Held { until: job.delayed_until() };
        }
        Phase::Blocked { .. } if job.hold.is_none() => {}
        Phase::Blocked { .. } | Phase::Held { .. } => return Ok(Change::Repeated),
        Phase::Done { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
            return Err(Rejection::AlreadyEnded { status: job.status() });
        }
        Phase::Reserved { .. }
        | Phase::Running { .. }
        | Phase::Preempting { .. }
        | Phase::Preempted { .. }
        | Phase::Finished { .. } => {
            return Err(Rejection::NotWaiting { status: job.status() });
        }
    }
    job.hold = Some(hold.clone());
    Ok(Change::Happened(EventKind::Held { reason: hold.to_string() }))
}

pub(super) fn release(job: &mut Job, now: Timestamp) -> Outcome {
    if job.is_terminal() {
        return Err(Rejection::AlreadyEnded { status: job.status() });
    }
    match job.hold.take() {
        None => return Ok(Change::Repeated),
        Some(Hold::Asked { .. }) => {}
        // Somebody has looked at it and lets it try anew.
        Some(Hold::Poison { .. }) => {
            job.attempts = 0;
            job.lost_on.clear();
        }
    }
    match job.phase {
        Phase::Held { until } => make_ready(job, until, now),
        // A task of a gang was blocked all the while; it waits for its turn from now on.
        Phase::Blocked { .. } => job.ready_at = job.ready_at.max(now),
        _ => {}
    }
    Ok(Change::Happened(EventKind::Released))
}

pub(super) fn retry(job: &mut Job, needs: &Needs, now: Timestamp) -> Outcome {
    match job.phase {
        Phase::Failed { .. } | Phase::Cancelled { .. } => Ok(Change::Happened(start_over(job, needs, now))),
        Phase::Done { .. } => Err(Rejection::AlreadyEnded { status: job.status() }),
        _ => Err(Rejection::NotEnded { status: job.status() }),
    }
}

/// Puts a job that has ended back to its beginning, with all its attempts.
pub(super) fn start_over(job: &mut Job, needs: &Needs, now: Timestamp) -> EventKind {
    job.attempts = 0;
    job.tried.clear();
    job.lost_on.clear();
    job.outputs = None;
    job.ran_on = None;
    match needs.verdict() {
        Verdict::Waiting => job.phase = Phase::Blocked { needs: needs.clone() },
        Verdict::Satisfied | Verdict::OutOfReach => make_ready(job, None, now),
    }
    EventKind::RetryRequested
}

pub(super) fn revive(job: &mut Job, needs: &Needs, now: Timestamp) -> Outcome {
    match &job.phase {
        Phase::Blocked { .. } => {}
        Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. } => match reason {
            EndReason::DependencyFailed { .. }
            | EndReason::DependencyCancelled { .. }
            | EndReason::Skipped { .. } => {}
            EndReason::Attempt { .. }
            | EndReason::WorkerLost { .. }
            | EndReason::Timeout
            | EndReason::OutOfMemory { .. }
            | EndReason::Deadline
            | EndReason::Gang { .. }
            | EndReason::NotNeeded
            | EndReason::Cancelled { .. } => {
                return Err(Rejection::AlreadyEnded { status: job.status() });
            }
        },
        Phase::Pending
        | Phase::Delayed { .. }
        | Phase::Held { .. }
        | Phase::Reserved { .. }
        | Phase::Running { .. }
        | Phase::Preempting { .. }
        | Phase::Preempted { .. }
        | Phase::Finished { .. }
        | Phase::Done { .. } => return Err(Rejection::NotEnded { status: job.status() }),
    }
    job.ran_on = None;
    match needs.verdict() {
        Verdict::Waiting => job.phase = Phase::Blocked { needs: needs.clone() },
        Verdict::Satisfied => make_ready(job, job.spec.not_before, now),
        // Another dependency keeps it down.
        Verdict::OutOfReach => return Err(Rejection::AlreadyEnded { status: job.status() }),
    }
    Ok(Change::Happened(EventKind::RetryRequested))
}
