//! The parked requests: claims and syncs that found nothing and wait.
//!
//! Guarantees: after a wake-up one transaction claims for all that wait; each gets its answer once; jobs
//! claimed for a client that is gone are handed back; a timer looks again in case a wake-up was missed;
//! nothing happens while nothing waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_domain::{Job, JobId, Lease, WorkerId};
use muster_protocol::TerminalOrder;
use muster_store::{Ask, Command, Store, StoreExt};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::batcher::{Batcher, Delivery};
use crate::metrics::Metrics;
use crate::terminals::PATIENCE;
use crate::wake::WakeHub;

/// Claims in one transaction; more go into the next, so that other requests come in between.
const CLAIMS_AT_ONCE: usize = 1_024;
/// Remembered stop orders beyond which old ones are forgotten.
const MAX_DELIVERED: usize = 10_000;

/// A task under the lease that a worker holds.
pub(crate) type Leased = (JobId, Lease);

/// What a parked request gets.
pub(crate) enum Handed {
    /// The answer to its claim, with at least one job.
    Work(Delivery),
    /// Jobs that its worker must stop.
    Stops(Vec<Job>),
    /// Prepared tasks of its worker that are no longer waited for; without the job where the lease has ended.
    Changed(Vec<(Leased, Option<Job>)>),
    /// Sessions that clients want with jobs of its worker.
    Terminals(Vec<TerminalOrder>),
    /// Time is up, or the scheduler or the worker is leaving.
    Nothing,
}

/// A request that wants to wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// `None` when it waits for stop orders only.
    pub(crate) ask: Option<Ask>,
    pub(crate) worker: Option<WorkerId>,
    /// Whether stop orders for `worker` end the wait.
    pub(crate) orders: bool,
    /// Tasks that the worker has prepared: what becomes of them ends the wait.
    pub(crate) prepared: Vec<Leased>,
    /// The generation of work that its own claim has seen.
    pub(crate) as_of: u64,
}

struct Parked {
    waiting: Waiting,
    reply: oneshot::Sender<Handed>,
    /// Nobody has looked yet what became of its prepared tasks.
    unseen: bool,
    /// A claim for it is under way.
    asking: bool,
    /// It wants to leave as soon as that claim is answered.
    expired: bool,
}

#[derive(Default)]
struct Registry {
    next: u64,
    parked: BTreeMap<u64, Parked>,
    closed: bool,
    /// Stop orders that were handed over, and when; they are repeated only after a while.
    delivered: HashMap<(JobId, u32), Instant>,
    /// Sessions that workers will hear of with their next poll, and since when.
    terminals: HashMap<WorkerId, Vec<(TerminalOrder, Instant)>>,
}

/// All parked requests of one instance.
pub(crate) struct Dispatcher {
    store: Arc<dyn Store>,
    batcher: Batcher,
    hub: Arc<WakeHub>,
    metrics: Arc<Metrics>,
    tick: Duration,
    /// Requests that may wait at the same time.
    most: usize,
    registry: Mutex<Registry>,
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}

/// Takes a request out when its handler is dropped, that is, when the client is gone.
struct Ticket<'a> {
    dispatcher: &'a Dispatcher,
    id: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.dispatcher.remove(self.id);
    }
}

impl Dispatcher {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        batcher: Batcher,
        hub: Arc<WakeHub>,
        metrics: Arc<Metrics>,
        tick: Duration,
    ) -> Self {
        Self { store, batcher, hub, metrics, tick, most: usize::MAX, registry: Mutex::default() }
    }

    /// The same for at most so many requests that wait.
    pub(crate) fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Whether as many requests wait as may.
    pub(crate) fn is_full(&self) -> bool {
        self.registry().parked.len() >= self.most
    }

    /// Waits for work or orders for at most `wait`.
    pub(crate) async fn park(&self, waiting: Waiting, wait: Duration) -> Handed {
        // What became of prepared tasks is looked at once it waits, so that nothing happens unseen in between.
        let unseen = !waiting.prepared.is_empty();
        let missed = unseen || waiting.ask.is_some() && waiting.as_of != self.hub.work_generation();
        let Some((ticket, mut answer)) = self.enter(waiting) else { return Handed::Nothing };
        if missed {
            self.hub.poke();
        }
        match tokio::time::timeout(wait, &mut answer).await {
            Ok(handed) => handed.unwrap_or(Handed::Nothing),
            // A claim may be under way: then its answer is awaited rather than thrown away.
            Err(_) if self.expire(ticket.id) => Handed::Nothing,
            Err(_) => answer.await.unwrap_or(Handed::Nothing),
        }
    }

    /// Serves the parked requests until `stop` resolves.
    pub(crate) async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut timer = tokio::time::interval(self.tick);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            // In this order: wake-ups that never end would otherwise keep the timer from being heard.
            let everything = tokio::select! {
                biased;
                () = &mut stop => return,
                _ = timer.tick() => true,
                () = self.hub.dispatcher_wanted() => false,
            };
            self.serve_prepared(everything).await;
            self.serve_stops(everything).await;
            self.serve_work(everything).await;
        }
    }

    /// Answers all parked requests of a worker that is leaving, without jobs.
    pub(crate) fn leave(&self, worker: &WorkerId) {
        self.dismiss(|waiting| waiting.worker.as_ref() == Some(worker));
    }

    /// Answers everything and parks nothing any more.
    pub(crate) fn close(&self) {
        self.registry().closed = true;
        self.dismiss(|_| true);
    }

    /// Tells a worker that a client wants a session with a job of it: at once if it waits here, else with its next poll.
    pub(crate) fn order_terminal(&self, worker: &WorkerId, order: TerminalOrder) {
        let mut registry = self.registry();
        let concerned =
            |parked: &Parked| parked.waiting.orders && parked.waiting.worker.as_ref() == Some(worker);
        let id = registry.parked.iter().find(|(_, parked)| concerned(parked)).map(|(id, _)| *id);
        let mut left = vec![order];
        if let Some(parked) = id.and_then(|id| registry.parked.remove(&id))
            && let Err(Handed::Terminals(orders)) =
                parked.reply.send(Handed::Terminals(std::mem::take(&mut left)))
        {
            // The client is gone, and the worker asks again.
            left = orders;
        }
        let now = Instant::now();
        registry.terminals.retain(|_, orders| {
            orders.retain(|(_, since)| now.duration_since(*since) < PATIENCE);
            !orders.is_empty()
        });
        if !left.is_empty() {
            let orders = registry.terminals.entry(worker.clone()).or_default();
            orders.extend(left.into_iter().map(|order| (order, now)));
        }
    }

    /// The sessions that a worker was not told of yet.
    pub(crate) fn take_terminals(&self, worker: &WorkerId) -> Vec<TerminalOrder> {
        let mut registry = self.registry();
        if registry.terminals.is_empty() {
            return Vec::new();
        }
        let orders = registry.terminals.remove(worker).unwrap_or_default();
        orders.into_iter().filter(|(_, since)| since.elapsed() < PATIENCE).map(|(order, _)| order).collect()
    }

    /// The orders among `jobs` that were not handed over a moment ago, now noted as handed over.
    pub(crate) fn fresh(&self, jobs: Vec<Job>) -> Vec<Job> {
        if jobs.is_empty() {
            return jobs;
        }
        let now = Instant::now();
        let mut registry = self.registry();
        let tick = self.tick;
        if registry.delivered.len() > MAX_DELIVERED {
            registry.delivered.retain(|_, at| now.duration_since(*at) < tick);
        }
        let is_fresh = |job: &Job| {
            let previous = registry.delivered.insert((job.id, job.preemption_epoch), now);
            let recent = previous.filter(|at| now.duration_since(*at) < tick);
            if let Some(at) = recent {
                registry.delivered.insert((job.id, job.preemption_epoch), at);
            }
            recent.is_none()
        };
        jobs.into_iter().filter(is_fresh).collect()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, waiting: Waiting) -> Option<(Ticket<'_>, oneshot::Receiver<Handed>)> {
        let (reply, answer) = oneshot::channel();
        let mut registry = self.registry();
        if registry.closed {
            return None;
        }
        // An order that came after the request had looked for some; it comes right back for it.
        if let Some(worker) = waiting.worker.as_ref().filter(|_| waiting.orders)
            && registry.terminals.contains_key(worker)
        {
            return None;
        }
        let id = registry.next;
        registry.next += 1;
        let unseen = !waiting.prepared.is_empty();
        registry.parked.insert(id, Parked { waiting, reply, unseen, asking: false, expired: false });
        self.metrics.parked.set(registry.parked.len() as i64);
        Some((Ticket { dispatcher: self, id }, answer))
    }

    fn remove(&self, id: u64) -> Option<Parked> {
        let mut registry = self.registry();
        let parked = registry.parked.remove(&id);
        self.metrics.parked.set(registry.parked.len() as i64);
        parked
    }

    /// Whether the request could be taken out; otherwise it is answered as soon as its claim is.
    fn expire(&self, id: u64) -> bool {
        let mut registry = self.registry();
        match registry.parked.get_mut(&id) {
            // Not there any more: its answer is on the way.
            None => return false,
            Some(parked) if parked.asking => {
                parked.expired = true;
                return false;
            }
            Some(_) => {}
        }
        registry.parked.remove(&id);
        true
    }

    fn dismiss(&self, concerns: impl Fn(&Waiting) -> bool) {
        let mut registry = self.registry();
        let mut gone = Vec::new();
        for (id, parked) in &mut registry.parked {
            if concerns(&parked.waiting) {
                parked.expired = true;
                if !parked.asking {
                    gone.push(*id);
                }
            }
        }
        for id in gone {
            if let Some(parked) = registry.parked.remove(&id) {
                let _ = parked.reply.send(Handed::Nothing);
            }
        }
    }

    /// Claims for every request that has not seen the newest generation of work.
    async fn serve_work(&self, everything: bool) {
        if everything {
            self.distrust();
        }
        loop {
            let (ids, commands) = self.collect_asks();
            if ids.is_empty() {
                return;
            }
            let Ok(delivery) = self.batcher.submit(commands).await else {
                // The safety tick tries again; the store's trouble is logged where it happens.
                for id in ids {
                    self.settle(id);
                }
                return;
            };
            for (id, one) in ids.into_iter().zip(delivery.split()) {
                self.answer(id, one);
            }
        }
    }

    /// Lets every claim look as if it had missed a wake-up.
    fn distrust(&self) {
        let older = self.hub.work_generation().wrapping_sub(1);
        self.registry().parked.values_mut().for_each(|parked| parked.waiting.as_of = older);
    }

    fn collect_asks(&self) -> (Vec<u64>, Vec<Command>) {
        let generation = self.hub.work_generation();
        let mut registry = self.registry();
        let (mut ids, mut commands) = (Vec::new(), Vec::new());
        for (id, parked) in &mut registry.parked {
            let Some(ask) = &parked.waiting.ask else { continue };
            if parked.waiting.as_of == generation || parked.reply.is_closed() {
                continue;
            }
            parked.waiting.as_of = generation;
            parked.asking = true;
            ids.push(*id);
            commands.push(Command::Claim(ask.clone()));
            if ids.len() == CLAIMS_AT_ONCE {
                break;
            }
        }
        (ids, commands)
    }

    /// Passes the answer of a claim on, or lets the request wait further when there was nothing.
    fn answer(&self, id: u64, delivery: Delivery) {
        if !delivery.has_jobs() {
            self.settle(id);
            return;
        }
        if let Some(parked) = self.remove(id) {
            // When the client is gone the delivery is dropped, which hands the jobs back.
            let _ = parked.reply.send(Handed::Work(delivery));
        }
    }

    /// The claim is answered and brought nothing.
    fn settle(&self, id: u64) {
        let mut registry = self.registry();
        let Some(parked) = registry.parked.get_mut(&id) else { return };
        parked.asking = false;
        if parked.expired
            && let Some(parked) = registry.parked.remove(&id)
        {
            let _ = parked.reply.send(Handed::Nothing);
        }
    }

    /// Hands stop orders to the parked syncs of the workers they concern.
    async fn serve_stops(&self, everything: bool) {
        let workers = self.awaiting_orders(everything);
        if workers.is_empty() {
            return;
        }
        for worker in &workers {
            self.hub.unflag(worker);
        }
        let jobs = match self.store.stops(workers).await {
            Ok(jobs) => jobs,
            Err(error) => {
                self.metrics.store_error();
                tracing::warn!(%error, "stop orders could not be read");
                return;
            }
        };
        let mut by_worker: BTreeMap<WorkerId, Vec<Job>> = BTreeMap::new();
        for job in self.fresh(jobs) {
            if let Some(worker) = job.worker().cloned() {
                by_worker.entry(worker).or_default().push(job);
            }
        }
        for (worker, jobs) in by_worker {
            self.hand_stops(&worker, jobs);
        }
    }

    /// Answers the parked syncs of workers whose prepared tasks start, stop or are taken back.
    async fn serve_prepared(&self, everything: bool) {
        let flagged = self.hub.take_flagged();
        let wanted: Vec<(u64, Vec<Leased>)> = {
            let mut registry = self.registry();
            let concerned =
                registry.parked.iter_mut().filter(|(_, parked)| !parked.waiting.prepared.is_empty());
            concerned
                .filter_map(|(id, parked)| {
                    let unseen = std::mem::take(&mut parked.unseen);
                    let ordered =
                        parked.waiting.worker.as_ref().is_some_and(|worker| flagged.contains(worker));
                    (everything || unseen || ordered).then(|| (*id, parked.waiting.prepared.clone()))
                })
                .collect()
        };
        if wanted.is_empty() {
            return;
        }
        let ids: BTreeSet<JobId> =
            wanted.iter().flat_map(|(_, tasks)| tasks.iter().map(|(id, _)| *id)).collect();
        let jobs = match self.store.states(ids.into_iter().collect()).await {
            Ok(jobs) => jobs,
            // The safety tick looks again, and the worker asks again.
            Err(error) => {
                self.metrics.store_error();
                tracing::warn!(%error, "prepared tasks could not be read");
                return;
            }
        };
        let jobs: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
        for (id, tasks) in wanted {
            let changed: Vec<_> = tasks.into_iter().filter_map(|task| changed(task, &jobs)).collect();
            if changed.is_empty() {
                continue;
            }
            if let Some(parked) = self.remove(id) {
                // When the client is gone, it asks again.
                let _ = parked.reply.send(Handed::Changed(changed));
            }
        }
    }

    fn awaiting_orders(&self, everything: bool) -> Vec<WorkerId> {
        let registry = self.registry();
        let waiting = registry.parked.values().map(|parked| &parked.waiting).filter(|waiting| waiting.orders);
        let mut workers: Vec<WorkerId> = waiting.filter_map(|waiting| waiting.worker.clone()).collect();
        drop(registry);
        workers.sort();
        workers.dedup();
        workers.retain(|worker| everything || self.hub.is_flagged(worker));
        workers
    }

    fn hand_stops(&self, worker: &WorkerId, jobs: Vec<Job>) {
        let mut registry = self.registry();
        let concerned =
            |parked: &Parked| parked.waiting.orders && parked.waiting.worker.as_ref() == Some(worker);
        let Some(id) = registry.parked.iter().find(|(_, parked)| concerned(parked)).map(|(id, _)| *id) else {
            return;
        };
        let Some(parked) = registry.parked.remove(&id) else { return };
        if let Err(Handed::Stops(jobs)) = parked.reply.send(Handed::Stops(jobs)) {
            // The client is gone: the orders are as fresh as before.
            for job in jobs {
                registry.delivered.remove(&(job.id, job.preemption_epoch));
            }
        }
    }
}

/// What became of a prepared task; `None` while it waits for the others of its round.
fn changed((id, lease): Leased, jobs: &HashMap<JobId, Job>) -> Option<(Leased, Option<Job>)> {
    let job = jobs.get(&id).filter(|job| job.lease == lease && job.is_leased());
    match job {
        Some(job) if job.preparation().is_some() => None,
        job => Some(((id, lease), job.cloned())),
    }
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
