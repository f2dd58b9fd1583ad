//! The jobs and workers of the store as they are now, read again only where something happened.
//!
//! From time to time everything is read and compared: a change of which the store said nothing shows then.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use muster_domain::invariants::{self, Violation};
use muster_domain::queue_tree::Queues;
use muster_domain::{Event, EventKind, GangId, Job, JobId, Worker};
use muster_store::{JobFilter, MemoryStore, StoreError, StoreExt};

/// A copy of the state of the store.
#[derive(Debug, Default)]
pub(crate) struct State {
    jobs: Vec<Job>,
    places: BTreeMap<JobId, usize>,
    gangs: BTreeMap<GangId, Vec<JobId>>,
    workers: Vec<Worker>,
    queues: Queues,
}

impl State {
    /// The queues of which something was set.
    pub(crate) const fn queues(&self) -> &Queues {
        &self.queues
    }

    pub(crate) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    pub(crate) fn job(&self, id: JobId) -> Option<&Job> {
        self.places.get(&id).map(|place| &self.jobs[*place])
    }

    /// The tasks of a gang, in the order in which they were submitted.
    pub(crate) fn tasks(&self, gang: GangId) -> Vec<&Job> {
        self.gangs.get(&gang).into_iter().flatten().filter_map(|id| self.job(*id)).collect()
    }

    pub(crate) fn check(&self) -> Vec<Violation> {
        invariants::check(&self.jobs, &self.workers)
    }

    /// Takes over what the events speak of; says which jobs that were.
    pub(crate) fn follow(&mut self, store: &MemoryStore, events: &[Event]) -> Result<Vec<JobId>, StoreError> {
        let touched: BTreeSet<JobId> = events.iter().filter_map(|event| event.job).collect();
        for id in &touched {
            match block_on(store.job(*id))? {
                Some(view) => self.put(view.job),
                None => self.forget(*id),
            }
        }
        if events.iter().any(|event| event.worker.is_some()) {
            self.workers = block_on(store.workers())?.into_iter().map(|usage| usage.worker).collect();
        }
        if events.iter().any(|event| event.kind == EventKind::QueueChanged) {
            self.read_queues(store)?;
        }
        Ok(touched.into_iter().collect())
    }

    /// Reads everything; says which jobs are not what the events made of them.
    pub(crate) fn reread(&mut self, store: &MemoryStore) -> Result<Vec<String>, StoreError> {
        let page = block_on(store.jobs(JobFilter::default()))?;
        let found: BTreeMap<JobId, Job> = page.jobs.into_iter().map(|view| (view.job.id, view.job)).collect();
        let gone: Vec<JobId> = self.places.keys().copied().filter(|id| !found.contains_key(id)).collect();
        for id in gone {
            self.forget(id);
        }
        let mut surprises = Vec::new();
        for (id, job) in found {
            let known = self.job(id).map(|known| (known.status(), known.attempts, known.lease));
            let now = (job.status(), job.attempts, job.lease);
            if known != Some(now) {
                surprises.push(format!("{id} was {known:?} and is {now:?}, of which nothing was said"));
            }
            self.put(job);
        }
        self.workers = block_on(store.workers())?.into_iter().map(|usage| usage.worker).collect();
        self.read_queues(store)?;
        Ok(surprises)
    }

    fn read_queues(&mut self, store: &MemoryStore) -> Result<(), StoreError> {
        let queues = block_on(store.queues())?;
        self.queues = queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
        Ok(())
    }

    fn put(&mut self, job: Job) {
        if let Some(place) = self.places.get(&job.id) {
            self.jobs[*place] = job;
            return;
        }
        self.places.insert(job.id, self.jobs.len());
        if let Some(gang) = &job.spec.gang {
            self.gangs.entry(gang.id).or_default().push(job.id);
        }
        self.jobs.push(job);
    }

    fn forget(&mut self, id: JobId) {
        let Some(place) = self.places.remove(&id) else { return };
        let gone = self.jobs.swap_remove(place);
        if let Some(moved) = self.jobs.get(place) {
            self.places.insert(moved.id, place);
        }
        if let Some(gang) = gone.spec.gang.as_ref().map(|gang| gang.id)
            && let Some(tasks) = self.gangs.get_mut(&gang)
        {
            tasks.retain(|task| *task != id);
            if tasks.is_empty() {
                self.gangs.remove(&gang);
            }
        }
    }
}
