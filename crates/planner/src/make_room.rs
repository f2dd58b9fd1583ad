//! Who has to stop so that more important work can start.
//!
//! Guarantees: only those are chosen that were offered; after they are gone the work fits, as the same
//! placement sees it that will place it; none of them could be spared without the others; nobody is chosen
//! when stopping all of them would not help.

use std::collections::BTreeMap;

use muster_domain::{Grant, KeptRoom, Resources, Unit};

use crate::fit::WorkerView;
use crate::gang::GangCandidate;
use crate::prospect;
use crate::score::Scoring;

/// Work that runs and may be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    pub unit: Unit,
    pub priority: i32,
    /// Uses more than its queue owns.
    pub borrows: bool,
    /// What its stop would waste, in resources times seconds.
    pub cost: u64,
    /// What it holds: position of the worker, amounts and GPUs, once for each task.
    pub holds: Vec<(usize, Resources, Option<Grant>)>,
}

impl Victim {
    pub(crate) const fn new(unit: Unit, priority: i32) -> Self {
        Self { unit, priority, borrows: false, cost: 0, holds: Vec::new() }
    }

    /// Sorts first who is stopped first.
    fn key(&self) -> (i32, bool, u64, usize, Unit) {
        (self.priority, !self.borrows, self.cost, self.holds.len(), self.unit)
    }
}

/// Who stops, and the room that comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeRoom<V = usize> {
    /// Positions in the list of victims, or their names, in the order in which they were chosen.
    pub victims: Vec<V>,
    /// The room to keep until it is there, by position of the worker.
    pub rooms: BTreeMap<usize, KeptRoom>,
}

/// Chooses the victims for a unit; `None` when it would not fit even without all of them.
pub fn make_room(
    workers: &[WorkerView],
    unit: &GangCandidate,
    victims: &[Victim],
    scoring: Scoring,
) -> Option<MadeRoom> {
    let mut line: Vec<usize> = (0..victims.len()).collect();
    line.sort_by_key(|index| victims[*index].key());
    let places =
        |chosen: &[usize]| prospect::places(&without(workers, victims, chosen), unit, scoring).is_some();
    if !places(&line) {
        return None;
    }
    // More victims never leave less room, so that the shortest sufficient beginning can be searched for.
    let (mut short, mut long) = (0, line.len());
    while short < long {
        let middle = usize::midpoint(short, long);
        if places(&line[..middle]) { long = middle } else { short = middle + 1 }
    }
    let mut chosen = line[..long].to_vec();
    for spared in (0..chosen.len()).rev() {
        let mut fewer = chosen.clone();
        fewer.remove(spared);
        if places(&fewer) {
            chosen = fewer;
        }
    }
    let rooms = prospect::rooms(&without(workers, victims, &chosen), unit, scoring, None)?;
    Some(MadeRoom { victims: chosen, rooms })
}

fn without(workers: &[WorkerView], victims: &[Victim], gone: &[usize]) -> Vec<WorkerView> {
    let mut left = workers.to_vec();
    for (worker, held, devices) in gone.iter().flat_map(|victim| &victims[*victim].holds) {
        if let Some(worker) = left.get_mut(*worker) {
            worker.leave(held, devices.as_ref());
        }
    }
    left
}

#[cfg(test)]
#[path = "make_room_tests.rs"]
mod tests;
