//! The cluster as a whole: what is read for it, and the question to the pure planner.
//!
//! Guarantee: work that waits is read by shape, the first job of each, and counted; how many jobs wait does not
//! matter. What runs is read once, for estimates.

use std::collections::HashMap;

use muster_domain::{Concurrency, Job, Overview, QueueName, ShapeId, Status, Timestamp, WaitingCause};
use muster_planner::{Case, Facing, Waiter, overview};

use super::gates::Gates;
use super::{Policies, outlook, plan, why};
use crate::error::StoreError;
use crate::tx::Tx;

/// Shapes that are looked at, those with most jobs first.
const SHAPES: usize = 200;

/// Gangs that are looked at.
const GANGS: usize = 200;

pub(super) async fn read<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    now: Timestamp,
) -> Result<Overview, StoreError> {
    let mut known = Known::default();
    let (mut waiters, not_looked_at) = singles(tx, &mut known, policies, now).await?;
    let gangs = tx.waiting_gangs(GANGS).await?;
    let tasks: u64 = gangs.iter().map(|gang| u64::from(gang.tasks)).sum();
    for gang in gangs.iter().filter(|gang| gang.first.hold.is_none() && gang.first.ready_at <= now) {
        let Some(unit) = plan::candidate(gang, &Gates::default(), policies, now) else { continue };
        let facing = known.facing(tx, &gang.first, unit.least, now).await?;
        let (queue, user) = (gang.first.spec.queue.clone(), gang.first.spec.user.clone());
        waiters.push(Waiter { unit, count: 1, queue, user, facing });
    }
    // What is free of GPUs is told whether or not somebody wants them.
    let (workers, aside) = why::all_workers(tx).await?;
    let mut case = Case { aside, policies: policies.clone(), ..Case::around(workers, now) };
    if !waiters.is_empty() {
        why::read_occupants(tx, &mut case).await?;
    }
    let mut found = overview(case, waiters);
    found.not_looked_at = not_looked_at;
    add_states(tx, &mut found, tasks).await?;
    Ok(found)
}

/// The first job of each shape that has pending ones, with their number; and how many jobs were left out.
async fn singles<T: Tx>(
    tx: &mut T,
    known: &mut Known,
    policies: &Policies,
    now: Timestamp,
) -> Result<(Vec<Waiter>, u64), StoreError> {
    let pending: Vec<ShapeId> = tx.pending_shapes().await?.into_iter().map(|(id, _)| id).collect();
    if pending.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let mut counts = tx.waiting_by_shape(&pending, &[]).await?;
    counts.sort_by_key(|(shape, jobs)| (std::cmp::Reverse(*jobs), *shape));
    let left_out = counts.split_off(counts.len().min(SHAPES)).iter().map(|(_, jobs)| jobs).sum();
    let shapes: Vec<ShapeId> = counts.iter().map(|(shape, _)| *shape).collect();
    let counts: HashMap<ShapeId, u64> = counts.into_iter().collect();
    let mut waiters = Vec::with_capacity(shapes.len());
    for job in tx.heads(&shapes).await? {
        let unit = outlook::single(&job, policies, now);
        let facing = known.facing(tx, &job, 1, now).await?;
        let count = counts.get(&job.shape).copied().unwrap_or(1);
        let (queue, user) = (job.spec.queue.clone(), job.spec.user.clone());
        waiters.push(Waiter { unit, count, queue, user, facing });
    }
    Ok((waiters, left_out))
}

/// What gates depend on: the queue, the user, the key, and how many are to start at once.
type Before = (Option<QueueName>, Option<String>, Option<Concurrency>, u32);

/// Gates that were read already.
#[derive(Default)]
struct Known(HashMap<Before, Facing>);

impl Known {
    async fn facing<T: Tx>(
        &mut self,
        tx: &mut T,
        job: &Job,
        jobs: u32,
        now: Timestamp,
    ) -> Result<Facing, StoreError> {
        let spec = &job.spec;
        let before = (spec.queue.clone(), spec.user.clone(), spec.concurrency.clone(), jobs);
        if let Some(facing) = self.0.get(&before) {
            return Ok(facing.clone());
        }
        let facing = why::facing(tx, job, jobs, now).await?;
        self.0.insert(before, facing.clone());
        Ok(facing)
    }
}

/// Adds those that wait for something else than room, of which only the number is known.
async fn add_states<T: Tx>(tx: &mut T, found: &mut Overview, tasks: u64) -> Result<(), StoreError> {
    let counts = tx.counts().await?;
    let of = |status: Status| counts.jobs.get(&status).copied().unwrap_or(0);
    let states = [
        ("not_before", of(Status::Delayed)),
        ("held", of(Status::Held)),
        // Tasks of gangs that wait for their placement are blocked too.
        ("dependency", of(Status::Blocked).saturating_sub(tasks)),
    ];
    let more = states.into_iter().filter(|(_, jobs)| *jobs > 0);
    found.waiting.extend(more.map(|(code, jobs)| WaitingCause { code, jobs, gangs: 0, example: None }));
    Ok(())
}
