//! What happened to a gang as a whole, seen from its tasks before and after: for metrics and the log.

use muster_domain::{EventKind, Job, JobId, ReportKind, Span, Status, StopReason, Timestamp, Trigger};

use crate::applied::{DrainCause, GangNote, GangStep};

/// The steps that lie between two states of a gang's tasks, and what was said of which task in between.
pub(super) fn notes(
    said: Option<(JobId, &Trigger)>,
    before: &[Job],
    after: &[Job],
    effects: &[(JobId, EventKind)],
    now: Timestamp,
) -> Vec<GangNote> {
    let Some(gang) = after.first().and_then(|task| task.spec.gang.as_ref()) else { return Vec::new() };
    let gang = gang.id;
    let epoch = after.iter().map(|task| task.preemption_epoch).max().unwrap_or(0);
    let mut steps = Vec::new();
    let reserved = effects.iter().find_map(|(_, kind)| match kind {
        EventKind::Reserved { round, size, .. } => Some((*round, *size)),
        _ => None,
    });
    if let Some((round, size)) = reserved {
        steps.push(GangStep::Placed { size, round });
    }
    let started = before.iter().all(|task| task.preemption_epoch < epoch);
    let reason = effects.iter().find_map(|(_, kind)| match kind {
        EventKind::StopRequested { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    if let Some(reason) = reason.filter(|_| started) {
        let tasks = after.iter().filter(|task| task.preemption_epoch == epoch).count() as u32;
        let cause = said.map_or(DrainCause::Stopped, |(_, trigger)| cause_of(trigger));
        // A drain that ended in the same step has left nothing in the tasks to read it from.
        let culprit = said.map(|(id, _)| id).filter(|_| cause != DrainCause::Stopped);
        let trigger = culprit.or_else(|| trigger(after));
        steps.push(GangStep::DrainStarted { trigger, cause, tasks, reason });
    }
    if effects.iter().any(|(_, kind)| matches!(kind, EventKind::Unreserved { .. })) {
        steps.push(GangStep::Lapsed { size: after.len() as u32 });
    }
    steps.extend(effects.iter().filter_map(|(id, kind)| match kind {
        EventKind::Drained { forced: true, .. } => {
            let task = before.iter().find(|task| task.id == *id)?;
            Some(GangStep::Forced { task: *id, age: now.since(task.drain_started_at()?) })
        }
        _ => None,
    }));
    steps.extend(completed(before, after, effects, now));
    steps.into_iter().map(|step| GangNote { gang, epoch, step }).collect()
}

fn draining(task: &Job) -> bool {
    matches!(task.status(), Status::Preempting | Status::Preempted)
}

const fn cause_of(trigger: &Trigger) -> DrainCause {
    match trigger {
        Trigger::Report {
            kind: ReportKind::Failed | ReportKind::TimedOut | ReportKind::OutOfMemory | ReportKind::Refused,
            ..
        }
        | Trigger::Overrun => DrainCause::Failed,
        Trigger::Silence { .. } => DrainCause::Lost,
        _ => DrainCause::Stopped,
    }
}

fn trigger(tasks: &[Job]) -> Option<JobId> {
    tasks.iter().find_map(|task| match &task.phase {
        muster_domain::Phase::Preempting { stop: StopReason::Gang(stop), .. }
        | muster_domain::Phase::Preempted { stop: StopReason::Gang(stop), .. } => stop.trigger,
        _ => None,
    })
}

/// The end of a drain: no task waits for the verdict any more. It may have begun and ended in one step.
fn completed(
    before: &[Job],
    after: &[Job],
    effects: &[(JobId, EventKind)],
    now: Timestamp,
) -> Option<GangStep> {
    let drained = |(_, kind): &(JobId, EventKind)| matches!(kind, EventKind::Drained { .. });
    let began = before.iter().any(draining) || effects.iter().any(drained);
    if !began || after.iter().any(draining) {
        return None;
    }
    let since = before.iter().filter_map(Job::drain_started_at).min().unwrap_or(now);
    let any = |status: Status| after.iter().any(|task| task.status() == status);
    let outcome = match () {
        () if any(Status::Blocked) => "blocked",
        () if any(Status::Failed) => "failed",
        () if any(Status::Cancelled) => "cancelled",
        () => "done",
    };
    // What the drained tasks of this round had run; those drained earlier kept their start.
    let ran = after.iter().zip(before).filter(|(_, old)| draining(old) || old.status() == Status::Running);
    let wasted: u64 = ran
        .filter_map(|(_, old)| Some(old.drain_started_at().unwrap_or(now).since(old.started_at?).as_micros()))
        .sum();
    let wasted = if outcome == "done" { Span::ZERO } else { Span::from_micros(wasted) };
    let gpus = after.first().map_or(0, |task| task.spec.requirement().resources.gpus);
    Some(GangStep::Completed { outcome, took: now.since(since), wasted, gpus })
}
