//! What time does to units: those that run climb the levels, those that wait grow old, and the allowance for
//! stops fills up.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{Span, Timestamp};

use super::ids::UnitId;
use super::unit::{Entry, State};
use super::{Board, amounts};
use crate::policy::{Allowance, Key, Service};

/// What is due when, and what is counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    /// When those that run reach their next level.
    climbs: BTreeSet<(Timestamp, UnitId)>,
    /// When those that are pinned have run for as long as they had waited.
    unpins: BTreeSet<(Timestamp, UnitId)>,
    /// When those that wait have waited for very long.
    ages: BTreeSet<(Timestamp, UnitId)>,
    /// Those that wait and have.
    pub(crate) aged: BTreeSet<Key>,
    /// What runs and may be stopped, in GPUs and thousandths of cores, by priority and level.
    held: BTreeMap<(i32, u8), [u64; 2]>,
    /// What pinned work holds.
    pinned: [u64; 2],
    /// What all that runs holds.
    used: [u64; 2],
    /// What stops may still waste, in thousandths of the pool's scarcest kind times microseconds.
    pub(crate) allowance: Allowance,
}

impl Clocks {
    /// The next time that something is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let first = |set: &BTreeSet<(Timestamp, UnitId)>| set.first().map(|(at, _)| *at);
        [first(&self.climbs), first(&self.unpins), first(&self.ages)].into_iter().flatten().min()
    }
}

impl Board {
    /// What a unit is measured by: GPUs, or cores when it needs none.
    fn kind(&self, entry: &Entry) -> usize {
        let need = &self.shapes[entry.unit.shape.index()].need;
        if need.fixed[amounts::GPUS] > 0 { amounts::GPUS } else { amounts::CPUS }
    }

    pub(crate) fn service(&self, entry: &Entry, ran: Span) -> Service {
        self.shapes[entry.unit.shape.index()].need.service(entry.unit.tasks, ran)
    }

    /// All that there is of what a unit is measured by.
    pub(crate) fn total_of(&self, entry: &Entry) -> u64 {
        self.nodes.total.fixed[self.kind(entry)]
    }

    pub(crate) fn used_of(&self, entry: &Entry) -> u64 {
        self.clocks.used[self.kind(entry)]
    }

    pub(crate) fn pinned_of(&self, entry: &Entry) -> u64 {
        self.clocks.pinned[self.kind(entry)]
    }

    /// What could be taken from those of lower standing.
    pub(crate) fn held_below(&self, entry: &Entry, level: u8) -> u64 {
        let priority = entry.unit.priority;
        let kind = self.kind(entry);
        let held = self.clocks.held.iter();
        let below = held.filter(|((of, at), _)| *of < priority || (*of == priority && *at > level));
        below.map(|(_, held)| held[kind]).sum()
    }

    /// Whether anything runs that could be stopped for such a standing.
    pub(crate) fn stands_above_any(&self, priority: i32, level: u8) -> bool {
        let below = |(of, at): &(i32, u8)| *of < priority || (*of == priority && *at > level);
        self.clocks.held.iter().any(|(standing, held)| below(standing) && *held != [0, 0])
    }

    fn count_held(&mut self, id: UnitId, more: bool) {
        let entry = &self.entries[id.index()];
        let need = &self.shapes[entry.unit.shape.index()].need;
        let change = |sums: &mut [u64; 2]| {
            for (sum, need) in sums.iter_mut().zip(need.fixed) {
                let all = need.saturating_mul(u64::from(entry.unit.tasks));
                *sum = if more { sum.saturating_add(all) } else { sum.saturating_sub(all) };
            }
        };
        change(&mut self.clocks.used);
        if entry.pinned {
            change(&mut self.clocks.pinned);
        }
        if entry.unit.preemptible {
            change(self.clocks.held.entry((entry.unit.priority, entry.level)).or_default());
        }
    }

    pub(crate) fn clock_waiting(&mut self, id: UnitId) {
        let entry = &self.entries[id.index()];
        let at = self.policy.aged_at(entry.since, entry.past.waited, entry.past.ran);
        self.clocks.ages.insert((at, id));
    }

    pub(crate) fn unclock_waiting(&mut self, id: UnitId) {
        let entry = &self.entries[id.index()];
        let at = self.policy.aged_at(entry.since, entry.past.waited, entry.past.ran);
        if !self.clocks.ages.remove(&(at, id)) {
            let key = self.key(id);
            self.clocks.aged.remove(&key);
        }
    }

    fn climbs_at(&self, id: UnitId) -> Option<Timestamp> {
        let entry = &self.entries[id.index()];
        self.policy.climbs_at(entry.level, self.service(entry, entry.past.ran), entry.since)
    }

    pub(crate) fn clock_running(&mut self, id: UnitId) {
        self.clocks.climbs.extend(self.climbs_at(id).map(|at| (at, id)));
        self.clocks.unpins.extend(self.unpins_at(id).map(|at| (at, id)));
        self.count_held(id, true);
    }

    fn unpins_at(&self, id: UnitId) -> Option<Timestamp> {
        let entry = &self.entries[id.index()];
        entry.pinned.then(|| self.policy.unpinned_at(entry.since, entry.past.waited, entry.past.ran))
    }

    pub(crate) fn unclock_running(&mut self, id: UnitId) {
        if let Some(at) = self.climbs_at(id) {
            self.clocks.climbs.remove(&(at, id));
        }
        if let Some(at) = self.unpins_at(id) {
            self.clocks.unpins.remove(&(at, id));
        }
        self.count_held(id, false);
    }

    /// Does what is due by now.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.clocks.climbs.first().copied().filter(|(at, _)| *at <= now) {
            debug_assert!(at <= now);
            self.unclock_running(id);
            self.entries[id.index()].level += 1;
            self.clock_running(id);
        }
        while let Some((at, id)) = self.clocks.unpins.first().copied().filter(|(at, _)| *at <= now) {
            self.unclock_running(id);
            debug_assert!(at <= now);
            self.entries[id.index()].pinned = false;
            self.clock_running(id);
        }
        while let Some((at, id)) = self.clocks.ages.first().copied().filter(|(at, _)| *at <= now) {
            self.clocks.ages.remove(&(at, id));
            debug_assert_eq!(self.entries[id.index()].state, State::Waiting);
            let key = self.key(id);
            self.clocks.aged.insert(key);
        }
        self.fill_allowance(now);
    }

    fn fill_allowance(&mut self, now: Timestamp) {
        let total = &self.nodes.total.fixed;
        let size = if total[amounts::GPUS] > 0 { total[amounts::GPUS] } else { total[amounts::CPUS] };
        self.clocks.allowance.fill(size, self.policy.waste_per_mille, now);
    }
}
