//! Quotas and limits of trees of queues, counted from the jobs that hold room.
//!
//! Guarantee: who starts jobs of a tree holds its lock from before the count until the end of the transaction.
//! The rows of queues are locked before their trees, and a change of trees locks all rows that it concerns
//! first, so that nobody holds a tree while it waits for a row of it.

use std::collections::{BTreeSet, HashMap, HashSet};

use muster_domain::queue_tree::{self, Queues, way_up};
use muster_domain::{
    Event, EventKind, Queue, QueueName, Rejection, Resources, Shape, ShapeId, Status, Worker, WorkerId,
};
use muster_planner::{Gate, Held, Ledger};

use super::gates::Look;
use super::roster::Roster;
use super::work::Work;
use crate::command::QueueSettings;
use crate::error::StoreError;
use crate::query::JobFilter;
use crate::tx::Tx;

/// What is locked by whoever changes which queue is below which. No queue has this name.
const STRUCTURE: &str = "";

/// The quotas and limits in front of the pending shapes.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    pub(super) ledger: Option<Ledger>,
    /// Limits on what runs, by queue and by user of a queue.
    running: HashMap<QueueName, Vec<usize>>,
    users: HashMap<(QueueName, String), Vec<usize>>,
}

/// Queues that belong together, and what runs in them and in the others that are in play.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) queues: Queues,
    held: Vec<(Shape, u32)>,
}

/// Where it is read who holds what.
#[derive(Debug)]
pub(super) enum Holders<'r> {
    /// From the rows.
    Rows,
    /// From what this scheduler remembers, brought up to date.
    Roster(&'r Roster),
}

/// All queues of these trees.
pub(super) async fn trees<T: Tx>(
    tx: &mut T,
    roots: &[QueueName],
    look: Look,
) -> Result<Vec<Queue>, StoreError> {
    if look == Look::Lock {
        return tx.lock_trees(roots).await;
    }
    let mut queues = tx.queues().await?;
    queues.retain(|queue| queue.tree.as_ref().is_some_and(|root| roots.contains(root)));
    Ok(queues)
}

impl Counted {
    /// Counts what runs in these queues and in the others that are named.
    pub(super) async fn read<T: Tx>(
        tx: &mut T,
        holders: &Holders<'_>,
        queues: &[Queue],
        others: impl Iterator<Item = QueueName>,
    ) -> Result<Self, StoreError> {
        let names: BTreeSet<QueueName> =
            queues.iter().map(|queue| queue.name.clone()).chain(others).collect();
        let held = match holders {
            Holders::Rows => with_shapes(tx, &names.into_iter().collect::<Vec<_>>()).await?,
            Holders::Roster(roster) => {
                let named = |shape: &Shape| shape.queue.as_ref().is_some_and(|queue| names.contains(queue));
                let held = roster.held().filter(|(shape, _)| named(shape));
                held.map(|(shape, jobs)| (shape.clone(), jobs)).collect()
            }
        };
        let queues = queues.iter().map(|queue| (queue.name.clone(), queue.clone())).collect();
        Ok(Self { queues, held })
    }

    /// How many jobs run in a queue and all below it; of one user, or of all.
    pub(super) fn running(&self, queue: &QueueName, user: Option<&str>) -> u32 {
        let counts = |shape: &Shape| {
            user.is_none_or(|user| shape.user.as_deref() == Some(user))
                && shape.queue.as_ref().is_some_and(|name| way_up(&self.queues, name).contains(&queue))
        };
        self.held.iter().filter(|(shape, _)| counts(shape)).map(|(_, jobs)| jobs).sum()
    }

    pub(super) fn ledger(&self, more: &[Held]) -> Ledger {
        let queues: Vec<Queue> = self.queues.values().cloned().collect();
        let held = self.held.iter().map(|(shape, jobs)| held(shape, *jobs));
        Ledger::new(&queues, &held.chain(more.iter().cloned()).collect::<Vec<_>>())
    }
}

fn held(shape: &Shape, jobs: u32) -> Held {
    Held { queue: shape.queue.clone(), need: shape.requirement.resources.clone(), fixed: shape.fixed, jobs }
}

async fn with_shapes<T: Tx>(tx: &mut T, queues: &[QueueName]) -> Result<Vec<(Shape, u32)>, StoreError> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let counts = tx.held_by_queue(queues).await?;
    let ids: Vec<ShapeId> = counts.iter().map(|(shape, _)| *shape).collect();
    let mut shapes: HashMap<ShapeId, Shape> = match ids.as_slice() {
        [] => HashMap::new(),
        ids => tx.shapes(ids).await?.into_iter().collect(),
    };
    Ok(counts.into_iter().filter_map(|(id, jobs)| Some((shapes.remove(&id)?, jobs))).collect())
}

impl Quotas {
    /// Reads what these trees leave to the shapes in play; limits are added to `limits`.
    pub(super) async fn read<'s, T: Tx>(
        tx: &mut T,
        holders: &Holders<'_>,
        tree: &[Queue],
        shapes: impl Iterator<Item = &'s Shape> + Clone,
        limits: &mut Vec<u32>,
    ) -> Result<Self, StoreError> {
        let shares = tree.iter().any(|queue| queue.terms.shares());
        let others = shapes.clone().filter(|_| shares).filter_map(|shape| shape.queue.clone());
        let counted = Counted::read(tx, holders, tree, others).await?;
        let mut quotas = Self::default();
        quotas.limit(&counted, shapes.clone(), limits);
        if shares {
            quotas.ledger = Some(measured(tx, holders, &counted, shapes).await?);
        }
        Ok(quotas)
    }

    fn limit<'s>(
        &mut self,
        counted: &Counted,
        shapes: impl Iterator<Item = &'s Shape>,
        limits: &mut Vec<u32>,
    ) {
        let mut seen: HashMap<(&QueueName, Option<&str>), usize> = HashMap::new();
        let mut done: HashSet<(&QueueName, Option<&str>)> = HashSet::new();
        let mut place = |queue: &QueueName, user: Option<&str>, limit: u32| {
            limits.push(limit.saturating_sub(counted.running(queue, user)));
            limits.len() - 1
        };
        for shape in shapes {
            let Some(name) = &shape.queue else { continue };
            let user = shape.user.as_deref();
            for above in way_up(&counted.queues, name) {
                let Some((above, queue)) = counted.queues.get_key_value(above) else { continue };
                if let Some(limit) = queue.terms.max_running.filter(|_| !done.contains(&(name, None))) {
                    let at = *seen.entry((above, None)).or_insert_with(|| place(above, None, limit));
                    self.running.entry(name.clone()).or_default().push(at);
                }
                let limit = queue.terms.max_running_per_user.zip(user);
                if let Some((limit, user)) = limit.filter(|(_, user)| !done.contains(&(name, Some(user)))) {
                    let at =
                        *seen.entry((above, Some(user))).or_insert_with(|| place(above, Some(user), limit));
                    self.users.entry((name.clone(), user.to_owned())).or_default().push(at);
                }
            }
            done.insert((name, None));
            done.insert((name, user));
        }
    }

    /// The limits on what runs that a start of such a job counts against.
    pub(super) fn limits_of(&self, shape: &Shape) -> Vec<usize> {
        let Some(queue) = shape.queue.as_ref().filter(|_| !self.running.is_empty() || !self.users.is_empty())
        else {
            return Vec::new();
        };
        let running = self.running.get(queue).into_iter().flatten();
        let user = shape.user.as_ref().and_then(|user| self.users.get(&(queue.clone(), user.clone())));
        running.chain(user.into_iter().flatten()).copied().collect()
    }

    /// How many jobs of this shape the quota lets start; `None` where there is none.
    pub(super) fn room(&self, shape: &Shape) -> Option<u32> {
        let ledger = self.ledger.as_ref()?;
        let seat = ledger.seat(shape.queue.as_ref())?;
        Some(ledger.room(seat, &ledger.row(&shape.requirement.resources), shape.fixed))
    }

    pub(super) fn take(&mut self, shape: &Shape, jobs: u32) {
        let Some(ledger) = self.ledger.as_mut() else { return };
        let seat = ledger.seat_or_add(shape.queue.as_ref());
        ledger.take(seat, &ledger.row(&shape.requirement.resources), shape.fixed, jobs);
    }
}

/// A ledger in which the shares of the queues in play can be compared: with what the workers have, and with
/// what jobs without a queue hold, where that matters.
async fn measured<'s, T: Tx>(
    tx: &mut T,
    holders: &Holders<'_>,
    counted: &Counted,
    shapes: impl Iterator<Item = &'s Shape> + Clone,
) -> Result<Ledger, StoreError> {
    let playing: HashSet<Option<&QueueName>> = shapes.clone().map(|shape| shape.queue.as_ref()).collect();
    let mut ledger = counted.ledger(&[]);
    if playing.len() > 1 && !shapes.clone().all(|shape| is_bounded(&ledger, shape)) {
        if playing.contains(&None) {
            ledger = counted.ledger(&without_queue(tx, holders).await?);
        }
        ledger = match holders {
            Holders::Rows => ledger.with_capacity(tx.workers().await?.iter().map(has)),
            Holders::Roster(roster) => ledger.with_capacity(roster.workers().map(has)),
        };
    }
    for queue in playing {
        ledger.seat_or_add(queue);
    }
    Ok(ledger)
}

fn has(worker: &Worker) -> (&Resources, Option<u32>) {
    (&worker.resources, worker.slots)
}

/// Whether quotas bound all that such a job needs, so that its share is measured by them.
fn is_bounded(ledger: &Ledger, shape: &Shape) -> bool {
    let need = ledger.row(&shape.requirement.resources);
    let counted = shape.requirement.resources != Resources::default();
    counted && ledger.seat(shape.queue.as_ref()).is_some_and(|seat| ledger.bounds_all(seat, &need))
}

async fn without_queue<T: Tx>(tx: &mut T, holders: &Holders<'_>) -> Result<Vec<Held>, StoreError> {
    if let Holders::Roster(roster) = holders {
        let without = roster.held().filter(|(shape, _)| shape.queue.is_none());
        return Ok(without.map(|(shape, jobs)| held(shape, jobs)).collect());
    }
    let workers: Vec<WorkerId> = tx.workers().await?.into_iter().map(|worker| worker.id).collect();
    if workers.is_empty() {
        return Ok(Vec::new());
    }
    let usage = tx.usage(&workers).await?;
    let mut by_shape: HashMap<ShapeId, u32> = HashMap::new();
    for usage in usage {
        *by_shape.entry(usage.shape).or_default() += usage.jobs;
    }
    let ids: Vec<ShapeId> = by_shape.keys().copied().collect();
    let shapes = if ids.is_empty() { Vec::new() } else { tx.shapes(&ids).await? };
    let without = shapes.into_iter().filter(|(_, shape)| shape.queue.is_none());
    Ok(without.map(|(id, shape)| held(&shape, by_shape.get(&id).copied().unwrap_or(0))).collect())
}

/// Changes a queue: the parents that it names are made, and all queues of its tree are told of each other.
pub(super) async fn put_queue<T: Tx>(
    work: &mut Work<'_, T>,
    settings: &QueueSettings,
) -> Result<Result<Queue, Rejection>, StoreError> {
    work.tx.lock_trees(&[QueueName::new(STRUCTURE)]).await?;
    let before: Queues =
        work.tx.queues().await?.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
    let mut after = before.clone();
    let mut changed =
        before.get(&settings.name).cloned().unwrap_or_else(|| Queue::new(settings.name.clone()));
    settings.apply(&mut changed);
    if let Err(rejection) = queue_tree::put(&mut after, changed) {
        return Ok(Err(rejection));
    }
    let touched: Vec<QueueName> = after
        .values()
        .filter(|queue| queue.name == settings.name || before.get(&queue.name) != Some(queue))
        .map(|queue| queue.name.clone())
        .collect();
    // Starts change the tokens of a queue meanwhile: what is written is made of what is locked.
    let locked: Queues =
        work.tx.lock_queues(&touched).await?.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
    let roots = touched.iter().flat_map(|name| [before.get(name), after.get(name)]);
    let roots: BTreeSet<QueueName> = roots.flatten().filter_map(|queue| queue.tree.clone()).collect();
    if !roots.is_empty() {
        work.tx.lock_trees(&roots.into_iter().collect::<Vec<_>>()).await?;
    }
    let mut written: Vec<Queue> = Vec::new();
    for name in &touched {
        let Some(wanted) = after.remove(name) else { continue };
        let mut queue = locked.get(name).cloned().unwrap_or_else(|| Queue::new(name.clone()));
        if *name == settings.name {
            settings.apply(&mut queue);
        }
        queue.tree = wanted.tree;
        written.push(queue);
    }
    work.tx.put_queues(&written).await?;
    work.note(Event::of_all(work.now, EventKind::QueueChanged));
    let own = written.into_iter().find(|queue| queue.name == settings.name);
    Ok(Ok(own.unwrap_or_else(|| Queue::new(settings.name.clone()))))
}

/// Forgets a queue, unless jobs are in it or other queues below it.
pub(super) async fn remove_queue<T: Tx>(
    work: &mut Work<'_, T>,
    name: &QueueName,
) -> Result<Result<Queue, Rejection>, StoreError> {
    work.tx.lock_trees(&[QueueName::new(STRUCTURE)]).await?;
    let queues = work.tx.queues().await?;
    let below = |queue: &&Queue| queue.terms.parent.as_ref() == Some(name);
    if let Some(child) = queues.iter().find(below) {
        let (queue, child) = (name.clone(), child.name.clone());
        return Ok(Err(Rejection::QueueHasQueues { queue, child }));
    }
    work.flush().await?;
    let statuses = Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
    let unfinished =
        JobFilter { statuses, queue: Some(name.clone()), limit: Some(1), ..JobFilter::default() };
    if let Some(job) = work.tx.list_jobs(&unfinished).await?.pop() {
        return Ok(Err(Rejection::QueueHasJobs { queue: name.clone(), job: job.id }));
    }
    let Some(queue) = work.tx.lock_queues(std::slice::from_ref(name)).await?.pop() else {
        return Ok(Err(Rejection::QueueNotFound { queue: name.clone() }));
    };
    work.tx.delete_queues(std::slice::from_ref(name)).await?;
    work.note(Event::of_all(work.now, EventKind::QueueChanged));
    Ok(Ok(queue))
}

/// What a job of this shape faces in the tree of its queue: the limits on what runs, the queues, and what runs in them.
pub(super) async fn facing<T: Tx>(
    tx: &mut T,
    shape: &Shape,
) -> Result<(Vec<Gate>, Vec<Queue>, Vec<Held>), StoreError> {
    let nothing = (Vec::new(), Vec::new(), Vec::new());
    let Some(name) = &shape.queue else { return Ok(nothing) };
    let queues = tx.queues().await?;
    let root = queues.iter().find(|queue| queue.name == *name).and_then(|queue| queue.tree.clone());
    let Some(root) = root else { return Ok(nothing) };
    let tree: Vec<Queue> = queues.into_iter().filter(|queue| queue.tree.as_ref() == Some(&root)).collect();
    let counted = Counted::read(tx, &Holders::Rows, &tree, std::iter::empty()).await?;
    let mut gates = Vec::new();
    for above in way_up(&counted.queues, name) {
        let Some(queue) = counted.queues.get(above) else { continue };
        if let Some(limit) = queue.terms.max_running {
            let running = counted.running(above, None);
            gates.push(Gate::Running { queue: above.clone(), running, limit });
        }
        if let (Some(limit), Some(user)) = (queue.terms.max_running_per_user, &shape.user) {
            let running = counted.running(above, Some(user));
            gates.push(Gate::UserRunning { queue: above.clone(), user: user.clone(), running, limit });
        }
    }
    let held = counted.held.iter().map(|(shape, jobs)| held(shape, *jobs)).collect();
    Ok((gates, tree, held))
}
