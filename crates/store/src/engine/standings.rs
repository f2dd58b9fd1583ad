//! How queues stand: what each uses, has lent and borrowed, its share, and whose work goes first.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{Amounts, Job, Queue, QueueName, Reason, Shape, ShapeId, ShareOf, Timestamp};
use muster_planner::{Contender, Ledger, Turns};

use super::Policies;
use super::gates::Look;
use super::quotas::{self, Counted, Holders, Quotas};
use crate::error::StoreError;
use crate::query::QueueStanding;
use crate::tx::Tx;

/// The most queues that are named as going first.
const NAMED: usize = 5;

/// Every queue that was set, with what it uses.
pub(super) async fn all<T: Tx>(tx: &mut T) -> Result<Vec<QueueStanding>, StoreError> {
    let queues = tx.queues().await?;
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let counted = Counted::read(tx, &Holders::Rows, &queues, std::iter::empty()).await?;
    let workers = tx.workers().await?;
    let capacity = workers.iter().map(|worker| (&worker.resources, worker.slots));
    let ledger = counted.ledger(&[]).with_capacity(capacity);
    Ok(queues.into_iter().map(|queue| standing(&ledger, queue)).collect())
}

fn standing(ledger: &Ledger, queue: Queue) -> QueueStanding {
    let seat = ledger.seat(Some(&queue.name));
    let amounts = |of: &dyn Fn(usize) -> Amounts| seat.map(of).unwrap_or_default();
    QueueStanding {
        used: amounts(&|seat| ledger.used(seat)),
        used_below: amounts(&|seat| ledger.used_below(seat)),
        borrowed: amounts(&|seat| ledger.over_quota(seat)),
        lent: amounts(&|seat| ledger.lent(seat)),
        share: seat.map_or(0, |seat| ledger.share_of(seat).share),
        running_below: seat.map_or(0, |seat| ledger.jobs(seat).1),
        queue,
    }
}

/// What a job's own standing does to its place in the line.
pub(super) fn of_job(policies: &Policies, job: &Job) -> Vec<Reason> {
    let at = policies.pool_of(&job.spec.tags);
    let policy = policies.at(at);
    let pool = policies
        .named(at)
        .map(|pool| Reason::Pool { name: pool.name.clone(), policy: policy.name.as_str().to_owned() });
    // A job that waits has had what it had: the time does not matter.
    let level = policy.level_of(job, Timestamp::default());
    let standing = match (policy.is_fair(), job.pinned, level) {
        (false, ..) | (true, false, 0) => None,
        (true, true, _) => Some(Reason::Pinned { since: job.ready_at - job.waited }),
        (true, false, level) => Some(Reason::Level { level, served: job.served }),
    };
    pool.into_iter().chain(standing).collect()
}

/// How many jobs of each user wait in these queues.
pub(super) async fn waiting_by_user<T: Tx>(
    tx: &mut T,
    queues: &[QueueName],
) -> Result<BTreeMap<(QueueName, String), u64>, StoreError> {
    let pending = tx.pending_shapes().await?.into_iter();
    let named = |shape: &Shape| shape.queue.as_ref().is_some_and(|queue| queues.contains(queue));
    let pending: Vec<ShapeId> = pending.filter(|(_, shape)| named(shape)).map(|(id, _)| id).collect();
    let counts = tx.waiting_by_shape(&pending, queues).await?;
    let ids: BTreeSet<ShapeId> = counts.iter().map(|(shape, _)| *shape).collect();
    let ids: Vec<ShapeId> = ids.into_iter().collect();
    let shapes = if ids.is_empty() { Vec::new() } else { tx.shapes(&ids).await? };
    let shapes: BTreeMap<ShapeId, Shape> = shapes.into_iter().collect();
    let mut users: BTreeMap<(QueueName, String), u64> = BTreeMap::new();
    for (shape, jobs) in counts {
        let Some(shape) = shapes.get(&shape) else { continue };
        if let (Some(queue), Some(user)) = (&shape.queue, &shape.user) {
            *users.entry((queue.clone(), user.clone())).or_default() += jobs;
        }
    }
    Ok(users)
}

/// `None` where queues do not take turns; else the queues whose work goes before this job, if there are any.
pub(super) async fn in_turn<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    job: &Job,
) -> Result<Option<Option<Reason>>, StoreError> {
    let queues = tx.queues().await?;
    let roots: BTreeSet<QueueName> = queues.iter().filter_map(|queue| queue.tree.clone()).collect();
    if roots.is_empty() {
        return Ok(None);
    }
    let mut shapes: Vec<Shape> = tx.pending_shapes().await?.into_iter().map(|(_, shape)| shape).collect();
    let own = job.spec.shape();
    shapes.push(own.clone());
    let playing = |queue: &Queue| shapes.iter().any(|shape| shape.queue.as_ref() == Some(&queue.name));
    let roots: BTreeSet<QueueName> =
        queues.iter().filter(|queue| playing(queue)).filter_map(|queue| queue.tree.clone()).collect();
    if roots.is_empty() {
        return Ok(None);
    }
    let tree = quotas::trees(tx, &roots.into_iter().collect::<Vec<_>>(), Look::Peek).await?;
    let quotas = Quotas::read(tx, &Holders::Rows, &tree, shapes.iter(), &mut Vec::new()).await?;
    let Some(ledger) = quotas.ledger else { return Ok(None) };
    let pool = policies.pool_of(&job.spec.tags);
    shapes.retain(|shape| policies.pool_of(&shape.requirement.tags) == pool);
    shapes.retain(|shape| quotas_leave_room(&ledger, shape));
    Ok(Some(first(&ledger, policies, &own, &shapes)))
}

fn quotas_leave_room(ledger: &Ledger, shape: &Shape) -> bool {
    ledger
        .seat(shape.queue.as_ref())
        .is_some_and(|seat| ledger.room(seat, &ledger.row(&shape.requirement.resources), shape.fixed) > 0)
}

/// The queues whose waiting work would go before such a job if it were of the same priority and younger.
fn first(ledger: &Ledger, policies: &Policies, own: &Shape, waiting: &[Shape]) -> Option<Reason> {
    let seat = ledger.seat(own.queue.as_ref())?;
    let contender = |shape: &Shape, age: u64| {
        let seat = ledger.seat(shape.queue.as_ref())?;
        let need = ledger.row(&shape.requirement.resources);
        let pool = policies.pool_of(&shape.requirement.tags);
        Some(Contender { seat, pool, priority: 0, rank: 0, age, need, jobs: 1 })
    };
    let own = contender(own, 0)?;
    let mut before: BTreeMap<usize, ShareOf> = BTreeMap::new();
    for other in waiting.iter().filter_map(|shape| contender(shape, 1)).filter(|other| other.seat != seat) {
        let at = other.seat;
        if Turns::new(vec![own.clone(), other], policies).next(ledger, |_| false) == Some(1) {
            before.entry(at).or_insert_with(|| ledger.share_of(at));
        }
    }
    let mut first: Vec<ShareOf> = before.into_values().collect();
    first.sort_by_key(|one| one.share);
    first.truncate(NAMED);
    (!first.is_empty()).then(|| Reason::Share { own: ledger.share_of(seat), first })
}
