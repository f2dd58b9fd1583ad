//! Room that is kept for work which goes first: whoever is let in beside it goes before, is gone in time, or takes
//! only what is spare.
//!
//! The account is kept apart from the rules that let work in: from what workers kept before a transaction, and from who
//! entered them in it.

use std::collections::BTreeMap;

use futures::executor::block_on;
use muster_domain::{Event, EventKind, Job, KeptRoom, Status, Timestamp, WorkerId};
use muster_store::{Command, MemoryStore, StoreError, StoreExt};

use crate::state::State;

/// What each worker keeps, as of the last transaction that could change it.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    kept: BTreeMap<WorkerId, KeptRoom>,
    /// What they have to keep after the transaction that was judged last; `None` after a look.
    due: Option<BTreeMap<WorkerId, KeptRoom>>,
    /// How many entered a worker that kept room for somebody else.
    pub(crate) entered: u64,
    /// How many of those stayed longer than the room was promised to be free, beside it.
    pub(crate) stayed: u64,
}

impl Rooms {
    /// Judges who entered. `state` is as it was before the transaction.
    pub(crate) fn check(
        &mut self,
        commands: &[Command],
        events: &[Event],
        state: &State,
        told: Timestamp,
    ) -> Result<(), String> {
        // A look writes the rooms anew before claims are answered, and those are bound by what it wrote; so is what the
        // pass after it places.
        let passes: Vec<bool> = commands
            .iter()
            .filter_map(|command| match command {
                Command::Plan(pass) => Some(pass.look),
                _ => None,
            })
            .collect();
        let looks = passes.contains(&true);
        let mut kept = if looks && passes.len() > 1 { BTreeMap::new() } else { self.kept.clone() };
        let mut unsure = looks;
        for (at, event) in events.iter().enumerate() {
            let Some((worker, job)) = entrant(event, looks, state) else { continue };
            if !waited(job, state, &events[..at]) {
                // What it was when it was let in came about in this transaction.
                unsure = true;
                kept.remove(worker);
                continue;
            }
            if kept.get(worker).is_some_and(|room| is_for(room, job)) {
                kept.remove(worker);
            }
            let Some(room) = kept.get_mut(worker) else { continue };
            self.entered += 1;
            let turn = (job.rank, job.seq);
            let ends = job.ends_if_started(told);
            let in_time = matches!((ends, room.until), (Some(ends), Some(until)) if ends <= until);
            if turn < (room.rank, room.seq) || in_time {
                continue;
            }
            self.stayed += 1;
            let need = job.spec.requirement().resources;
            if !need.fits_in(&room.spare) || room.spare_slots == Some(0) {
                return Err(format!(
                    "{} (turn {turn:?}, ends {ends:?}) was let in on {worker} with {need:?}, where {room:?}",
                    job.id
                ));
            }
            room.spare = room.spare.minus(&need);
            room.spare_slots = room.spare_slots.map(|slots| slots - 1);
        }
        self.due = (!unsure).then_some(kept);
        Ok(())
    }

    /// Reads what is kept now, where these commands may have changed it.
    pub(crate) fn follow(&mut self, commands: &[Command], store: &MemoryStore) -> Result<(), StoreError> {
        let may_change = |command: &Command| {
            matches!(command, Command::Plan(_) | Command::Claim(_) | Command::RegisterWorker(_))
        };
        if !commands.iter().any(may_change) {
            return Ok(());
        }
        let workers = block_on(store.workers())?.into_iter().map(|usage| usage.worker);
        self.kept = workers.filter_map(|worker| Some((worker.id, *worker.kept?))).collect();
        Ok(())
    }

    /// Whether what is kept now is what was kept before, less what was let in beside it.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        match self.due.take() {
            Some(due) if due != self.kept => {
                let differs = |(id, room): &(&WorkerId, &KeptRoom)| self.kept.get(*id) != Some(*room);
                let (id, room) = due.iter().find(differs).unzip();
                Err(format!(
                    "{id:?} has to keep {room:?}, and keeps {:?}",
                    id.and_then(|id| self.kept.get(id))
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Who takes room on which worker by this event, as it was before. A task of a gang takes its room when it is reserved.
fn entrant<'a>(event: &'a Event, looks: bool, state: &'a State) -> Option<(&'a WorkerId, &'a Job)> {
    let job = state.job(event.job?)?;
    match (&event.kind, &job.spec.gang) {
        (EventKind::Claimed { worker: Some(worker), .. }, None) if !looks => Some((worker, job)),
        (EventKind::Reserved { worker, .. }, Some(gang)) => {
            let tasks = state.tasks(gang.id);
            let open = tasks.into_iter().filter(|task| !task.is_terminal());
            let first = open.min_by_key(|task| task.spec.gang.as_ref().map(|gang| gang.index));
            Some((worker, first.unwrap_or(job)))
        }
        _ => None,
    }
}

/// Whether the job, and all of its gang, did nothing but wait before, also in what happened of the transaction so far.
fn waited(job: &Job, state: &State, before: &[Event]) -> bool {
    let tasks = job.spec.gang.as_ref().map_or_else(|| vec![job], |gang| state.tasks(gang.id));
    tasks.iter().all(|task| {
        let placed =
            |event: &Event| matches!(event.kind, EventKind::Reserved { .. } | EventKind::Claimed { .. });
        let waits = matches!(task.status(), Status::Pending | Status::Blocked | Status::Done);
        waits && before.iter().all(|event| event.job != Some(task.id) || placed(event))
    })
}

fn is_for(room: &KeptRoom, job: &Job) -> bool {
    match &job.spec.gang {
        Some(gang) => room.unit == muster_domain::Unit::Gang(gang.id),
        None => room.unit == muster_domain::Unit::Job(job.id),
    }
}
