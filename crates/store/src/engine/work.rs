//! The rows of one transaction: locked, changed in memory by the domain's rules, written back once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{
    Change, Edit, Event, EventKind, Job, JobId, Rejection, ShapeId, Timestamp, Trigger, Worker, WorkerId,
    edit, transition,
};

use crate::command::Wake;
use crate::error::StoreError;
use crate::tx::Tx;

struct Held {
    job: Job,
    changed: bool,
}

/// A transaction in progress.
pub(crate) struct Work<'t, T> {
    pub(crate) tx: &'t mut T,
    pub(crate) now: Timestamp,
    jobs: HashMap<JobId, Held>,
    /// Jobs that became terminal and whose dependants have not been told yet.
    ended: Vec<JobId>,
    /// Workers that the batch speaks of, locked.
    workers: BTreeMap<WorkerId, Worker>,
    changed_workers: BTreeSet<WorkerId>,
    events: Vec<Event>,
    wake: Wake,
}

impl<'t, T: Tx> Work<'t, T> {
    pub(crate) fn new(tx: &'t mut T, now: Timestamp) -> Self {
        Self {
            tx,
            now,
            jobs: HashMap::new(),
            ended: Vec::new(),
            workers: BTreeMap::new(),
            changed_workers: BTreeSet::new(),
            events: Vec::new(),
            wake: Wake::default(),
        }
    }

    /// Locks those of `ids` that are not held yet.
    pub(crate) async fn lock_workers(&mut self, ids: &[WorkerId]) -> Result<(), StoreError> {
        let wanted: Vec<WorkerId> =
            ids.iter().filter(|id| !self.workers.contains_key(*id)).cloned().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let found = self.tx.lock_workers(&wanted).await?;
        self.workers.extend(found.into_iter().map(|worker| (worker.id.clone(), worker)));
        Ok(())
    }

    /// Lends out the held workers and the names of those that changed, until they are put back.
    pub(crate) fn take_workers(&mut self) -> (BTreeMap<WorkerId, Worker>, BTreeSet<WorkerId>) {
        (std::mem::take(&mut self.workers), std::mem::take(&mut self.changed_workers))
    }

    pub(crate) fn put_back_workers(
        &mut self,
        workers: BTreeMap<WorkerId, Worker>,
        changed: BTreeSet<WorkerId>,
    ) {
        self.workers = workers;
        self.changed_workers = changed;
    }

    /// Writes every changed worker.
    pub(crate) async fn flush_workers(&mut self) -> Result<(), StoreError> {
        let changed = std::mem::take(&mut self.changed_workers);
        let changed: Vec<Worker> = changed.iter().filter_map(|id| self.workers.get(id).cloned()).collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.tx.put_workers(&changed).await
    }

    /// Locks those of `ids` that are not held yet. Unknown ids are simply not there afterwards.
    pub(crate) async fn lock(&mut self, ids: impl IntoIterator<Item = JobId>) -> Result<(), StoreError> {
        let wanted: BTreeSet<JobId> = ids.into_iter().filter(|id| !self.jobs.contains_key(id)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<JobId> = wanted.into_iter().collect();
        for job in self.tx.lock_jobs(&wanted).await? {
            self.hold(job);
        }
        Ok(())
    }

    /// Takes over a job that the backend has locked already.
    pub(crate) fn hold(&mut self, job: Job) {
        self.jobs.insert(job.id, Held { job, changed: false });
    }

    pub(crate) fn job(&self, id: JobId) -> Result<&Job, Rejection> {
        self.jobs.get(&id).map(|held| &held.job).ok_or(Rejection::JobNotFound { id })
    }

    /// Puts a trigger to a held job and notes what follows from it.
    pub(crate) fn trigger(&mut self, id: JobId, trigger: &Trigger) -> Result<Change, Rejection> {
        let held = self.jobs.get_mut(&id).ok_or(Rejection::JobNotFound { id })?;
        let change = transition(&mut held.job, trigger, self.now)?;
        held.changed |= change != Change::Repeated;
        self.wake.note_alarm(held.job.alarm().filter(|_| held.changed));
        if let Change::Happened(kind) = &change {
            let event = Event::of_job(id, self.now, kind.clone());
            self.wake.note(&event, Some(&held.job));
            self.events.push(event);
            if held.job.is_terminal() {
                self.ended.push(id);
            }
        }
        Ok(change)
    }

    /// Changes what was asked for and names its new shape; true when anything changed.
    pub(crate) fn edit(&mut self, id: JobId, change: &Edit) -> Result<bool, Rejection> {
        let held = self.jobs.get_mut(&id).ok_or(Rejection::JobNotFound { id })?;
        let what = edit(&mut held.job, change)?;
        if what.is_empty() {
            return Ok(false);
        }
        self.wake.note_alarm(held.job.alarm());
        self.note(Event::of_job(id, self.now, EventKind::Edited { what }));
        Ok(true)
    }

    /// Gives a held job the name under which the store keeps its shape.
    pub(crate) fn rename_shape(&mut self, id: JobId, shape: ShapeId) {
        if let Some(held) = self.jobs.get_mut(&id) {
            held.job.shape = shape;
        }
    }

    /// Forgets a job that is being removed, and what this batch has noted about it.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.events.retain(|event| event.job != Some(id));
        self.jobs.remove(&id);
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.wake.note(&event, None);
        self.events.push(event);
    }

    /// Notes that readers of the log have something to do.
    pub(crate) const fn note_events(&mut self) {
        self.wake.events = true;
    }

    /// Notes that claims should be tried again.
    pub(crate) const fn note_room(&mut self) {
        self.wake.work = true;
    }

    /// Notes that a job has an alarm that the sweep does not know yet.
    pub(crate) fn note_alarm(&mut self, alarm: Option<Timestamp>) {
        self.wake.note_alarm(alarm);
    }

    pub(crate) fn take_ended(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Writes every changed job, in id order.
    pub(crate) async fn flush(&mut self) -> Result<(), StoreError> {
        let mut changed: Vec<Job> = Vec::new();
        for held in self.jobs.values_mut().filter(|held| held.changed) {
            held.changed = false;
            changed.push(held.job.clone());
        }
        if changed.is_empty() {
            return Ok(());
        }
        changed.sort_unstable_by_key(|job| job.id);
        self.tx.update_jobs(&changed).await
    }

    pub(crate) async fn append_events(&mut self) -> Result<(), StoreError> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.tx.append_events(&mut self.events).await
    }

    pub(crate) fn into_effects(self) -> (Vec<Event>, Wake) {
        (self.events, self.wake)
    }
}
