//! The rows of one transaction: locked, changed in memory by the domain's rules, written back once.

use std::collections::{BTreeSet, HashMap};

use muster_domain::{Change, Event, Job, JobId, Rejection, Timestamp, Trigger, transition};

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
    events: Vec<Event>,
    wake: Wake,
}

impl<'t, T: Tx> Work<'t, T> {
    pub(crate) fn new(tx: &'t mut T, now: Timestamp) -> Self {
        Self { tx, now, jobs: HashMap::new(), ended: Vec::new(), events: Vec::new(), wake: Wake::default() }
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

    pub(crate) fn note(&mut self, event: Event) {
        self.wake.note(&event, None);
        self.events.push(event);
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
