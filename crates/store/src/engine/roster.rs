//! The workers and what they hold, kept in memory from one transaction to the next and brought up to date by what
//! the log says changed: what a pass reads follows what changed, not what exists.
//!
//! Guarantees: after [`Roster::refresh`] everything is in it that was committed before, by whichever scheduler,
//! because whatever takes or gives back room appends an event in its own transaction. What this transaction has
//! changed itself is laid over it. A roster of a transaction that failed must be dropped; a new one reads the rows.
//! Signs of life and kept rooms change without events and are read each time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{Health, Job, Resources, Shape, ShapeId, Span, Timestamp, Worker, WorkerId};
use muster_planner::{Devices, WorkerView};

use crate::error::StoreError;
use crate::tx::{Apart, Changed, Tx};

/// With more events than this the rows are read anew.
const MAX_EVENTS: u64 = 100_000;

/// A job that ended this long before the roster was brought up to date had its end in the log by then, however slow
/// its transaction was. The events of one that ended later may have been removed with it.
const SLOWEST: Span = Span::from_secs(60);

/// What a scheduler remembers of workers and of what they hold.
#[derive(Debug, Default)]
pub struct Roster {
    known: Option<Known>,
    /// Before this nobody will have waited for very long, as far as is known.
    pub(super) ageing_due: Timestamp,
}

#[derive(Debug, Default)]
struct Known {
    /// Everything up to here is known.
    upto: u64,
    at: Timestamp,
    workers: BTreeMap<WorkerId, Worker>,
    /// What holds room, by number.
    jobs: BTreeMap<u64, Job>,
    on: HashMap<WorkerId, BTreeSet<u64>>,
    shapes: HashMap<ShapeId, (Shape, u32)>,
    views: BTreeMap<WorkerId, WorkerView>,
    /// Workers whose view is out of date.
    stale: BTreeSet<WorkerId>,
    /// Numbers of jobs that have changed and were not read since.
    touched: BTreeSet<u64>,
}

/// What is to be up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The workers, whatever they hold.
    Workers,
    All,
}

impl Roster {
    /// Takes what is remembered, and leaves nothing: two transactions never share it.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Puts back what a transaction remembers that was committed.
    pub fn put(&mut self, after: Self) {
        let position = |roster: &Self| roster.known.as_ref().map(|known| known.upto);
        if position(&after) >= position(self) {
            *self = after;
        }
    }

    /// Brings it up to date with all that was committed.
    pub(super) async fn refresh<T: Tx>(
        &mut self,
        tx: &mut T,
        part: Part,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(known) = &mut self.known
            && known.follow(tx, now).await?
        {
            return match part {
                Part::Workers => {
                    known.draw();
                    Ok(())
                }
                Part::All => known.read_touched(tx).await,
            };
        }
        self.known = Some(Known::read(tx, now).await?);
        Ok(())
    }

    /// Lays over it what this transaction has locked, and perhaps changed.
    pub(super) fn overlay<'w>(
        &mut self,
        jobs: impl Iterator<Item = &'w Job>,
        workers: impl Iterator<Item = &'w Worker>,
    ) {
        let Some(known) = &mut self.known else { return };
        for worker in workers {
            known.enrol(worker.clone());
        }
        for job in jobs {
            known.absorb(job.seq, Some(job).filter(|job| job.status().holds_capacity()));
        }
        known.draw();
    }

    /// An error when it says something else than one that was read from the rows.
    pub(super) fn is_like(&self, read: &Self) -> Result<(), StoreError> {
        let differ =
            |what: String| StoreError::Failed { operation: "compare the roster", source: what.into() };
        let (Some(own), Some(read)) = (&self.known, &read.known) else { return Ok(()) };
        let facts = |job: &Job| {
            // Whether it is pinned is judged by these times too: the mark is taken off without a word.
            let times = (job.started_at, job.checkpoint_at, job.served, job.waited);
            (job.status(), job.worker().cloned(), job.devices.clone(), job.spec.priority, times)
        };
        for seq in own.jobs.keys().chain(read.jobs.keys()) {
            let (own, read) = (own.jobs.get(seq).map(facts), read.jobs.get(seq).map(facts));
            if own != read {
                return Err(differ(format!("job {seq} is {own:?} and in truth {read:?}")));
            }
        }
        for id in own.views.keys().chain(read.views.keys()) {
            let (own, read) = (own.views.get(id), read.views.get(id));
            if own != read {
                return Err(differ(format!("worker {id} is {own:?} and in truth {read:?}")));
            }
        }
        if own.shapes == read.shapes { Ok(()) } else { Err(differ("shapes are counted wrongly".to_owned())) }
    }

    /// All registered workers, by name.
    pub(super) fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.known.iter().flat_map(|known| known.workers.values())
    }

    /// All that holds room, by number.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> + Clone {
        self.known.iter().flat_map(|known| known.jobs.values())
    }

    /// How many jobs of each shape hold room.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Shape, u32)> {
        self.known.iter().flat_map(|known| known.shapes.values()).map(|(shape, jobs)| (shape, *jobs))
    }

    /// The workers that work may be placed on, by name, and the room that any worker keeps. None that is in quarantine
    /// is among them.
    pub(super) fn views(&self, apart: &[Apart]) -> Vec<WorkerView> {
        self.views_with(apart, |health, _| health.quarantine.as_ref().map(|_| 0))
    }

    /// The same with the workers in quarantine that one task may try now; `None` when there are none.
    pub(super) fn views_with_probes(&self, apart: &[Apart], now: Timestamp) -> Option<Vec<WorkerView>> {
        let mut probes = false;
        let views = self.views_with(apart, |health, running| {
            let allowance = health.allowance(running, now);
            probes |= allowance.is_some_and(|jobs| jobs > 0);
            allowance
        });
        probes.then_some(views)
    }

    /// `allowance` says how many jobs a worker may get beyond those that it holds; `None` when nothing bounds it.
    fn views_with(
        &self,
        apart: &[Apart],
        mut allowance: impl FnMut(&Health, u32) -> Option<u32>,
    ) -> Vec<WorkerView> {
        let apart: HashMap<&WorkerId, &Apart> = apart.iter().map(|one| (&one.worker, one)).collect();
        let Some(known) = &self.known else { return Vec::new() };
        let mut views = Vec::with_capacity(known.views.len());
        for (id, view) in &known.views {
            let (Some(worker), apart) = (known.workers.get(id), apart.get(id)) else { continue };
            let allowance = allowance(&worker.health, view.running);
            if allowance == Some(0) || apart.is_some_and(|apart| apart.silent) {
                continue;
            }
            let slots = allowance.map_or(view.slots, |jobs| Some(view.running + jobs));
            views.push(WorkerView {
                kept: apart.and_then(|apart| apart.kept.clone()),
                slots,
                ..view.clone()
            });
        }
        views
    }
}

impl Known {
    /// Reads all rows. The position is read first: what comes between is read twice.
    async fn read<T: Tx>(tx: &mut T, now: Timestamp) -> Result<Self, StoreError> {
        let upto = tx.last_event().await?;
        let mut known = Self { upto, at: now, ..Self::default() };
        for worker in tx.workers().await? {
            known.enrol(worker);
        }
        for job in tx.all_held().await? {
            known.absorb(job.seq, Some(&job));
        }
        known.draw();
        Ok(known)
    }

    /// Learns what changed, and reads the workers among that; false when it cannot be known, or is too much.
    async fn follow<T: Tx>(&mut self, tx: &mut T, now: Timestamp) -> Result<bool, StoreError> {
        let Some(changed) = tx.changed_since(self.upto, MAX_EVENTS).await? else { return Ok(false) };
        let Changed { upto, jobs, workers, removed } = changed;
        if removed.is_some_and(|newest| newest + SLOWEST >= self.at) {
            return Ok(false);
        }
        if !workers.is_empty() {
            for worker in tx.read_workers(&workers).await? {
                self.enrol(worker);
            }
        }
        self.touched.extend(jobs);
        (self.upto, self.at) = (upto, now);
        Ok(true)
    }

    /// Reads the jobs that have changed.
    async fn read_touched<T: Tx>(&mut self, tx: &mut T) -> Result<(), StoreError> {
        let touched: Vec<u64> = std::mem::take(&mut self.touched).into_iter().collect();
        if !touched.is_empty() {
            let mut held: HashMap<u64, Job> =
                tx.held_among(&touched).await?.into_iter().map(|job| (job.seq, job)).collect();
            for seq in touched {
                self.absorb(seq, held.remove(&seq).as_ref());
            }
        }
        self.draw();
        Ok(())
    }

    fn enrol(&mut self, worker: Worker) {
        self.stale.insert(worker.id.clone());
        self.workers.insert(worker.id.clone(), worker);
    }

    /// Takes over a job as it is now; `None` when it holds no room.
    fn absorb(&mut self, seq: u64, job: Option<&Job>) {
        if let Some(before) = self.jobs.remove(&seq) {
            if let Some(entry) = self.shapes.get_mut(&before.shape) {
                entry.1 -= 1;
                if entry.1 == 0 {
                    self.shapes.remove(&before.shape);
                }
            }
            if let Some(worker) = before.worker() {
                self.stale.insert(worker.clone());
                if let Some(held) = self.on.get_mut(worker) {
                    held.remove(&seq);
                    if held.is_empty() {
                        self.on.remove(worker);
                    }
                }
            }
        }
        let Some(job) = job else { return };
        self.shapes.entry(job.shape).or_insert_with(|| (job.spec.shape(), 0)).1 += 1;
        if let Some(worker) = job.worker() {
            self.stale.insert(worker.clone());
            self.on.entry(worker.clone()).or_default().insert(seq);
        }
        self.jobs.insert(seq, job.clone());
    }

    /// Works out the views of those workers anew of which something changed.
    fn draw(&mut self) {
        for id in std::mem::take(&mut self.stale) {
            let Some(worker) = self.workers.get(&id) else { continue };
            let held = self.on.get(&id).into_iter().flatten().filter_map(|seq| self.jobs.get(seq));
            self.views.insert(id, view(worker, held));
        }
    }
}

/// A worker with what these jobs hold of it.
fn view<'j>(worker: &Worker, held: impl Iterator<Item = &'j Job>) -> WorkerView {
    let mut used = Resources::default();
    let mut devices =
        Some(worker.devices.as_slice()).filter(|devices| !devices.is_empty()).map(Devices::idle);
    let (mut running, mut exclusive) = (0, false);
    for job in held {
        running += 1;
        exclusive |= job.spec.exclusive;
        let Some(need) = &job.spec.resources else { continue };
        used.add(need);
        if let Some(devices) = devices.as_mut().filter(|_| need.gpu_need().is_some()) {
            devices.hold(job.devices.as_ref());
        }
    }
    WorkerView {
        id: Some(worker.id.clone()),
        total: Some(worker.resources.clone()),
        used,
        running,
        slots: worker.slots,
        tags: worker.tags.clone(),
        wants: 0,
        kept: None,
        devices,
        exclusive,
        labels: worker.labels.clone(),
    }
}
