//! The planner's look ahead for what does not fit, or lacks the quota that its queue has lent: others are stopped
//! for it, and room is kept for what goes first.
//!
//! Guarantee: what is decided is decided by the pure planner on a view that others may change meanwhile. A
//! stop is put to the state machine on locked rows, so that whoever has ended since is left alone; kept room
//! is a promise to the one that waits and never lets a worker hold more than it has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{
    Event, EventKind, GangId, Job, JobId, KeptRoom, Phase, PoolAt, Promised, QueueName, Requirement, Shape,
    ShapeId, Timestamp, Trigger, Unit, WorkerId,
};
use muster_planner::policy::Cause;
use muster_planner::{GangCandidate, Ledger, Occupant, Sight, Stop, Waiting, WorkerView, outlook, size};

use super::Policies;
use super::gates::{Gates, Look};
use super::plan::apart;
use super::work::Work;
use crate::command::{PlanPass, PlanSummary};
use crate::error::StoreError;
use crate::tx::Tx;

/// The most units of a pool that are considered in one look.
const UNITS: usize = 16;

/// A unit that waits, with what the gates before it ask for.
#[derive(Debug)]
pub(super) struct Blocked {
    waiting: Waiting,
    shape: Shape,
}

impl Blocked {
    /// `first` is the job, or the first task of the gang.
    pub(super) fn new(unit: GangCandidate, first: &Job, policies: &Policies, now: Timestamp) -> Self {
        let policy = policies.at(unit.pool);
        // Who has waited for very long counts as one that has had nothing.
        let level = if policy.is_pinned(first, now) { 0 } else { policy.level_of(first, now) };
        let waiting = Waiting { unit, since: first.ready_at, level, stopped_for: first.stopped_for };
        Self { waiting, shape: first.spec.shape() }
    }
}

/// Looks ahead for the gangs that were not placed, and for the heads of the queues that cannot start.
pub(super) async fn look<T: Tx>(
    work: &mut Work<'_, T>,
    pass: &PlanPass,
    gangs: Vec<Blocked>,
    summary: &mut PlanSummary,
) -> Result<(), StoreError> {
    let (policies, now) = (work.policies, work.now);
    work.refresh_roster(Look::Peek).await?;
    let apart = apart(work, pass).await?;
    let before: BTreeMap<WorkerId, KeptRoom> =
        apart.iter().filter_map(|one| Some((one.worker.clone(), one.kept.clone()?))).collect();
    let views = work.roster.views(&apart);
    let ids: Vec<WorkerId> = views.iter().filter_map(|view| view.id.clone()).collect();
    let promised = promised(work.tx, before.values()).await?;
    let (mut waiting, gates) = blocked(work, gangs, &promised, &views).await?;
    let mut found = muster_planner::Outlook::default();
    let mut named: HashMap<Unit, JobId> = HashMap::new();
    if !waiting.is_empty() {
        let held = work.roster.jobs();
        let occupants = occupants(held.clone(), &ids, gates.ledger(), policies, now);
        let lowest = lowest_priorities(&occupants);
        waiting.retain(|one| has_hope(one, &gates, &lowest));
        waiting.sort_by_key(|one| one.waiting.unit.key());
        bound(&mut waiting);
        let mut allowances = pass.allowances.clone();
        for pool in policies.all() {
            let size = extent(&views, held.clone(), |tags| policies.has(pool, tags));
            allowances.of_mut(pool).fill(size, policies.at(pool).waste_per_mille, now);
        }
        let ledger = gates.ledger();
        let sight = Sight { workers: &views, occupants: &occupants, ledger, allowances: &allowances };
        let line: Vec<Waiting> = waiting.iter().map(|one| one.waiting.clone()).collect();
        found = outlook(sight, &line, policies, now);
        summary.allowances = std::mem::take(&mut found.allowances);
        let victims: BTreeSet<Unit> = found.stops.iter().map(|stop| stop.victim).collect();
        let held = work.roster.jobs().filter(|_| !victims.is_empty());
        named = held.map(|job| (unit_of(job), job.id)).filter(|(unit, _)| victims.contains(unit)).collect();
    }
    stop(work, &found.stops, &named, &waiting, summary).await?;
    let rooms = found.rooms.into_iter().filter_map(|(at, room)| Some((ids.get(at)?.clone(), room)));
    let after: BTreeMap<WorkerId, KeptRoom> = rooms.collect();
    summary.keeping = after.len() as u32;
    keep(work, &before, &after).await?;
    let owners = found.taking_back.into_iter().filter_map(|seat| gates.ledger()?.name(seat).cloned());
    let mut promises: BTreeMap<QueueName, Vec<Promised>> = BTreeMap::new();
    for one in &waiting {
        let (unit, shape) = (one.waiting.unit.unit, &one.shape);
        if let Some((tasks, queue)) = found.promised.get(&unit).zip(shape.queue.clone()) {
            let (need, fixed) = (shape.requirement.resources.clone(), shape.fixed);
            promises.entry(queue).or_default().push(Promised { unit, need, tasks: *tasks, fixed });
        }
    }
    set_aside(work, &owners.collect(), &promises).await
}

/// The shapes of the jobs that room is kept for. It stays so until they have started: were it given up as soon as it is
/// there, those who made it would be placed in it before anybody asks.
async fn promised<'k, T: Tx>(
    tx: &mut T,
    kept: impl Iterator<Item = &'k KeptRoom>,
) -> Result<BTreeSet<ShapeId>, StoreError> {
    let single = |room: &KeptRoom| match room.unit {
        Unit::Job(id) => Some(id),
        Unit::Gang(_) => None,
    };
    let ids: BTreeSet<JobId> = kept.filter_map(single).collect();
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let jobs = tx.read_jobs(&ids.into_iter().collect::<Vec<_>>()).await?;
    Ok(jobs.iter().filter(|job| job.phase == Phase::Pending).map(|job| job.shape).collect())
}

/// The gangs, and the first pending job of each shape that no worker has room for now, that room is kept for, or that
/// lacks quota; with the gates before all of them.
async fn blocked<T: Tx>(
    work: &mut Work<'_, T>,
    mut gangs: Vec<Blocked>,
    promised: &BTreeSet<ShapeId>,
    views: &[WorkerView],
) -> Result<(Vec<Blocked>, Gates), StoreError> {
    let mut shapes = work.tx.pending_shapes().await?;
    let mut roomless = roomless(&shapes, views);
    roomless.extend(shapes.iter().map(|(id, _)| *id).filter(|id| promised.contains(id)));
    shapes.retain(|(id, shape)| shape.queue.is_some() || roomless.contains(id));
    if shapes.is_empty() && gangs.is_empty() {
        return Ok((Vec::new(), Gates::default()));
    }
    let asking = shapes.iter().map(|(_, shape)| shape).chain(gangs.iter().map(|gang| &gang.shape));
    let gates = Gates::read(work, asking, Look::Peek).await?;
    shapes.retain(|(id, shape)| {
        let lacks_quota = gates.quota_beside(None, shape, 1) == Some(0);
        gates.room_but_quota(shape) > 0 && (lacks_quota || roomless.contains(id))
    });
    let ids: Vec<ShapeId> = shapes.iter().map(|(id, _)| *id).collect();
    let heads = if ids.is_empty() { Vec::new() } else { work.tx.heads(&ids).await? };
    let (now, policies) = (work.now, work.policies);
    gangs.extend(heads.iter().map(|job| Blocked::new(single(job, policies, now), job, policies, now)));
    for one in &mut gangs {
        one.waiting.unit.seat = gates.seat(&one.shape);
    }
    Ok((gangs, gates))
}

/// The shapes that no worker has room for now. Many differ only in their queue or user: each need is asked about once.
fn roomless(shapes: &[(ShapeId, Shape)], views: &[WorkerView]) -> BTreeSet<ShapeId> {
    let mut known: HashMap<&Requirement, bool> = HashMap::new();
    let mut roomless = BTreeSet::new();
    for (id, shape) in shapes {
        let need = &shape.requirement;
        let has = || views.iter().any(|view| view.has_room_for(need));
        if !*known.entry(need).or_insert_with(has) {
            roomless.insert(*id);
        }
    }
    roomless
}

/// Leaves the first units of each pool. They are sorted.
fn bound(waiting: &mut Vec<Blocked>) {
    let mut seen: BTreeMap<PoolAt, usize> = BTreeMap::new();
    waiting.retain(|one| {
        let seen = seen.entry(one.waiting.unit.pool).or_default();
        *seen += 1;
        *seen <= UNITS
    });
}

/// How much the workers of a pool are, by what the cost of stops is measured by: what they have, or what jobs ask
/// for where workers say little of what they have.
fn extent<'j>(
    views: &[WorkerView],
    held: impl Iterator<Item = &'j Job>,
    is_in: impl Fn(&BTreeSet<String>) -> bool,
) -> u64 {
    let own = views.iter().filter(|view| is_in(&view.tags));
    let has = own.filter_map(|view| view.total.as_ref()).map(size).fold(0, u64::saturating_add);
    let need = |job: &Job| job.spec.resources.as_ref().map_or(1, size);
    let used = held.filter(|job| is_in(&job.spec.tags)).map(need).fold(0, u64::saturating_add);
    has.max(used)
}

/// Whether a look can help it: its quota lets it start, or others may have to give some of it back, or less important
/// work of its tree may have to stop. Those without hope must not take the places of others.
fn has_hope(one: &Blocked, gates: &Gates, lowest: &BTreeMap<usize, i32>) -> bool {
    let unit = &one.waiting.unit;
    let Some((ledger, seat)) = gates.ledger().zip(unit.seat) else { return true };
    let need = ledger.row(&unit.requirement.resources);
    let all: Vec<u64> = need.iter().map(|need| need.saturating_mul(u64::from(unit.tasks))).collect();
    let gives_way =
        |(own, priority): (&usize, &i32)| *priority < unit.priority && ledger.are_related(*own, seat);
    ledger.room(seat, &need, unit.fixed) >= unit.least
        || ledger.is_within_own(seat, &all)
        || lowest.iter().any(gives_way)
}

/// The lowest priority of what may be stopped in each queue, by its place in the ledger.
fn lowest_priorities(occupants: &[Occupant]) -> BTreeMap<usize, i32> {
    let mut lowest: BTreeMap<usize, i32> = BTreeMap::new();
    for one in occupants.iter().filter(|one| one.preemptible) {
        if let Some(seat) = one.seat {
            let known = lowest.entry(seat).or_insert(i32::MAX);
            *known = one.priority.min(*known);
        }
    }
    lowest
}

pub(super) fn single(job: &Job, policies: &Policies, now: Timestamp) -> GangCandidate {
    let shape = job.spec.shape();
    GangCandidate {
        unit: Unit::Job(job.id),
        tasks: 1,
        least: 1,
        per_worker: 1,
        priority: job.spec.priority,
        pool: policies.pool_of(&job.spec.tags),
        rank: job.rank,
        seq: job.seq,
        seat: None,
        fixed: shape.fixed,
        requirement: shape.requirement,
        limits: Vec::new(),
        avoid: job.tried.clone(),
        topology: None,
        ends: job.ends_if_started(now),
    }
}

pub(super) fn unit_of(job: &Job) -> Unit {
    job.spec.gang.as_ref().map_or(Unit::Job(job.id), |gang| Unit::Gang(gang.id))
}

pub(super) fn occupants<'j>(
    held: impl IntoIterator<Item = &'j Job>,
    workers: &[WorkerId],
    ledger: Option<&Ledger>,
    policies: &Policies,
    now: Timestamp,
) -> Vec<Occupant> {
    let places: HashMap<&WorkerId, usize> = workers.iter().enumerate().map(|(at, id)| (id, at)).collect();
    let occupant = |job: &Job| {
        let stopping = matches!(job.phase, Phase::Preempting { .. });
        let since = job.started_at.filter(|_| matches!(job.phase, Phase::Running { .. }));
        let pool = policies.pool_of(&job.spec.tags);
        let limit = job.ends_by(since.unwrap_or(now), now);
        Some(Occupant {
            worker: *places.get(job.worker()?)?,
            held: job.spec.resources.clone().unwrap_or_default(),
            devices: job.devices.clone(),
            ends: if stopping { Some(now) } else { limit },
            unit: unit_of(job),
            pool,
            priority: job.spec.priority,
            since,
            ready: job.ready_at,
            saved: job.checkpoint_at,
            stopping,
            preemptible: !job.spec.fixed,
            seat: ledger.and_then(|ledger| ledger.seat(job.spec.queue.as_ref())),
            level: policies.at(pool).level_of(job, now),
            pinned: policies.at(pool).is_pinned(job, now),
        })
    };
    held.into_iter().filter_map(occupant).collect()
}

/// Tells the chosen ones to stop, and counts the units that do.
async fn stop<T: Tx>(
    work: &mut Work<'_, T>,
    stops: &[Stop],
    named: &HashMap<Unit, JobId>,
    waiting: &[Blocked],
    summary: &mut PlanSummary,
) -> Result<(), StoreError> {
    if stops.is_empty() {
        return Ok(());
    }
    let victims: Vec<JobId> = stops.iter().filter_map(|stop| named.get(&stop.victim).copied()).collect();
    let incoming: BTreeSet<Unit> = stops.iter().map(|stop| stop.incoming).collect();
    let firsts = first_jobs(work, &incoming).await?;
    work.lock_whole(victims.into_iter().chain(firsts.values().copied())).await?;
    let mut made: BTreeMap<Unit, Vec<Unit>> = BTreeMap::new();
    for stop in stops {
        let Some(id) = named.get(&stop.victim) else { continue };
        let comes = waiting.iter().find(|one| one.waiting.unit.unit == stop.incoming);
        let own = work.job(*id).map_or(0, |job| job.spec.priority);
        let message = Some(words(stop, comes, own));
        let trigger = Trigger::Preempt { message, in_favour_of: Some(stop.incoming) };
        if work.trigger(*id, &trigger).is_ok() {
            summary.stopped.count(stop.cause);
            made.entry(stop.incoming).or_default().push(stop.victim);
        }
    }
    for (unit, victims) in made {
        if let Some(first) = firsts.get(&unit) {
            work.note(Event::of_job(*first, work.now, EventKind::RoomMade { by: victims }));
        }
    }
    Ok(())
}

/// For whom one of priority `own` stops, and why.
fn words(stop: &Stop, comes: Option<&Blocked>, own: i32) -> String {
    let incoming = stop.incoming;
    match stop.cause {
        Cause::Priority => {
            let priority = comes.map_or(own, |one| one.waiting.unit.priority);
            format!("makes room for {incoming} (priority {priority}, this one {own})")
        }
        Cause::Quota => {
            let queue = comes.and_then(|one| one.shape.queue.as_ref());
            let name = queue.map_or_else(|| "its queue".to_owned(), |queue| format!("queue {queue}"));
            format!("makes room for {incoming}: {name} takes back what it lent")
        }
        Cause::Level => format!("makes room for {incoming}, which has run for less time"),
    }
}

/// Notes which queues are about to get back what they lent, and what is promised to work that waits in them.
async fn set_aside<T: Tx>(
    work: &mut Work<'_, T>,
    owners: &BTreeSet<QueueName>,
    promises: &BTreeMap<QueueName, Vec<Promised>>,
) -> Result<(), StoreError> {
    let promised = |name: &QueueName| promises.get(name).cloned().unwrap_or_default();
    let queues = work.tx.queues().await?.into_iter();
    let changed = queues.filter(|queue| {
        queue.takes_back != owners.contains(&queue.name) || queue.promised != promised(&queue.name)
    });
    let changed: Vec<QueueName> = changed.map(|queue| queue.name).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let mut locked = work.tx.lock_queues(&changed).await?;
    for queue in &mut locked {
        queue.takes_back = owners.contains(&queue.name);
        queue.promised = promised(&queue.name);
    }
    work.tx.put_queues(&locked).await?;
    // Who was kept from borrowing, or from what was promised, may start.
    work.note_room();
    Ok(())
}

/// The job that stands for each unit: itself, or the first task of the gang.
async fn first_jobs<T: Tx>(
    work: &mut Work<'_, T>,
    units: &BTreeSet<Unit>,
) -> Result<HashMap<Unit, JobId>, StoreError> {
    let gangs: Vec<GangId> = units
        .iter()
        .filter_map(|unit| match unit {
            Unit::Gang(id) => Some(*id),
            Unit::Job(_) => None,
        })
        .collect();
    let mut firsts: HashMap<Unit, (u32, JobId)> = HashMap::new();
    for task in if gangs.is_empty() { Vec::new() } else { work.tx.gang_tasks(&gangs).await? } {
        let Some(gang) = &task.spec.gang else { continue };
        let first = firsts.entry(Unit::Gang(gang.id)).or_insert((gang.index, task.id));
        *first = (*first).min((gang.index, task.id));
    }
    let single = |unit: &Unit| match unit {
        Unit::Job(id) => Some((*unit, *id)),
        Unit::Gang(_) => None,
    };
    let singles = units.iter().filter_map(single);
    Ok(firsts.into_iter().map(|(unit, (_, id))| (unit, id)).chain(singles).collect())
}

/// Writes what changed of the room that is kept.
async fn keep<T: Tx>(
    work: &mut Work<'_, T>,
    before: &BTreeMap<WorkerId, KeptRoom>,
    after: &BTreeMap<WorkerId, KeptRoom>,
) -> Result<(), StoreError> {
    let names: BTreeSet<&WorkerId> = before.keys().chain(after.keys()).collect();
    let changed: Vec<WorkerId> =
        names.into_iter().filter(|id| before.get(id) != after.get(id)).cloned().collect();
    if changed.is_empty() {
        return Ok(());
    }
    work.lock_workers(&changed).await?;
    let (mut workers, mut noted) = work.take_workers();
    for id in changed {
        if let Some(worker) = workers.get_mut(&id) {
            worker.kept = after.get(&id).cloned().map(Box::new);
            noted.insert(id);
        }
    }
    work.put_back_workers(workers, noted);
    // Who was kept out may be let in.
    work.note_room();
    Ok(())
}
