//! When and where work that does not fit now will start, from when others will have ended.
//!
//! Guarantees: the time is the earliest at which the work fits, as far as ends are known; the room that is
//! named is enough for all of it; what others may take beside it never touches that room.

use std::collections::BTreeMap;

use muster_domain::{Grant, KeptRoom, PoolAt, Resources, Timestamp, Unit};

use crate::fit::WorkerView;
use crate::gang::{GangCandidate, Pass, tasks_on};
use crate::score::Scoring;

/// A job that holds room on a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    /// Position of the worker.
    pub worker: usize,
    pub held: Resources,
    /// Its GPUs, where they are told apart.
    pub devices: Option<Grant>,
    /// When it will have ended; `None` when nobody can say.
    pub ends: Option<Timestamp>,
    /// Itself, or its gang.
    pub unit: Unit,
    /// The one of its job.
    pub pool: PoolAt,
    pub priority: i32,
    /// The place of its queue in the ledger, where one is kept.
    pub seat: Option<usize>,
    /// Since when it runs; `None` when it does not run yet.
    pub since: Option<Timestamp>,
    /// Since when it could have run.
    pub ready: Timestamp,
    /// When it saved its work last.
    pub saved: Option<Timestamp>,
    /// It was told to stop.
    pub stopping: bool,
    pub preemptible: bool,
    /// Of the service that its unit has had.
    pub level: u8,
    /// It waited for very long before, and is not stopped for reasons of level.
    pub pinned: bool,
}

/// Where a unit will start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prospect {
    /// `None` when it has to wait for somebody whose end is not known.
    pub at: Option<Timestamp>,
    /// The room to keep, by position of the worker.
    pub rooms: BTreeMap<usize, KeptRoom>,
}

/// Foresees the start of a unit; `None` when it does not fit even when nobody else is left.
pub fn prospect(
    workers: &[WorkerView],
    occupants: &[Occupant],
    unit: &GangCandidate,
    scoring: Scoring,
) -> Option<Prospect> {
    let ends = hopeful(workers, occupants, unit);
    let fit_at = |at: Option<Timestamp>| {
        let left = left_at(workers, occupants, at);
        let places = places(&left, unit, scoring, u32::MAX)?;
        Some(Prospect { at, rooms: rooms(&left, unit, &places, at) })
    };
    // Where no domain is asked for, the first of them is the one.
    if let Some(found) = ends.first().and_then(|first| fit_at(Some(*first))) {
        return Some(found);
    }
    let index = ends.partition_point(|at| fit_at(Some(*at)).is_none());
    fit_at(ends.get(index).copied())
}

/// The ends from the first one on at which there is room for as many tasks as are needed, wherever that may be.
fn hopeful(workers: &[WorkerView], occupants: &[Occupant], unit: &GangCandidate) -> Vec<Timestamp> {
    let mut leaving: Vec<(Timestamp, &Occupant)> =
        occupants.iter().filter_map(|occupant| Some((occupant.ends?, occupant))).collect();
    leaving.sort_unstable_by_key(|(ends, occupant)| (*ends, occupant.worker));
    let mut left = workers.to_vec();
    let tasks = |view: &WorkerView| u64::from(tasks_on(view, unit));
    let mut room: Vec<u64> = left.iter().map(tasks).collect();
    let mut all: u64 = room.iter().sum();
    let mut ends = Vec::new();
    for together in leaving.chunk_by(|one, next| one.0 == next.0) {
        for (_, occupant) in together {
            if all >= u64::from(unit.fewest()) {
                break;
            }
            let Some(worker) = left.get_mut(occupant.worker) else { continue };
            worker.leave(&occupant.held, occupant.devices.as_ref());
            let now = tasks(worker);
            all = all - room[occupant.worker] + now;
            room[occupant.worker] = now;
        }
        if all >= u64::from(unit.fewest()) {
            ends.extend(together.first().map(|(at, _)| *at));
        }
    }
    ends
}

/// The workers with only those left that end after `at`; with nobody left at the end of all time.
fn left_at(workers: &[WorkerView], occupants: &[Occupant], at: Option<Timestamp>) -> Vec<WorkerView> {
    let mut left = workers.to_vec();
    let gone = |occupant: &&Occupant| at.is_none_or(|at| occupant.ends.is_some_and(|ends| ends <= at));
    for occupant in occupants.iter().filter(gone) {
        if let Some(worker) = left.get_mut(occupant.worker) {
            worker.leave(&occupant.held, occupant.devices.as_ref());
        }
    }
    left
}

/// The workers of the unit's tasks, of which no more than `most` may start.
pub(crate) fn places(
    workers: &[WorkerView],
    unit: &GangCandidate,
    scoring: Scoring,
    most: u32,
) -> Option<Vec<usize>> {
    // Most units that are asked about do not fit: that is seen without a pass.
    let mut room = 0;
    let enough = workers.iter().any(|worker| {
        room += u64::from(tasks_on(worker, unit));
        room >= u64::from(unit.fewest())
    });
    if !enough {
        return None;
    }
    let whole = GangCandidate { limits: Vec::new(), ..unit.clone() };
    Pass::new(workers, &[], scoring).place(&whole, most)
}

/// The room that the unit takes on these workers, with a task on each of `places`.
pub(crate) fn rooms(
    workers: &[WorkerView],
    unit: &GangCandidate,
    places: &[usize],
    until: Option<Timestamp>,
) -> BTreeMap<usize, KeptRoom> {
    let mut tasks: BTreeMap<usize, u32> = BTreeMap::new();
    for worker in places {
        *tasks.entry(*worker).or_default() += 1;
    }
    tasks.into_iter().map(|(worker, tasks)| (worker, room(&workers[worker], unit, tasks, until))).collect()
}

fn room(worker: &WorkerView, unit: &GangCandidate, tasks: u32, until: Option<Timestamp>) -> KeptRoom {
    let mut resources = Resources::default();
    let mut after = worker.clone();
    for _ in 0..tasks {
        resources.add(&unit.requirement.resources);
        after.take(&unit.requirement);
    }
    KeptRoom {
        unit: unit.unit,
        priority: unit.priority,
        pool: unit.pool,
        rank: unit.rank,
        seq: unit.seq,
        tasks,
        spare: after.free(),
        spare_slots: after.free_slots(),
        resources,
        until,
    }
}

#[cfg(test)]
#[path = "prospect_tests.rs"]
pub(crate) mod tests;
