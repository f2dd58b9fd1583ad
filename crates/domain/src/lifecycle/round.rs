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

    /// Starts all tasks that wait for each other, if all are prepared. Those of workers that do not prepare run already.
    fn start_round(&mut self) {
        if !self.tasks.iter().all(may_start) {
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

    /// A task cannot be made ready: the round is taken back at no cost, and the next one prefers other workers.
    pub(super) fn unprepared(&mut self, at: usize, cause: GangCause, pause: Span) {
        let task = &self.tasks[at];
        let (trigger, worker) = (Some(task.id), task.worker().cloned());
        let rank = task.spec.gang.as_ref().map(|gang| gang.index);
        if let Some(worker) = worker {
            self.avoid(&worker);
        }
        self.drain(None, &StopReason::Gang(GangStop { trigger, rank, cause, restart: Some(pause) }));
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
