//! The planner's look ahead for what does not fit: others are stopped for what is more important, and room is
//! kept for what goes first.
//!
//! Guarantee: what is decided is decided by the pure planner on a view that others may change meanwhile. A
//! stop is put to the state machine on locked rows, so that whoever has ended since is left alone; kept room
//! is a promise to the one that waits and never lets a worker hold more than it has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{
    Event, EventKind, GangId, Job, JobId, KeptRoom, Phase, Shape, Timestamp, Trigger, Unit, WorkerId,
};
use muster_planner::{GangCandidate, Occupant, Stop, Waiting, WorkerView, outlook};

use super::Policy;
use super::claim::with_usage;
use super::devices;
use super::gates::{Gates, Look};
use super::plan::is_eligible;
use super::work::Work;
use crate::command::{PlanPass, PlanSummary};
use crate::error::StoreError;
use crate::tx::Tx;

/// The most units that are considered in one look.
const UNITS: usize = 16;

/// Looks ahead for the gangs that were not placed, and for the heads of the queues that fit nowhere.
pub(super) async fn look<T: Tx>(
    work: &mut Work<'_, T>,
    policy: Policy,
    pass: PlanPass,
    gangs: &[Waiting],
    summary: &mut PlanSummary,
) -> Result<(), StoreError> {
    let now = work.now;
    let mut workers = work.tx.workers().await?;
    let before: BTreeMap<WorkerId, KeptRoom> =
        workers.iter().filter_map(|worker| Some((worker.id.clone(), *worker.kept.clone()?))).collect();
    workers.retain(|worker| is_eligible(worker, now, pass.timeouts.worker_stale));
    let ids: Vec<WorkerId> = workers.iter().map(|worker| worker.id.clone()).collect();
    let mut views = with_usage(work.tx, workers).await?;
    let mut waiting = gangs.to_vec();
    waiting.extend(blocked_heads(work, &mut views).await?);
    devices::read_for(work.tx, waiting.iter().map(|waiting| &waiting.unit.requirement), &mut views).await?;
    waiting.sort_by_key(|waiting| waiting.unit.key());
    waiting.truncate(UNITS);
    let mut found = muster_planner::Outlook::default();
    let mut named: HashMap<Unit, JobId> = HashMap::new();
    if !waiting.is_empty() {
        let held = work.tx.held_jobs(&ids).await?;
        named = held.iter().map(|job| (unit_of(job), job.id)).collect();
        let occupants = occupants(&held, &ids, now);
        found = outlook(&views, &occupants, &waiting, policy, now);
    }
    summary.stopped = stop(work, &found.stops, &named, &waiting).await?;
    let rooms = found.rooms.into_iter().filter_map(|(at, room)| Some((ids.get(at)?.clone(), room)));
    let after: BTreeMap<WorkerId, KeptRoom> = rooms.collect();
    summary.keeping = after.len() as u32;
    keep(work, &before, &after).await
}

/// The first pending job of each shape that no worker has room for now.
async fn blocked_heads<T: Tx>(
    work: &mut Work<'_, T>,
    views: &mut [WorkerView],
) -> Result<Vec<Waiting>, StoreError> {
    let mut shapes = work.tx.pending_shapes().await?;
    devices::read_for(work.tx, shapes.iter().map(|(_, shape)| &shape.requirement), views).await?;
    shapes.retain(|(_, shape)| !views.iter().any(|view| view.has_room_for(&shape.requirement)));
    if shapes.is_empty() {
        return Ok(Vec::new());
    }
    let gates = Gates::read(work, shapes.iter().map(|(_, shape)| shape), Look::Peek).await?;
    shapes.retain(|(_, shape)| gates.is_open(shape));
    let ids: Vec<muster_domain::ShapeId> = shapes.iter().map(|(id, _)| *id).collect();
    let heads = work.tx.heads(&ids).await?;
    let now = work.now;
    Ok(heads.iter().map(|job| single(job, job.spec.shape(), now)).collect())
}

fn single(job: &Job, shape: Shape, now: Timestamp) -> Waiting {
    let unit = GangCandidate {
        unit: Unit::Job(job.id),
        tasks: 1,
        least: 1,
        per_worker: 1,
        priority: job.spec.priority,
        rank: job.rank,
        seq: job.seq,
        seat: None,
        fixed: shape.fixed,
        requirement: shape.requirement,
        limits: Vec::new(),
        avoid: job.tried.clone(),
        topology: None,
        ends: job.spec.timeout.map(|timeout| now + timeout),
    };
    Waiting { unit, since: job.ready_at }
}

fn unit_of(job: &Job) -> Unit {
    job.spec.gang.as_ref().map_or(Unit::Job(job.id), |gang| Unit::Gang(gang.id))
}

fn occupants(held: &[Job], workers: &[WorkerId], now: Timestamp) -> Vec<Occupant> {
    let places: HashMap<&WorkerId, usize> = workers.iter().enumerate().map(|(at, id)| (id, at)).collect();
    let occupant = |job: &Job| {
        let stopping = matches!(job.phase, Phase::Preempting { .. });
        let since = job.started_at.filter(|_| matches!(job.phase, Phase::Running { .. }));
        let limit = job.spec.timeout.map(|timeout| since.unwrap_or(now) + timeout);
        Some(Occupant {
            worker: *places.get(job.worker()?)?,
            held: job.spec.requirement().resources,
            devices: job.devices.clone(),
            ends: if stopping { Some(now) } else { limit },
            unit: unit_of(job),
            priority: job.spec.priority,
            since,
            saved: job.checkpoint_at,
            stopping,
            preemptible: !job.spec.fixed,
            borrows: false,
        })
    };
    held.iter().filter_map(occupant).collect()
}

/// Tells the chosen ones to stop; says how many units did.
async fn stop<T: Tx>(
    work: &mut Work<'_, T>,
    stops: &[Stop],
    named: &HashMap<Unit, JobId>,
    waiting: &[Waiting],
) -> Result<u32, StoreError> {
    if stops.is_empty() {
        return Ok(0);
    }
    let victims: Vec<JobId> = stops.iter().filter_map(|stop| named.get(&stop.victim).copied()).collect();
    let incoming: BTreeSet<Unit> = stops.iter().map(|stop| stop.incoming).collect();
    let firsts = first_jobs(work, &incoming).await?;
    work.lock_whole(victims.into_iter().chain(firsts.values().copied())).await?;
    let priorities: HashMap<Unit, i32> =
        waiting.iter().map(|waiting| (waiting.unit.unit, waiting.unit.priority)).collect();
    let mut stopped = 0;
    let mut made: BTreeMap<Unit, Vec<Unit>> = BTreeMap::new();
    for Stop { victim, incoming } in stops {
        let Some(id) = named.get(victim) else { continue };
        let own = work.job(*id).map_or(0, |job| job.spec.priority);
        let priority = priorities.get(incoming).copied().unwrap_or(own);
        let message = Some(format!("makes room for {incoming} (priority {priority}, this one {own})"));
        if work.trigger(*id, &Trigger::Preempt { message }).is_ok() {
            stopped += 1;
            made.entry(*incoming).or_default().push(*victim);
        }
    }
    for (unit, victims) in made {
        if let Some(first) = firsts.get(&unit) {
            work.note(Event::of_job(*first, work.now, EventKind::RoomMade { by: victims }));
        }
    }
    Ok(stopped)
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
