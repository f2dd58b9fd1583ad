//! When and where work that does not fit now will start, from when others will have ended.
//!
//! Guarantees: the time is the earliest at which the work fits, as far as ends are known; the room that is
//! named is enough for all of it; what others may take beside it never touches that room.

use std::collections::BTreeMap;

use muster_domain::{Grant, KeptRoom, Resources, Timestamp, Unit};

use crate::fit::WorkerView;
use crate::gang::{GangCandidate, Pass};
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
    pub priority: i32,
    /// Since when it runs; `None` when it does not run yet.
    pub since: Option<Timestamp>,
    /// When it saved its work last.
    pub saved: Option<Timestamp>,
    /// It was told to stop.
    pub stopping: bool,
    pub preemptible: bool,
    /// Uses more than its queue owns.
    pub borrows: bool,
}

impl Occupant {
    /// What would be lost if it stopped now: seconds since it saved its work, times what it holds.
    pub(crate) fn cost(&self, now: Timestamp) -> u64 {
        let unsaved = self.saved.max(self.since).map_or(0, |saved| now.since(saved).as_micros() / 1_000_000);
        let weight = match (self.held.gpus, self.held.cpu_millis) {
            (0, 0) => 1,
            (0, millis) => millis.div_ceil(1000),
            // A GPU counts as much as the cores that usually come with it.
            (gpus, _) => gpus.saturating_mul(16),
        };
        unsaved.saturating_mul(weight)
    }
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
    let mut ends: Vec<Timestamp> = occupants.iter().filter_map(|occupant| occupant.ends).collect();
    ends.sort_unstable();
    ends.dedup();
    let fits_at = |at: Timestamp| places(&left_at(workers, occupants, Some(at)), unit, scoring).is_some();
    let index = ends.partition_point(|at| !fits_at(*at));
    let at = ends.get(index).copied();
    let rooms = rooms(&left_at(workers, occupants, at), unit, scoring, at)?;
    Some(Prospect { at, rooms })
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

pub(crate) fn places(workers: &[WorkerView], unit: &GangCandidate, scoring: Scoring) -> Option<Vec<usize>> {
    let whole = GangCandidate { limits: Vec::new(), ..unit.clone() };
    Pass::new(workers, &[], scoring).place(&whole, u32::MAX)
}

/// The room that the unit takes on these workers.
pub(crate) fn rooms(
    workers: &[WorkerView],
    unit: &GangCandidate,
    scoring: Scoring,
    until: Option<Timestamp>,
) -> Option<BTreeMap<usize, KeptRoom>> {
    let mut tasks: BTreeMap<usize, u32> = BTreeMap::new();
    for worker in places(workers, unit, scoring)? {
        *tasks.entry(worker).or_default() += 1;
    }
    Some(
        tasks
            .into_iter()
            .map(|(worker, tasks)| (worker, room(&workers[worker], unit, tasks, until)))
            .collect(),
    )
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
