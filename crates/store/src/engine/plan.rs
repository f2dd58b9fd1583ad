//! The planner's pass over gangs that wait: what was not claimed in time is taken back, what fits is placed,
//! each gang whole or not at all, in the transaction that found the room.
//!
//! Guarantee: the plan is made on rows that others may change meanwhile; before a gang is placed its tasks
//! and its workers are locked, in the order that all verbs use, and the room is counted again. A piece that
//! no longer holds is dropped and planned again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{
    GangId, Grant, Job, JobId, Patience, Place, Shape, Span, Status, Timestamp, Unit, Worker, WorkerId,
};
use muster_planner::{GangCandidate, GangPlacement, WorkerView, place_gangs};

use super::claim::with_usage;
use super::devices;
use super::gates::{Gates, Look};
use super::outlook::{self, Blocked};
use super::work::Work;
use super::{Answers, Policies, ageing, pick};
use crate::command::{Command, Outcome, PlanPass, PlanSummary};
use crate::error::StoreError;
use crate::query::JobFilter;
use crate::tx::{Apart, Tx, WaitingGang};

/// Runs every planning pass of the batch.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let passes = pick(commands, |command| match command {
        Command::Plan(pass) => Some(pass),
        _ => None,
    });
    work.on_behalf_of_scheduler();
    for (position, pass) in passes {
        let waiting = work.tx.waiting_gangs(pass.limit).await?;
        // By itself, so that rows are locked in one go; the next pass follows at once.
        if pass.look && ageing::apply(work, pass, &waiting).await? {
            work.flush().await?;
            let allowances = pass.allowances.clone();
            let summary = PlanSummary { next_due: Some(work.now), allowances, ..PlanSummary::default() };
            answers.put(position, Ok(Outcome::Planned(summary)));
            continue;
        }
        let lapsed = take_back(work, pass).await?;
        let mut summary =
            PlanSummary { lapsed, allowances: pass.allowances.clone(), ..PlanSummary::default() };
        work.flush().await?;
        let waiting = if lapsed > 0 { work.tx.waiting_gangs(pass.limit).await? } else { waiting };
        let blocked = place(work, pass, waiting, &mut summary).await?;
        work.flush().await?;
        // What was placed has its rows locked: those who would have to stop come first in the order of locks.
        if pass.look && summary.placed + summary.lapsed == 0 {
            outlook::look(work, pass, blocked, &mut summary).await?;
            work.flush().await?;
        }
        work.flush_workers().await?;
        let reservation = work.tx.oldest().await?.reservation;
        let overdue = reservation.map(|at| at.max(pass.listening_since) + pass.timeouts.reservation);
        summary.next_due = summary.next_due.into_iter().chain(overdue).min();
        answers.put(position, Ok(Outcome::Planned(summary)));
    }
    Ok(())
}

/// Takes back the placement of gangs that were not claimed in time; says how many.
async fn take_back<T: Tx>(work: &mut Work<'_, T>, pass: &PlanPass) -> Result<u32, StoreError> {
    let patience = Patience { timeout: pass.timeouts.reservation, listening_since: pass.listening_since };
    let before = work.now - patience.timeout;
    if patience.listening_since >= before {
        return Ok(0);
    }
    let gangs = work.tx.stale_gangs(before, pass.limit).await?;
    let mut lapsed = 0;
    for gang in lock_gangs(work, gangs).await? {
        lapsed += u32::from(work.lapse(gang, patience).is_ok());
    }
    Ok(lapsed)
}

/// Locks all tasks of these gangs.
async fn lock_gangs<T: Tx>(work: &mut Work<'_, T>, gangs: Vec<GangId>) -> Result<Vec<GangId>, StoreError> {
    if gangs.is_empty() {
        return Ok(gangs);
    }
    let ids: Vec<JobId> = work.tx.gang_tasks(&gangs).await?.iter().map(|task| task.id).collect();
    work.lock(ids).await?;
    Ok(gangs)
}

async fn place<T: Tx>(
    work: &mut Work<'_, T>,
    pass: &PlanPass,
    mut waiting: Vec<WaitingGang>,
    summary: &mut PlanSummary,
) -> Result<Vec<Blocked>, StoreError> {
    let (policies, now) = (work.policies, work.now);
    waiting.retain(|gang| gang.first.hold.is_none());
    let (mut ready, later): (Vec<WaitingGang>, Vec<WaitingGang>) =
        waiting.into_iter().partition(|gang| gang.first.ready_at <= now);
    summary.next_due = later.iter().map(|gang| gang.first.ready_at).min();
    if ready.is_empty() {
        return Ok(Vec::new());
    }
    let waiting = ready.len() as u32;
    let shapes: Vec<Shape> = ready.iter().map(|gang| gang.first.spec.shape()).collect();
    let gates = Gates::read(work, shapes.iter(), Look::Peek).await?;
    // Those that lack quota stay: others may have to give it back.
    let mut open = shapes.iter().map(|shape| gates.room_but_quota(shape) > 0);
    ready.retain(|_| open.next().unwrap_or(false));
    let candidates: Vec<GangCandidate> =
        ready.iter().filter_map(|gang| candidate(gang, &gates, policies, now)).collect();
    work.refresh_roster(Look::Peek).await?;
    let apart = apart(work, pass).await?;
    let mut views = work.roster.views(&apart);
    let mut plan = place_gangs(&views, &gates.limits, gates.ledger(), &candidates, policies);
    // A gang tries a worker in quarantine only where nothing can start without it: it would fail as a whole.
    if plan.is_empty()
        && let Some(probing) = work.roster.views_with_probes(&apart, now)
    {
        views = probing;
        plan = place_gangs(&views, &gates.limits, gates.ledger(), &candidates, policies);
    }
    let placed = commit(work, &candidates, &views, plan).await?;
    summary.placed = placed.len() as u32;
    // Those before a closed gate too: what opens it makes the next pass worth while.
    summary.waiting = waiting - summary.placed;
    let blocked = candidates
        .into_iter()
        .zip(&ready)
        .filter(|(unit, _)| unit.gang().is_some_and(|gang| !placed.contains(&gang)))
        .filter(|(unit, _)| unit.limits.iter().all(|at| gates.limits[*at] >= unit.least));
    Ok(blocked.map(|(unit, gang)| Blocked::new(unit, &gang.first, policies, now)).collect())
}

pub(super) fn candidate(
    gang: &WaitingGang,
    gates: &Gates,
    policies: &Policies,
    now: Timestamp,
) -> Option<GangCandidate> {
    let first = &gang.first;
    let membership = first.spec.gang.as_ref()?;
    let shape = first.spec.shape();
    Some(GangCandidate {
        unit: Unit::Gang(membership.id),
        tasks: gang.tasks,
        least: membership.min.unwrap_or(gang.tasks).min(gang.tasks),
        per_worker: membership.per_worker,
        priority: first.spec.priority,
        pool: policies.pool_of(&first.spec.tags),
        rank: first.rank,
        seq: first.seq,
        limits: gates.of(&shape),
        seat: gates.seat(&shape),
        fixed: shape.fixed,
        requirement: shape.requirement,
        avoid: first.tried.clone(),
        ends: first.ends_if_started(now),
        topology: membership.topology.clone(),
    })
}

/// The workers that are not like others: those silent for so long that nothing is placed on them, and those that
/// keep room. Half the time after which a worker counts as offline is two of its heartbeats.
pub(super) async fn apart<T: Tx>(work: &mut Work<'_, T>, pass: &PlanPass) -> Result<Vec<Apart>, StoreError> {
    let silent = Span::from_micros(pass.timeouts.worker_stale.as_micros() / 2);
    work.tx.workers_apart(work.now - silent).await
}

/// The workers that work may be placed on.
pub(super) async fn eligible<T: Tx>(
    work: &mut Work<'_, T>,
    pass: &PlanPass,
) -> Result<Vec<WorkerView>, StoreError> {
    work.refresh_roster(Look::Peek).await?;
    let apart = apart(work, pass).await?;
    Ok(work.roster.views(&apart))
}

/// Reserves what the plan says, as far as it still holds; says which gangs were placed.
async fn commit<T: Tx>(
    work: &mut Work<'_, T>,
    candidates: &[GangCandidate],
    views: &[WorkerView],
    plan: Vec<GangPlacement>,
) -> Result<Vec<GangId>, StoreError> {
    if plan.is_empty() {
        return Ok(Vec::new());
    }
    lock_gangs(work, plan.iter().filter_map(|piece| candidates[piece.candidate].gang()).collect()).await?;
    let chosen: BTreeSet<WorkerId> =
        plan.iter().flat_map(|piece| &piece.workers).filter_map(|at| views[*at].id.clone()).collect();
    let chosen: Vec<WorkerId> = chosen.into_iter().collect();
    work.lock_workers(&chosen).await?;
    // Like a claim: workers before the gates.
    let shapes: Vec<Option<Shape>> =
        plan.iter().map(|piece| shape_of(work, candidates[piece.candidate].gang()?)).collect();
    let mut gates = Gates::read(work, shapes.iter().flatten(), Look::Lock).await?;
    let (mut workers, mut changed) = work.take_workers();
    let tasks = plan.iter().flat_map(|piece| &piece.workers).filter_map(|at| views[*at].id.as_ref());
    void_promises(work, tasks, &mut workers).await?;
    let held: Vec<Worker> = chosen.iter().filter_map(|id| workers.get(id).cloned()).collect();
    let mut views_held = with_usage(work.tx, held).await?;
    devices::read_for(work.tx, candidates.iter().map(|gang| &gang.requirement), &mut views_held).await?;
    let mut room: HashMap<WorkerId, WorkerView> =
        views_held.into_iter().filter_map(|view| Some((view.id.clone()?, view))).collect();
    let mut placed = Vec::new();
    for (piece, shape) in plan.into_iter().zip(shapes) {
        let candidate = &candidates[piece.candidate];
        let names: Vec<WorkerId> = piece.workers.iter().filter_map(|at| views[*at].id.clone()).collect();
        let Some(gang) = candidate.gang().filter(|_| names.len() == piece.workers.len()) else { continue };
        let tasks = names.len() as u32;
        let open = |shape: &Shape| {
            let quota = gates.quota_beside(Some(candidate.unit), shape, tasks).unwrap_or(u32::MAX);
            gates.room(shape).min(quota) >= tasks
        };
        let Some(shape) = shape.filter(open) else { continue };
        let Some((after, devices)) = taken(&room, &names, candidate) else { continue };
        let places = places(work, gang, names.iter().zip(devices), &mut workers);
        if work.reserve(gang, &places).is_ok() {
            gates.take(&shape, names.len() as u32);
            for (name, view) in after {
                if let Some(worker) = workers.get_mut(&name) {
                    worker.kept = view.kept.clone().map(Box::new);
                }
                room.insert(name, view);
            }
            changed.extend(names);
            placed.push(gang);
        }
    }
    work.put_back_workers(workers, changed);
    let started: Vec<Job> = placed.iter().flat_map(|gang| work.tasks_of(*gang)).collect();
    gates.settle(work, started.iter()).await?;
    Ok(placed)
}

/// The shape of the tasks of a gang that is locked.
fn shape_of<T: Tx>(work: &Work<'_, T>, gang: GangId) -> Option<Shape> {
    Some(work.tasks_of(gang).iter().find(|task| !task.is_terminal())?.spec.shape())
}

/// Makes room among the ports of workers that run out of them: what was promised to a task that is no longer
/// there is free. Placements on a worker are made under its lock, so that none is missed here.
async fn void_promises<'a, T: Tx>(
    work: &mut Work<'_, T>,
    tasks: impl Iterator<Item = &'a WorkerId>,
    workers: &mut BTreeMap<WorkerId, Worker>,
) -> Result<(), StoreError> {
    let mut wanted: BTreeMap<&WorkerId, usize> = BTreeMap::new();
    for worker in tasks {
        *wanted.entry(worker).or_default() += 1;
    }
    for (id, wanted) in wanted {
        let Some(worker) = workers.get_mut(id).filter(|worker| worker.free_ports() < wanted) else {
            continue;
        };
        if worker.ports.promised.is_empty() {
            continue;
        }
        let statuses = vec![Status::Reserved, Status::Running, Status::Preempting];
        let filter = JobFilter { worker: Some(id.clone()), statuses, ..JobFilter::default() };
        let held = work.tx.list_jobs(&filter).await?;
        let held: Vec<u16> = held.iter().filter_map(|job| job.round.as_ref()?.port).collect();
        worker.void_promises_but(&held);
    }
    Ok(())
}

type Views = BTreeMap<WorkerId, WorkerView>;

/// The workers as they are with a task on each of `names`, and the GPUs of each task; `None` when one of them
/// has no room any more beside what it keeps for others.
fn taken(
    room: &HashMap<WorkerId, WorkerView>,
    names: &[WorkerId],
    gang: &GangCandidate,
) -> Option<(Views, Vec<Option<Grant>>)> {
    let (need, entrant) = (&gang.requirement, gang.entrant());
    let mut after = Views::new();
    let mut devices = Vec::with_capacity(names.len());
    for name in names {
        if !after.contains_key(name) {
            after.insert(name.clone(), room.get(name)?.clone());
        }
        let fits = |view: &&mut WorkerView| view.has_room_for(need) && view.admits(&entrant);
        let view = after.get_mut(name).filter(fits)?;
        devices.push(view.take(need));
        view.settle(&entrant);
    }
    Some((after, devices))
}

/// Pairs the tasks that wait, by index, with their workers, and takes a port of each.
fn places<'n, T: Tx>(
    work: &Work<'_, T>,
    gang: GangId,
    names: impl Iterator<Item = (&'n WorkerId, Option<Grant>)>,
    workers: &mut BTreeMap<WorkerId, Worker>,
) -> Vec<Place> {
    let tasks = work.tasks_of(gang);
    let open = tasks.iter().filter(|task| !task.is_terminal());
    let pair = |(task, (name, devices)): (&Job, (&WorkerId, Option<Grant>))| {
        let worker = workers.get_mut(name);
        let (host, told) =
            worker.as_ref().map_or((String::new(), None), |w| (w.host().to_owned(), w.told_port()));
        let port = told.or_else(|| worker.and_then(Worker::take_port));
        let address = match port {
            Some(port) if !host.is_empty() => format!("{host}:{port}"),
            _ => String::new(),
        };
        Place { task: task.id, worker: name.clone(), host, port, address, devices }
    };
    open.zip(names).map(pair).collect()
}
