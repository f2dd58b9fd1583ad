//! Gangs: what happens to one task is decided upon for all tasks of its gang together.
//!
//! Guarantees: a gang is placed whole or not at all; one drain moves every running task at once under one
//! epoch that only grows; whoever did not cause a stop gets its attempt back; a verdict falls only when no
//! process of the gang can be alive.

use super::authority::{Authority, authority};
use super::reports::{self, Ending, known};
use super::standing::Before;
use super::{Caller, Change, Outcome, Patience, Trigger, end, stops, waiting};
use crate::devices::Grant;
use crate::event::EventKind;
use crate::ids::{JobId, WorkerId};
use crate::job::{Exit, Job, ReportKind, Round};
use crate::kept_room::Unit;
use crate::limits::{EXIT_EVIDENCE, OVERRUN_SLACK, PREPARATION, UNPREPARED_PAUSE};
use crate::phase::{EndReason, GangCause, GangStop, Phase, Status, StopReason};
use crate::rejection::Rejection;
use crate::retry::{Cause, Next};
use crate::rule::Needs;
use crate::time::{Span, Timestamp};

/// What happened to which task, in order.
pub type Effects = Vec<(JobId, EventKind)>;

/// The effect of a trigger on a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangChange {
    /// For the task that was named.
    pub change: Change,
    pub effects: Effects,
}

/// A task and the worker that it is placed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub task: JobId,
    pub worker: WorkerId,
    /// Where the worker is reached, the port kept for the task, and both together.
    pub host: String,
    pub port: Option<u16>,
    pub address: String,
    /// GPUs of the worker.
    pub devices: Option<Grant>,
}

impl Trigger {
    /// Whether all tasks of a gang are needed in order to decide on this trigger for one of them.
    pub const fn concerns_gang(&self) -> bool {
        match self {
            Self::Report { .. }
            | Self::Prepared { .. }
            | Self::StopAcknowledged { .. }
            | Self::Silence { .. }
            | Self::Overrun
            | Self::Expire
            | Self::StopOverdue { .. }
            | Self::ExitPresumed
            | Self::Cancel { .. }
            | Self::Preempt { .. }
            | Self::Retry { .. }
            | Self::Hold { .. }
            | Self::Release => true,
            Self::DependencyEnded { .. }
            | Self::Due
            | Self::Claim { .. }
            | Self::Heartbeat { .. }
            | Self::SaveCheckpoint { .. }
            | Self::Revive { .. } => false,
        }
    }
}

/// Applies `trigger` to the task `id` of a gang, of which `tasks` must be all tasks.
pub fn gang_transition(
    tasks: &mut [Job],
    id: JobId,
    trigger: &Trigger,
    now: Timestamp,
) -> Result<GangChange, Rejection> {
    let at = tasks.iter().position(|task| task.id == id).ok_or(Rejection::JobNotFound { id })?;
    let before: Vec<Before> = tasks.iter().map(Before::of).collect();
    let mut gang = Gang { tasks, now, effects: Vec::new(), ordered: None };
    let change = gang.decide(at, trigger);
    let effects = gang.effects;
    settle(before, tasks, now);
    super::note_spent(&mut tasks[at], trigger, change.as_ref().ok());
    Ok(GangChange { change: change?, effects })
}

fn settle(before: Vec<Before>, tasks: &mut [Job], now: Timestamp) {
    for (before, task) in before.into_iter().zip(tasks) {
        before.settle(task, now);
    }
}

impl Gang<'_> {
    fn decide(&mut self, at: usize, trigger: &Trigger) -> Outcome {
        let now = self.now;
        Ok(match trigger {
            Trigger::Report { caller, kind, exit, message, outputs, spent: _ } => {
                let (message, outputs) = (message.as_ref(), outputs.as_ref());
                self.report(at, caller, &Ending { kind: *kind, exit: *exit, message, outputs })?
            }
            Trigger::Prepared { caller } => self.prepared(at, caller)?,
            Trigger::StopAcknowledged { caller, epoch } => self.acknowledged(at, caller, *epoch)?,
            Trigger::Silence { patience } => self.silence(at, *patience)?,
            Trigger::Overrun => self.overrun(at)?,
            Trigger::Expire => self.expire(at)?,
            Trigger::StopOverdue { patience } => self.overdue(at, *patience)?,
            Trigger::ExitPresumed => self.presumed(at)?,
            Trigger::Cancel { message } => {
                self.cancel(at, &StopReason::Cancel { message: message.clone() })?
            }
            Trigger::Preempt { message, in_favour_of } => {
                self.preempt(at, message.as_ref(), *in_favour_of)?
            }
            Trigger::Retry { needs } => self.retry(at, needs)?,
            Trigger::Hold { hold } => self.each(at, |task| waiting::hold(task, hold))?,
            Trigger::Release => self.each(at, |task| waiting::release(task, now))?,
            Trigger::DependencyEnded { .. }
            | Trigger::Due
            | Trigger::Claim { .. }
            | Trigger::Heartbeat { .. }
            | Trigger::SaveCheckpoint { .. }
            | Trigger::Revive { .. } => super::decide(&mut self.tasks[at], trigger, now)?,
        })
    }
}

/// Places all of `places`, or refuses and changes nothing. Tasks that are not among them must have ended,
/// unless the gang may start with fewer.
pub fn reserve(tasks: &mut [Job], places: &[Place], now: Timestamp) -> Result<Effects, Rejection> {
    for task in tasks.iter() {
        let placed = places.iter().any(|place| place.task == task.id);
        let ready = matches!(&task.phase, Phase::Blocked { needs } if needs.unfinished() == 0);
        let waits = ready && task.hold.is_none() && task.ready_at <= now;
        let least = task.spec.gang.as_ref().and_then(|gang| gang.min);
        let spared = ready && least.is_some_and(|least| places.len() >= least as usize);
        if !(if placed { waits } else { task.is_terminal() || spared }) {
            return Err(Rejection::GangNotReady { task: task.id, status: task.status() });
        }
    }
    let round = tasks.iter().map(|task| task.reservation_epoch).max().unwrap_or(0) + 1;
    let whole = tasks.iter().any(|task| task.status() == Status::Done);
    let mut effects = Vec::new();
    for task in tasks.iter_mut() {
        let Some(place) = places.iter().find(|place| place.task == task.id) else { continue };
        // Where tasks that are done stay done, the others keep their places among all.
        let all = task.spec.gang.as_ref().map_or(0, |gang| gang.size);
        let size = if whole { all } else { places.len() as u32 };
        task.reservation_epoch = round;
        let (host, address) = (place.host.clone(), place.address.clone());
        let (port, alone) = (place.port, false);
        task.round = Some(Round { size, reserved_at: now, port, host, address, alone });
        task.devices.clone_from(&place.devices);
        task.phase = Phase::Reserved { worker: place.worker.clone(), reserved_at: now, claim: None };
        effects.push((task.id, EventKind::Reserved { worker: place.worker.clone(), round, size }));
    }
    Ok(effects)
}

/// Takes a placement back of which a task was not claimed in time. Siblings that are claimed already are drained,
/// and nobody pays for it. The worker that did not claim is remembered.
pub fn lapse(tasks: &mut [Job], patience: Patience, now: Timestamp) -> Result<Effects, Rejection> {
    let overdue = |task: &Job| match &task.phase {
        Phase::Reserved { worker, reserved_at, claim: None } if patience.is_over(*reserved_at, now) => {
            Some((worker.clone(), task.spec.gang.as_ref().map(|gang| gang.index)))
        }
        _ => None,
    };
    let late: Vec<(WorkerId, Option<u32>)> = tasks.iter().filter_map(overdue).collect();
    let Some((worker, rank)) = late.first().cloned() else { return Err(Rejection::NotOverdue) };
    let before: Vec<Before> = tasks.iter().map(Before::of).collect();
    let mut gang = Gang { tasks, now, effects: Vec::new(), ordered: None };
    for (worker, _) in &late {
        gang.avoid(worker);
    }
    let cause = GangCause::NotClaimed { worker };
    let stop = GangStop { trigger: None, rank, cause, restart: Some(Span::ZERO), out_of_memory: false };
    gang.drain(None, &StopReason::Gang(stop));
    gang.verdict();
    let effects = gang.effects;
    settle(before, tasks, now);
    Ok(effects)
}

/// How a whole gang ended, as those that depend on it count it, and where a bad end began; `None` while a
/// task has not ended.
pub fn gang_ended(tasks: &[&Job]) -> Option<(crate::rule::Ended, JobId)> {
    use crate::rule::Ended;
    let first = tasks.first()?.id;
    let mut result = (Ended::Done, first);
    for task in tasks {
        let ended = task.ended()?;
        let worse = match (result.0, ended) {
            (_, Ended::Done) | (Ended::Failed, _) => false,
            (_, Ended::Failed) => true,
            // A task that the gang did without says nothing about it.
            (Ended::Done, _) => !task.was_spared(),
            _ => false,
        };
        if worse {
            result = (ended, task.root_cause());
        }
    }
    Some(result)
}

/// The tasks of one gang while they are decided upon.
pub(super) struct Gang<'a> {
    pub(super) tasks: &'a mut [Job],
    pub(super) now: Timestamp,
    pub(super) effects: Effects,
    /// The stop that this change orders.
    pub(super) ordered: Option<StopReason>,
}

/// How it became known that a process is gone; nothing at all when its worker is.
#[derive(Default, Clone, Copy)]
struct Exited<'a> {
    by: Option<ReportKind>,
    exit: Exit,
    forced: bool,
    rule: Option<&'a String>,
}

/// A failure that drains a gang.
struct Fault {
    cause: Cause,
    words: GangCause,
}

impl Gang<'_> {
    fn report(&mut self, at: usize, caller: &Caller, ending: &Ending<'_>) -> Outcome {
        let task = &self.tasks[at];
        let authority = authority(task, caller, Some(ending.kind))?;
        let proven = match authority {
            Authority::Repeats => return Ok(Change::Repeated),
            Authority::Proven => true,
            Authority::Anonymous => false,
        };
        let worker = task.worker().cloned();
        if task.status() == Status::Preempting {
            if !proven {
                return Ok(stops::note_exit(&mut self.tasks[at], self.now));
            }
            let rule = ending.message;
            self.gone(at, Exited { by: Some(ending.kind), exit: ending.exit, forced: false, rule });
            self.verdict();
            return Ok(Change::Touched);
        }
        let message = ending.message.cloned();
        match ending.kind {
            ReportKind::Done | ReportKind::Finished if task.status() == Status::Reserved => {
                // It was never told to start.
                return Err(Rejection::NotRunning { status: task.status() });
            }
            ReportKind::Failed | ReportKind::TimedOut | ReportKind::OutOfMemory | ReportKind::Lost
                if task.status() == Status::Reserved =>
            {
                self.unprepared(at, GangCause::NotPrepared { worker, message }, UNPREPARED_PAUSE);
            }
            ReportKind::Done | ReportKind::Finished => {
                self.done(at, ending);
                return Ok(Change::Touched);
            }
            ReportKind::Failed => {
                let words = GangCause::Failed { exit: ending.exit, message };
                self.fault(at, Fault { cause: Cause::Exit(ending.exit), words });
            }
            ReportKind::TimedOut => {
                self.fault(at, Fault { cause: Cause::Timeout, words: GangCause::Timeout });
            }
            ReportKind::OutOfMemory => {
                let words = GangCause::Failed { exit: ending.exit, message: Some(out_of_memory(message)) };
                self.fault(at, Fault { cause: Cause::OutOfMemory, words });
            }
            ReportKind::Released => {
                let rank = self.rank(at);
                let cause = GangCause::Released { worker };
                let restart = (!reports::is_spent(task, ending.exit)).then_some(Span::ZERO);
                let stop = GangStop { trigger: Some(task.id), rank, cause, restart, out_of_memory: false };
                self.drain(None, &StopReason::Gang(stop));
            }
            ReportKind::Lost => {
                let words = GangCause::WorkerLost { worker };
                self.fault(at, Fault { cause: Cause::WorkerLost, words });
            }
            ReportKind::Refused => {
                let words = GangCause::Failed { exit: ending.exit, message };
                self.fault(at, Fault { cause: Cause::Refused, words });
            }
            ReportKind::Preempted => return Err(Rejection::NotStopping { status: task.status() }),
        }
        if proven {
            self.gone(at, Exited { by: Some(ending.kind), exit: ending.exit, ..Exited::default() });
        } else {
            // An operator may have said it while the process is alive and well: it is told to stop too.
            stops::note_exit(&mut self.tasks[at], self.now);
        }
        self.verdict();
        Ok(Change::Touched)
    }

    /// A task ended well. Where all start again together, it is done only with the last one.
    fn done(&mut self, at: usize, ending: &Ending<'_>) {
        let now = self.now;
        let task = &mut self.tasks[at];
        let kind = if super::drain::keeps_done(task) {
            reports::done(task, ending, now)
        } else {
            reports::finished(task, ending, now)
        };
        let id = task.id;
        self.effects.push((id, kind));
        let over =
            |task: &Job| task.is_terminal() || matches!(task.status(), Status::Blocked | Status::Finished);
        if !self.tasks.iter().all(over) {
            return;
        }
        for at in 0..self.tasks.len() {
            match self.tasks[at].status() {
                Status::Finished => self.end_done(at),
                // Tasks that the round did without are not needed once all others have ended.
                Status::Blocked => self.end_cancelled(at, EndReason::NotNeeded),
                _ => {}
            }
        }
    }

    /// A task failed: asks its policy what follows and drains the gang.
    fn fault(&mut self, at: usize, fault: Fault) {
        let task = &self.tasks[at];
        let seed = task.spec.gang.as_ref().map_or(0, |gang| gang.id.as_uuid().as_u64_pair().0);
        let next = task.spec.retry.next(fault.cause, task.attempts, task.spec.max_attempts, seed);
        let (payer, restart) = match next {
            Next::Requeue { delay } => (None, Some(delay)),
            Next::Retry { delay } => (Some(at), Some(delay)),
            Next::Exhausted | Next::NotRetried => (Some(at), None),
        };
        let (trigger, rank, worker) = (Some(task.id), self.rank(at), task.worker().cloned());
        if let Some(worker) = worker {
            self.avoid(&worker);
        }
        let out_of_memory = fault.cause == Cause::OutOfMemory;
        let stop = GangStop { trigger, rank, cause: fault.words, restart, out_of_memory };
        self.drain(payer, &StopReason::Gang(stop));
    }

    fn acknowledged(&mut self, at: usize, caller: &Caller, epoch: i64) -> Outcome {
        if stops::judge_acknowledgement(&self.tasks[at], caller, epoch)? {
            return Ok(Change::Repeated);
        }
        self.gone(at, Exited { by: Some(ReportKind::Preempted), ..Exited::default() });
        self.verdict();
        Ok(Change::Touched)
    }

    fn silence(&mut self, at: usize, patience: Patience) -> Outcome {
        let task = &self.tasks[at];
        if !task.must_be_heard() {
            return Err(Rejection::NotRunning { status: task.status() });
        }
        if !patience.is_lost(task, self.now) {
            return Err(Rejection::NotOverdue);
        }
        // Siblings that fell silent with it are as lost as it is, and innocent.
        let silent = |other: &Job| other.must_be_heard() && patience.is_lost_with(task, other, self.now);
        let lost: Vec<usize> = (0..self.tasks.len()).filter(|at| silent(&self.tasks[*at])).collect();
        let words = GangCause::WorkerLost { worker: task.worker().cloned() };
        if task.status() == Status::Reserved {
            self.unprepared(at, words, Span::ZERO);
        } else {
            self.fault(at, Fault { cause: Cause::WorkerLost, words });
        }
        for at in lost {
            reports::lose(&mut self.tasks[at]);
            self.gone(at, Exited::default());
        }
        self.verdict();
        Ok(Change::Touched)
    }

    fn overrun(&mut self, at: usize) -> Outcome {
        let task = &self.tasks[at];
        if task.preparation().is_some_and(|claim| claim.prepared_at.is_none()) {
            if task.started_at.is_none_or(|claimed| self.now < claimed + PREPARATION) {
                return Err(Rejection::NotOverdue);
            }
            let words = GangCause::NotPrepared { worker: task.worker().cloned(), message: None };
            self.unprepared(at, words, Span::ZERO);
            return Ok(Change::Touched);
        }
        if task.status() != Status::Running {
            return Err(Rejection::NotRunning { status: task.status() });
        }
        let (Some(timeout), Some(started)) = (task.spec.timeout, task.started_at) else {
            return Err(Rejection::NotOverdue);
        };
        if self.now.since(started) <= timeout + OVERRUN_SLACK {
            return Err(Rejection::NotOverdue);
        }
        self.fault(at, Fault { cause: Cause::Timeout, words: GangCause::Timeout });
        Ok(Change::Touched)
    }

    fn expire(&mut self, at: usize) -> Outcome {
        if self.tasks[at].spec.deadline.is_none_or(|deadline| deadline > self.now) {
            return Err(Rejection::NotOverdue);
        }
        let stopping = |task: &Job| match &task.phase {
            Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } => {
                matches!(stop, StopReason::Cancel { .. } | StopReason::Deadline)
            }
            _ => task.is_terminal() || task.status() == Status::Finished,
        };
        if self.tasks.iter().all(stopping) {
            return Err(Rejection::NotOverdue);
        }
        self.stop_all(&StopReason::Deadline);
        Ok(Change::Touched)
    }

    fn overdue(&mut self, at: usize, patience: Patience) -> Outcome {
        stops::judge_overdue(&self.tasks[at], patience, self.now)?;
        reports::lose(&mut self.tasks[at]);
        self.gone(at, Exited { forced: true, ..Exited::default() });
        self.verdict();
        Ok(Change::Touched)
    }

    fn presumed(&mut self, at: usize) -> Outcome {
        stops::judge_evidence(&self.tasks[at], self.now, EXIT_EVIDENCE)?;
        self.gone(at, Exited::default());
        self.verdict();
        Ok(Change::Touched)
    }

    fn cancel(&mut self, at: usize, stop: &StopReason) -> Outcome {
        let open = |task: &Job| !task.is_terminal();
        if !self.tasks.iter().any(open) {
            return stops::cancel(&mut self.tasks[at], None, self.now);
        }
        let cancelling = |task: &Job| match &task.phase {
            Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } => {
                matches!(stop, StopReason::Cancel { .. })
            }
            _ => task.is_terminal() || task.status() == Status::Finished,
        };
        if self.tasks.iter().all(cancelling) {
            return Ok(Change::Repeated);
        }
        self.stop_all(stop);
        Ok(Change::Touched)
    }

    fn preempt(&mut self, at: usize, message: Option<&String>, in_favour_of: Option<Unit>) -> Outcome {
        let running = |task: &Job| matches!(task.status(), Status::Running | Status::Reserved);
        if self.tasks.iter().any(running) {
            for task in self.tasks.iter_mut().filter(|task| !task.is_terminal()) {
                task.stopped_for = in_favour_of;
            }
            self.drain(None, &StopReason::Preempt { message: message.cloned() });
            self.verdict();
            return Ok(Change::Touched);
        }
        match self.tasks[at].status() {
            Status::Preempting | Status::Preempted => Ok(Change::Repeated),
            status => Err(Rejection::NotRunning { status }),
        }
    }

    /// Runs a gang that has ended badly again. All of it, also what was done, unless that is to be kept.
    fn retry(&mut self, at: usize, needs: &Needs) -> Outcome {
        if let Some(open) = self.tasks.iter().find(|task| !task.is_terminal()) {
            return Err(Rejection::NotEnded { status: open.status() });
        }
        if self.tasks.iter().all(|task| task.status() == Status::Done || task.was_spared()) {
            return Err(Rejection::AlreadyEnded { status: self.tasks[at].status() });
        }
        let now = self.now;
        for task in self.tasks.iter_mut() {
            let keeps = task.spec.gang.as_ref().is_some_and(|gang| gang.keep_done);
            if keeps && task.status() == Status::Done {
                continue;
            }
            self.effects.push((task.id, waiting::start_over(task, needs, now)));
        }
        Ok(Change::Touched)
    }

    /// Applies a change to all tasks that have not ended; refused when the named one refuses.
    fn each(&mut self, at: usize, mut change: impl FnMut(&mut Job) -> Outcome) -> Outcome {
        let first = change(&mut self.tasks[at])?;
        self.note(at, &first);
        for other in (0..self.tasks.len()).filter(|other| *other != at) {
            if let Ok(done) = change(&mut self.tasks[other]) {
                self.note(other, &done);
            }
        }
        Ok(if first == Change::Repeated { first } else { Change::Touched })
    }

    fn note(&mut self, at: usize, change: &Change) {
        if let Change::Happened(kind) = change {
            self.effects.push((self.tasks[at].id, kind.clone()));
        }
    }

    fn rank(&self, at: usize) -> Option<u32> {
        self.tasks[at].spec.gang.as_ref().map(|gang| gang.index)
    }

    /// Lets the next round prefer other workers than this one.
    pub(super) fn avoid(&mut self, worker: &WorkerId) {
        for task in self.tasks.iter_mut().filter(|task| !task.is_terminal()) {
            reports::remember(task, worker);
        }
    }

    /// The process of a stopping task is gone: it waits for the verdict.
    fn gone(&mut self, at: usize, exited: Exited<'_>) {
        let Exited { by, exit, forced, rule } = exited;
        let task = &mut self.tasks[at];
        let Phase::Preempting { drain_started_at, stop, .. } = &task.phase else { return };
        let (drain_started_at, stop) = (*drain_started_at, stop.clone());
        let (epoch, lease) = (task.preemption_epoch, task.lease);
        let ran = self.now.since(task.started_at.unwrap_or(self.now));
        task.exit = known(exit);
        reports::close_lease(task, by);
        task.last_worker = task.worker().cloned();
        let finished = by == Some(ReportKind::Finished);
        task.phase = Phase::Preempted { drain_started_at, stop, finished };
        let rule = rule.cloned();
        self.effects.push((task.id, EventKind::Drained { epoch, lease, exit, forced, ran, rule }));
    }

    pub(super) fn end_cancelled(&mut self, at: usize, reason: EndReason) {
        let kind = super::end_cancelled(&mut self.tasks[at], reason, self.now);
        self.effects.push((self.tasks[at].id, kind));
    }

    pub(super) fn end_failed(&mut self, at: usize, reason: EndReason) {
        let kind = super::end_failed(&mut self.tasks[at], reason, self.now);
        self.effects.push((self.tasks[at].id, kind));
    }

    pub(super) fn end_done(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        let (lease, exit) = (task.lease, task.exit.unwrap_or_default());
        let ended = task.finished_at().unwrap_or(self.now);
        let ran = ended.since(task.started_at.unwrap_or(ended));
        end(task, Phase::Done { at: self.now });
        self.effects.push((task.id, EventKind::Done { lease, exit, ran }));
    }
}

/// What is said of a task that ran out of memory.
fn out_of_memory(message: Option<String>) -> String {
    message.unwrap_or_else(|| "out of memory".to_owned())
}
