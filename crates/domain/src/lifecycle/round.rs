//! The start of a round: every task is prepared on its worker before any process starts.
//!
//! Guarantees: the tasks of a round that wait for each other start in one step, when the last of them is prepared;
//! a round that does not come that far is taken back as a whole, and no attempt is counted.

use super::gang::Gang;
use super::{Caller, Change, Outcome, reports};
use crate::event::EventKind;
use crate::job::Job;
use crate::phase::{GangCause, GangStop, Phase, Preparation, StopReason};
use crate::time::Span;

/// Three times as long as a worker waits before it says again what is prepared.
const ROLL_CALL: Span = Span::from_millis(1_200);

impl Gang<'_> {
    /// A worker has everything ready for a task but its process. Also a sign of life, however often it is said.
    pub(super) fn prepared(&mut self, at: usize, caller: &Caller) -> Outcome {
        let now = self.now;
        let task = &mut self.tasks[at];
        reports::heartbeat(task, caller, now)?;
        let (id, lease) = (task.id, task.lease);
        if let Phase::Reserved { claim: Some(Preparation { prepared_at, .. }), .. } = &mut task.phase
            && prepared_at.is_none()
        {
            *prepared_at = Some(now);
            self.effects.push((id, EventKind::Prepared { lease }));
        }
        self.start_round();
        Ok(Change::Touched)
    }

    /// Starts all tasks that wait for each other, if all are prepared and were heard of just now: the worker of one
    /// that has waited for long may be gone. Those of workers that do not prepare run already.
    fn start_round(&mut self) {
        let patience = self.roll_call();
        let answers = |task: &Job| match task.phase {
            Phase::Reserved { .. } => self.now.since(task.last_sign_of_life()) <= patience,
            _ => true,
        };
        if !self.tasks.iter().all(|task| may_start(task) && answers(task)) {
            return;
        }
        for task in self.tasks.iter_mut() {
            let Phase::Reserved { worker, claim: Some(Preparation { last_heartbeat, .. }), .. } = &task.phase
            else {
                continue;
            };
            let (worker, last_heartbeat) = (Some(worker.clone()), *last_heartbeat);
            task.phase = Phase::Running { worker, last_heartbeat };
            task.started_at = Some(self.now);
            let kind = EventKind::Started { lease: task.lease, round: task.reservation_epoch };
            self.effects.push((task.id, kind));
        }
    }

    /// How long ago the worker of a prepared task may have been heard of for the round to start. It grows by half of the
    /// time for which all are prepared: where everything is slow the round starts in the end, and a worker that was
    /// silent for too long when the last one was prepared, and stays silent, never comes within it.
    fn roll_call(&self) -> Span {
        let prepared = self.tasks.iter().filter_map(|task| match task.phase {
            Phase::Reserved { claim: Some(Preparation { prepared_at, .. }), .. } => prepared_at,
            _ => None,
        });
        let assembled = prepared.max().unwrap_or(self.now);
        ROLL_CALL + Span::from_micros(self.now.since(assembled).as_micros() / 2)
    }

    /// A task cannot be made ready: the round is taken back at no cost, and the next one prefers other workers.
    pub(super) fn unprepared(&mut self, at: usize, cause: GangCause, pause: Span) {
        let task = &self.tasks[at];
        let (trigger, worker) = (Some(task.id), task.worker().cloned());
        let rank = task.spec.gang.as_ref().map(|gang| gang.index);
        if let Some(worker) = worker {
            self.avoid(&worker);
        }
        let stop = GangStop { trigger, rank, cause, restart: Some(pause), out_of_memory: false };
        self.drain(None, &StopReason::Gang(stop));
    }
}

/// Whether this task keeps no other one from starting.
const fn may_start(task: &Job) -> bool {
    match task.phase {
        Phase::Reserved { claim: Some(Preparation { prepared_at: Some(_), .. }), .. }
        | Phase::Running { .. }
        | Phase::Finished { .. }
        // The round does without it.
        | Phase::Blocked { .. }
        | Phase::Done { .. }
        | Phase::Failed { .. }
        | Phase::Cancelled { .. } => true,
        Phase::Reserved { .. }
        | Phase::Preempting { .. }
        | Phase::Preempted { .. }
        | Phase::Pending
        | Phase::Delayed { .. }
        | Phase::Held { .. } => false,
    }
}
