//! The cluster as a whole, from the same facts that placement uses: what waits for what, what is free and why nobody
//! uses it, and how much of it is of no use to anybody who waits.
//!
//! Guarantees: every worker is in one pool; what is free of it has one reason. The cost follows workers times shapes,
//! never the number of jobs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_domain::{
    Idle, IdleRoom, InLine, KeptFor, Overview, Pool, QueueName, Reason, Resources, Start, Unit, WaitingCause,
};

use crate::case::{Case, Facing};
use crate::explain::{reasons, start};
use crate::fit::WorkerView;
use crate::gang::GangCandidate;

/// How much of the line is told.
const LINE: usize = 10;

/// Of so many the start is estimated, which costs more.
const ESTIMATED: usize = 5;

/// Pools that are told.
const POOLS: usize = 8;

/// Reasons for what is idle that are told, besides those without a name.
const NAMED: usize = 5;

/// Memory of machines of one kind differs by a little.
const MEMORY_STEP_MB: u64 = 1024;

/// Work that waits: the first job of a shape, which stands for all of them, or a gang.
#[derive(Debug, Clone)]
pub struct Waiter {
    pub unit: GangCandidate,
    /// Jobs of the shape; 1 for a gang.
    pub count: u64,
    pub queue: Option<QueueName>,
    pub user: Option<String>,
    pub facing: Facing,
}

/// A waiter, and what was found out about it.
struct Judged {
    waiter: Waiter,
    reasons: Vec<Reason>,
    start: Option<Start>,
    /// Nothing but room keeps it from starting.
    open: bool,
    /// It would start if somebody asked.
    fits: bool,
}

/// Looks at everything. The unit of `case` is not looked at.
pub fn overview(mut case: Case, mut waiters: Vec<Waiter>) -> Overview {
    waiters.sort_by_key(|waiter| waiter.unit.key());
    let judged: Vec<Judged> = waiters
        .into_iter()
        .enumerate()
        .map(|(at, waiter)| judge(&mut case, waiter, at < ESTIMATED))
        .collect();
    let mut found = Overview { kept: kept(&case.workers), ..Overview::default() };
    count_rooms(&case, &judged, &mut found);
    found.waiting = causes(&judged);
    let in_line = |one: Judged| InLine {
        unit: one.waiter.unit.unit,
        queue: one.waiter.queue,
        user: one.waiter.user,
        priority: one.waiter.unit.priority,
        tasks: one.waiter.unit.tasks,
        need: one.waiter.unit.requirement.resources,
        reasons: one.reasons,
        start: one.start,
    };
    found.line = judged.into_iter().take(LINE).map(in_line).collect();
    found
}

fn judge(case: &mut Case, waiter: Waiter, estimated: bool) -> Judged {
    case.unit = waiter.unit.clone();
    case.queue.clone_from(&waiter.queue);
    case.face(waiter.facing.clone());
    let reasons = reasons(case);
    let fits = |reason: &Reason| matches!(reason, Reason::NobodyAsks { .. } | Reason::GangFits { .. });
    Judged {
        fits: reasons.iter().any(fits),
        open: case.trial().may_start(),
        start: if estimated { start(case) } else { None },
        reasons,
        waiter,
    }
}

fn is_gang(one: &Judged) -> bool {
    matches!(one.waiter.unit.unit, Unit::Gang(_))
}

/// The reason that says most: what else is true besides comes last.
fn chief(reasons: &[Reason]) -> Option<&Reason> {
    let beside = |reason: &&Reason| matches!(reason, Reason::Quarantined { .. } | Reason::Foreseen { .. });
    reasons.iter().find(|reason| !beside(reason)).or(reasons.first())
}

/// Work by its chief reason, most first.
fn causes(judged: &[Judged]) -> Vec<WaitingCause> {
    let mut causes: Vec<WaitingCause> = Vec::new();
    for one in judged {
        let Some(reason) = chief(&one.reasons) else { continue };
        let known = causes.iter().position(|cause| cause.code == reason.code());
        let at = known.unwrap_or_else(|| {
            let example = Some((one.waiter.unit.unit, reason.clone()));
            causes.push(WaitingCause { code: reason.code(), jobs: 0, gangs: 0, example });
            causes.len() - 1
        });
        let count = if is_gang(one) { &mut causes[at].gangs } else { &mut causes[at].jobs };
        *count += one.waiter.count;
    }
    causes.sort_by_key(|cause| Reverse(cause.jobs + cause.gangs));
    causes
}

fn kept(workers: &[WorkerView]) -> Vec<KeptFor> {
    let mut found: BTreeMap<Unit, KeptFor> = BTreeMap::new();
    for room in workers.iter().filter_map(|worker| worker.kept.as_ref()) {
        let (unit, until) = (room.unit, room.until);
        let kept =
            found.entry(unit).or_insert(KeptFor { unit, workers: 0, resources: Resources::default(), until });
        kept.workers += 1;
        kept.resources.add(&room.resources);
    }
    found.into_values().collect()
}

/// What is free of a worker: GPUs that nobody has a part of, and no memory of those that somebody has for itself.
fn free(worker: &WorkerView) -> Resources {
    let left = worker.total.as_ref().map(|total| total.minus(&worker.used)).unwrap_or_default();
    match worker.devices.as_ref().filter(|devices| !devices.is_unread()) {
        Some(devices) => Resources { gpus: devices.idle_count(), vram_mb: devices.free_vram(), ..left },
        None => left,
    }
}

/// GPUs, cores and memory of the workers of a pool, the largest first.
type Size = Reverse<(u64, u64, u64)>;

/// A pool with the number of workers by what they have free.
type Counted = (Pool, BTreeMap<u64, u32>);

/// Pools, and what is idle.
fn count_rooms(case: &Case, judged: &[Judged], found: &mut Overview) {
    let mut pools: BTreeMap<Size, Counted> = BTreeMap::new();
    let mut idle: BTreeMap<Idle, IdleRoom> = BTreeMap::new();
    let aside = case.aside.iter().map(|aside| {
        let why = if aside.quarantined_until.is_some() { Idle::Quarantined } else { Idle::Offline };
        (&aside.view, Some(why))
    });
    for (worker, aside) in case.workers.iter().map(|worker| (worker, None)).chain(aside) {
        let (has, free) = (worker.total.clone().unwrap_or_default(), free(worker));
        let key = Reverse((has.gpus, has.cpu_millis, has.memory_mb / MEMORY_STEP_MB));
        let (pool, by_free) = pools.entry(key).or_default();
        pool.has = if pool.workers == 0 { has.clone() } else { pool.has.least(&has) };
        pool.workers += 1;
        let why = aside.unwrap_or_else(|| why_idle(worker, judged));
        if !free.is_zero() {
            let room = idle.entry(why).or_insert(IdleRoom { why, workers: 0, free: Resources::default() });
            room.workers += 1;
            room.free.add(&free);
        }
        if aside.is_some() {
            continue;
        }
        pool.active += 1;
        pool.free.add(&free);
        found.total.add(&has);
        found.free.add(&free);
        let whole = if has.gpus > 0 { free.gpus } else { free.cpu_millis / 1000 };
        *by_free.entry(whole).or_default() += 1;
        if is_stranded(worker, judged) {
            pool.stranded.add(&free);
            found.stranded.add(&free);
        }
    }
    let finish = |(mut pool, by_free): Counted| {
        pool.by_free = by_free.into_iter().rev().collect();
        pool
    };
    found.pools = pools.into_values().map(finish).collect();
    found.more_pools = found.pools.len().saturating_sub(POOLS) as u32;
    found.pools.truncate(POOLS);
    found.idle = bounded(idle);
}

/// Those with names are many where many hold room; the largest are told.
fn bounded(idle: BTreeMap<Idle, IdleRoom>) -> Vec<IdleRoom> {
    let (mut named, mut rest): (Vec<IdleRoom>, Vec<IdleRoom>) =
        idle.into_values().partition(|room| room.why.unit().is_some());
    named.sort_by_key(|room| Reverse(room.workers));
    named.truncate(NAMED);
    rest.extend(named);
    rest.sort_by_key(|room| (Reverse(room.workers), room.why));
    rest
}

fn why_idle(worker: &WorkerView, judged: &[Judged]) -> Idle {
    if worker.free_slots() == Some(0) {
        return Idle::NoSlot;
    }
    let takes = |one: &&Judged| worker.has_room_for(&one.waiter.unit.requirement);
    let enters = |one: &&Judged| takes(one) && worker.admits(&one.waiter.unit.entrant());
    if judged.iter().filter(enters).any(|one| one.fits) {
        return Idle::NotAsked;
    }
    if let Some(room) = &worker.kept {
        return Idle::Kept(room.unit);
    }
    let mut fitting = judged.iter().filter(takes);
    match fitting.find(|one| one.open && is_gang(one)) {
        Some(gang) => Idle::PartOfGang(gang.waiter.unit.unit),
        None if judged.iter().any(|one| takes(&one)) => Idle::Gated,
        None if judged.is_empty() => Idle::NobodyWaits,
        None => Idle::DoesNotFit,
    }
}

/// Whether nothing that waits finds room for a task, although something waits.
fn is_stranded(worker: &WorkerView, judged: &[Judged]) -> bool {
    !judged.is_empty() && !judged.iter().any(|one| worker.has_room_for(&one.waiter.unit.requirement))
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
