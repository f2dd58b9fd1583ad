//! Ageing in the running scheduler: who has waited for very long is pinned, and goes first in its priority.
//!
//! Guarantees: by the rules of [`muster_planner::policy`], as on the board; what is pinned of a pool holds no more
//! than its part of the workers of that pool, but one may always be; what cannot start at all, or may not by the gates of its queue, is
//! not pinned and does not count.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{GangId, Job, JobId, PoolAt, Shape, Span, Timestamp};
use muster_planner::WorkerView;
use muster_planner::policy::{Policies, Policy};

use super::gates::{Gates, Look};
use super::plan::eligible;
use super::work::Work;
use crate::command::PlanPass;
use crate::error::StoreError;
use crate::tx::{Tx, WaitingGang};

/// Lines of pending jobs whose first is looked at.
const LINES: usize = 1_024;
/// While nobody has waited for very long, it is looked for no more often than this, but when the time of a known
/// one comes.
const QUIET: Span = Span::from_secs(10);
/// The most that are pinned in one pass.
const AT_ONCE: usize = 16;

/// Pins and unpins what is due; whether anything was.
pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    pass: &PlanPass,
    gangs: &[WaitingGang],
) -> Result<bool, StoreError> {
    let (policies, now) = (work.policies, work.now);
    if !policies.all().any(|pool| policies.at(pool).is_fair()) {
        return Ok(false);
    }
    if now < work.roster.ageing_due {
        return Ok(false);
    }
    let known = work.tx.pinned_jobs().await?.into_iter().filter(|job| policies.of(job).is_fair());
    let (pinned, over): (Vec<Job>, Vec<Job>) = known.partition(|job| policies.of(job).is_pinned(job, now));
    let chosen = choose(work, pass, gangs, &pinned).await?;
    let over: Vec<JobId> = over.iter().map(|job| job.id).collect();
    let due = chosen.iter().chain(&over).copied();
    work.lock_whole(due.clone()).await?;
    for id in due {
        let gang = work.job(id).ok().and_then(|job| job.spec.gang.as_ref().map(|gang| gang.id));
        let tasks = gang.map(|gang| work.tasks_of(gang)).unwrap_or_default();
        for task in tasks.iter().map(|task| task.id).chain([id]) {
            work.pin(task, !over.contains(&id));
        }
    }
    Ok(!(chosen.is_empty() && over.is_empty()))
}

/// Those that have waited for very long and may be pinned, the first in the line first. Of each line only the
/// first can be among them: the others go behind it anyway.
async fn choose<T: Tx>(
    work: &mut Work<'_, T>,
    pass: &PlanPass,
    gangs: &[WaitingGang],
    pinned: &[Job],
) -> Result<Vec<JobId>, StoreError> {
    let (policies, now) = (work.policies, work.now);
    let mut aged: Vec<Job> = work.tx.line_heads(LINES).await?;
    aged.extend(gangs.iter().map(|gang| gang.first.clone()));
    aged.retain(|job| !job.pinned);
    let next = aged.iter().filter_map(|job| aged_at(policies.of(job), job)).min();
    aged.retain(|job| aged_at(policies.of(job), job).is_some_and(|at| at <= now));
    if aged.is_empty() {
        if pinned.is_empty() {
            work.roster.ageing_due = next.map_or(now + QUIET, |next| next.min(now + QUIET));
        }
        return Ok(Vec::new());
    }
    aged.sort_unstable_by_key(|job| (policies.pool_of(&job.spec.tags), job.rank, job.seq));
    let shapes: Vec<Shape> = aged.iter().chain(pinned).map(|job| job.spec.shape()).collect();
    let gates = Gates::read(work, shapes.iter(), Look::Peek).await?;
    let workers = eligible(work, pass).await?;
    let counts = |job: &&Job| job.running_since().is_some() || gates.is_open(&job.spec.shape());
    let mut pools = Pools::of(policies, &workers, pinned.iter().filter(counts));
    let able = aged.iter().filter(|job| gates.is_open(&job.spec.shape()) && is_possible(job, &workers));
    Ok(able.filter(|job| pools.take(job)).take(AT_ONCE).map(|job| job.id).collect())
}

/// When it will have waited for very long, if it waits for its turn.
fn aged_at(policy: &Policy, job: &Job) -> Option<Timestamp> {
    let since = job.waiting_since().filter(|_| policy.is_fair())?;
    Some(policy.aged_at(since, job.waited, job.served).max(since))
}

/// Whether the workers would have room for it if nothing ran.
fn is_possible(job: &Job, workers: &[WorkerView]) -> bool {
    let need = job.spec.requirement();
    let gang = job.spec.gang.as_ref();
    let (least, most) = gang.map_or((1, 1), |gang| (gang.min.unwrap_or(gang.size), gang.per_worker.max(1)));
    let able = workers.iter().filter(|worker| need.tags.is_subset(&worker.tags));
    let fits = able
        .filter(|worker| worker.total.as_ref().is_some_and(|has| need.resources.fits_in(has)))
        .count() as u64;
    fits * u64::from(most) >= u64::from(least)
}

/// What there is in each pool and what pinned work holds or waits for.
struct Pools<'p> {
    policies: &'p Policies,
    rooms: BTreeMap<PoolAt, Room>,
}

/// Of GPUs, and of thousandths of cores.
#[derive(Default)]
struct Room {
    total: [u64; 2],
    pinned: [u64; 2],
}

impl<'p> Pools<'p> {
    fn of<'a>(policies: &'p Policies, workers: &[WorkerView], pinned: impl Iterator<Item = &'a Job>) -> Self {
        let mut rooms: BTreeMap<PoolAt, Room> = BTreeMap::new();
        for pool in policies.all() {
            let room = rooms.entry(pool).or_default();
            for worker in workers.iter().filter(|worker| policies.has(pool, &worker.tags)) {
                let slots = u64::from(worker.slots.unwrap_or(0)) * 1000;
                let (gpus, cores) = worker.total.as_ref().map_or((0, 0), |has| (has.gpus, has.cpu_millis));
                room.total[0] += gpus;
                // A worker that says nothing about cores has one for each slot.
                room.total[1] += cores.max(slots);
            }
        }
        let mut pools = Self { policies, rooms };
        let mut gangs: BTreeSet<GangId> = BTreeSet::new();
        for job in pinned {
            if job.spec.gang.as_ref().is_none_or(|gang| gangs.insert(gang.id)) {
                let (room, _, kind, size) = pools.room(job);
                room.pinned[kind] += size;
            }
        }
        pools
    }

    /// The pool of a job with its policy, and what the job takes there of which kind.
    fn room(&mut self, job: &Job) -> (&mut Room, &'p Policy, usize, u64) {
        let pool = self.policies.pool_of(&job.spec.tags);
        let policy = self.policies.at(pool);
        let service = policy.size_of(job);
        (self.rooms.entry(pool).or_default(), policy, usize::from(service.one != 1), service.size)
    }

    /// Counts a job as pinned, if it may be.
    fn take(&mut self, job: &Job) -> bool {
        let (room, policy, kind, size) = self.room(job);
        let may = policy.may_pin(room.pinned[kind], size, room.total[kind]);
        if may {
            room.pinned[kind] += size;
        }
        may
    }
}
