//! How a gang is drained and what is decided once all its processes are gone.

use super::gang::Gang;
use super::waiting;
use crate::event::{EventKind, RequeueCause};
use crate::job::Job;
use crate::memory_growth;
use crate::phase::{EndReason, GangCause, GangStop, Phase, Preparation, Status, StopReason};
use crate::rule::Needs;
use crate::time::Span;

/// What becomes of a gang whose processes are all gone.
enum Verdict {
    Cancelled {
        message: Option<String>,
    },
    Deadline,
    /// Every task said itself that its work is done.
    Done,
    Failed {
        stop: GangStop,
        partial: bool,
    },
    Restart {
        delay: Span,
        stop: StopReason,
    },
}

impl Gang<'_> {
    /// Tells every running task to stop, under one new epoch, and takes back what was only reserved. All
    /// get their attempt back but the `payer`.
    pub(super) fn drain(&mut self, payer: Option<usize>, stop: &StopReason) {
        let epoch = self.tasks.iter().map(|task| task.preemption_epoch).max().unwrap_or(0) + 1;
        let (now, reason) = (self.now, stop.to_string());
        self.ordered = Some(stop.clone());
        for (at, task) in self.tasks.iter_mut().enumerate() {
            match &task.phase {
                Phase::Running { worker, last_heartbeat } => {
                    let (worker, last_heartbeat) = (worker.clone(), *last_heartbeat);
                    task.phase = Phase::Preempting {
                        worker,
                        last_heartbeat,
                        drain_started_at: now,
                        stop: stop.clone(),
                        exit_reported_at: None,
                    };
                    task.preemption_epoch = epoch;
                    if payer != Some(at) {
                        task.attempts = task.attempts.saturating_sub(1);
                    }
                    let kind = EventKind::StopRequested { epoch, reason: reason.clone() };
                    self.effects.push((task.id, kind));
                }
                Phase::Reserved { worker, claim: Some(Preparation { last_heartbeat, .. }), .. } => {
                    let (worker, last_heartbeat) = (Some(worker.clone()), *last_heartbeat);
                    task.phase = Phase::Preempting {
                        worker,
                        last_heartbeat,
                        drain_started_at: now,
                        stop: stop.clone(),
                        exit_reported_at: None,
                    };
                    task.preemption_epoch = epoch;
                    // It never had a process: no attempt is counted and no time that it ran.
                    task.attempts = task.attempts.saturating_sub(1);
                    task.started_at = Some(now);
                    let kind = EventKind::StopRequested { epoch, reason: reason.clone() };
                    self.effects.push((task.id, kind));
                }
                Phase::Reserved { claim: None, .. } => {
                    task.phase = Phase::Blocked { needs: Needs::default() };
                    self.effects.push((task.id, EventKind::Unreserved { reason: reason.clone() }));
                }
                _ => {}
            }
        }
    }

    /// Stops the gang for good: a stop that is under way gets the new reason, and what does not run ends now.
    pub(super) fn stop_all(&mut self, reason: &StopReason) {
        self.drain(None, reason);
        let words = reason.to_string();
        for task in self.tasks.iter_mut() {
            if let Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } = &mut task.phase
                && stop != reason
            {
                *stop = reason.clone();
                let kind = EventKind::StopRequested { epoch: task.preemption_epoch, reason: words.clone() };
                self.effects.push((task.id, kind));
            }
        }
        for at in 0..self.tasks.len() {
            if self.tasks[at].status() == Status::Blocked {
                match reason {
                    StopReason::Cancel { message } => {
                        self.end_cancelled(at, EndReason::Cancelled { message: message.clone() });
                    }
                    _ => self.end_failed(at, EndReason::Deadline),
                }
            }
        }
        self.verdict();
    }

    /// Decides, if nothing of the gang can be alive and something was drained.
    pub(super) fn verdict(&mut self) {
        let Some(verdict) = judge(self.tasks, self.ordered.as_ref()) else { return };
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            if !matches!(task.status(), Status::Preempted | Status::Blocked | Status::Finished) {
                continue;
            }
            let finished = matches!(task.phase, Phase::Preempted { finished: true, .. });
            match &verdict {
                Verdict::Cancelled { message } => {
                    self.end_cancelled(at, EndReason::Cancelled { message: message.clone() });
                }
                Verdict::Deadline => self.end_failed(at, EndReason::Deadline),
                Verdict::Done if task.status() == Status::Blocked => {
                    self.end_cancelled(at, EndReason::NotNeeded);
                }
                Verdict::Done => self.end_done(at),
                Verdict::Failed { stop, partial } => {
                    let reason = own_reason(task, stop, *partial);
                    self.end_failed(at, reason);
                }
                Verdict::Restart { .. } if finished && keeps_done(task) => self.end_done(at),
                Verdict::Restart { delay, stop } => self.wait_again(at, *delay, stop),
            }
        }
    }

    fn wait_again(&mut self, at: usize, delay: Span, stop: &StopReason) {
        let now = self.now;
        let task = &mut self.tasks[at];
        let drained = matches!(task.status(), Status::Preempted | Status::Finished);
        if task.status() == Status::Finished {
            // It did not cause the stop, and its result is void.
            task.attempts = task.attempts.saturating_sub(1);
            task.outputs = None;
            task.exit = None;
        }
        let (lease, attempt) = (task.lease, task.attempts);
        if matches!(stop, StopReason::Gang(GangStop { out_of_memory: true, .. })) {
            // All tasks of a gang ask for the same.
            memory_growth::grow(task);
        }
        waiting::make_ready(task, (delay > Span::ZERO).then(|| now + delay), now);
        if drained {
            let cause = RequeueCause::Gang { reason: stop.to_string() };
            self.effects.push((task.id, EventKind::Requeued { lease, attempt, delay, cause }));
        }
    }
}

pub(super) fn keeps_done(task: &Job) -> bool {
    task.spec.gang.as_ref().is_some_and(|gang| gang.keep_done)
}

/// The verdict; `None` while a process may be alive, or when nothing was drained. `ordered` is the stop that was
/// just ordered: where it found tasks that had finished and no process, nothing else tells of it.
fn judge(tasks: &[Job], ordered: Option<&StopReason>) -> Option<Verdict> {
    let alive = |task: &Job| matches!(task.status(), Status::Running | Status::Preempting);
    if tasks.iter().any(alive) {
        return None;
    }
    let stops = || {
        tasks.iter().filter_map(|task| match &task.phase {
            Phase::Preempted { stop, finished, .. } => Some((stop, *finished)),
            _ => None,
        })
    };
    let held_back = tasks.iter().any(|task| task.status() == Status::Finished);
    let stop = stops().map(|(stop, _)| stop).next().or_else(|| ordered.filter(|_| held_back))?;
    let cancelled = |stop: &StopReason| match stop {
        StopReason::Cancel { message } => Some(message.clone()),
        _ => None,
    };
    if let Some(message) = stops().map(|(stop, _)| stop).chain([stop]).find_map(cancelled) {
        return Some(Verdict::Cancelled { message });
    }
    if matches!(stop, StopReason::Deadline) {
        return Some(Verdict::Deadline);
    }
    let well = |task: &Job| {
        let status = task.status();
        matches!(status, Status::Done | Status::Finished | Status::Blocked | Status::Preempted)
    };
    let declared = stops().count() > 0 && stops().all(|(_, finished)| finished);
    if declared && tasks.iter().all(well) {
        return Some(Verdict::Done);
    }
    let (restart, gang_stop) = match stop {
        StopReason::Gang(stop) => (stop.restart, stop.clone()),
        other => (Some(Span::ZERO), made_room(other)),
    };
    let restart = restart.filter(|_| !tasks.iter().any(is_lost_for_good));
    let open = || tasks.iter().filter(|task| !task.is_terminal() && task.status() != Status::Finished);
    let exhausted = open().any(|task| task.attempts >= task.spec.max_attempts);
    let partial = tasks.iter().any(|task| match task.status() {
        Status::Done => !keeps_done(task),
        Status::Failed | Status::Cancelled => true,
        _ => false,
    });
    match restart {
        Some(delay) if !exhausted && !partial => Some(Verdict::Restart { delay, stop: stop.clone() }),
        _ => Some(Verdict::Failed { stop: gang_stop, partial: partial && restart.is_some() && !exhausted }),
    }
}

/// A stop that is no fault of the gang, in the words of one.
fn made_room(stop: &StopReason) -> GangStop {
    let message = Some(stop.to_string());
    let cause = GangCause::MadeRoom { message };
    GangStop { trigger: None, rank: None, cause, restart: Some(Span::ZERO), out_of_memory: false }
}

/// Whether nobody has said that the process of a drained task ended, and it is not to run again then.
fn is_lost_for_good(task: &Job) -> bool {
    let unheard = task.closed.is_some_and(|closed| closed.lease == task.lease && closed.by.is_none());
    task.status() == Status::Preempted && unheard && !task.spec.retry.on.lost
}

/// Why this task failed: for itself, or with the one that did.
fn own_reason(task: &Job, stop: &GangStop, partial: bool) -> EndReason {
    if is_lost_for_good(task) {
        return EndReason::WorkerLost { worker: task.last_worker.clone() };
    }
    if stop.trigger == Some(task.id) && !partial {
        match &stop.cause {
            GangCause::Failed { exit, message } => {
                return EndReason::Attempt { exit: *exit, message: message.clone() };
            }
            GangCause::WorkerLost { worker } => return EndReason::WorkerLost { worker: worker.clone() },
            GangCause::Timeout => return EndReason::Timeout,
            GangCause::Released { .. }
            | GangCause::NotClaimed { .. }
            | GangCause::NotPrepared { .. }
            | GangCause::MadeRoom { .. } => {}
        }
    }
    EndReason::Gang { stop: stop.clone(), partial }
}
