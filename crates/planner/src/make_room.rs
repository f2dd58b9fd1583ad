//! Who has to stop so that other work can start, by the rules of [`crate::policy`].
//!
//! Guarantees: only those are chosen that may be stopped for it; after they are gone the work fits, as the same
//! placement sees it that will place it, and the quota of its queue lets it start; none of them could be spared
//! without the others; nobody is chosen when stopping all of them would not help; what is taken back for an
//! owner of quota does not turn shares round.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{Grant, KeptRoom, PoolAt, Resources, Timestamp, Unit};

use crate::fit::WorkerView;
use crate::gang::{GangCandidate, tasks_on};
use crate::policy::{Cause, Party, Policies, Trial, Victim, cause, choose};
use crate::prospect;
use crate::quota::Ledger;
use crate::reclaim::Stake;

/// A GPU counts as much as the cores that usually come with it, in thousandths of a core.
const GPU: u64 = 16_000;

/// How much is lost with each second that these are held in vain, in thousandths of a core.
pub fn size(held: &Resources) -> u64 {
    if held.gpus > 0 { held.gpus.saturating_mul(GPU) } else { held.cpu_millis.max(1) }
}

/// Work that runs: a job outside gangs, or all tasks of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub unit: Unit,
    pub pool: PoolAt,
    pub priority: i32,
    pub level: u8,
    /// Has waited for very long before, and is not stopped for reasons of level.
    pub pinned: bool,
    /// What its stop would waste, as [`crate::policy::cost`] counts it.
    pub cost: u64,
    /// Since when the last of its tasks runs.
    pub since: Timestamp,
    pub(crate) stake: Option<Stake>,
    /// What it holds: position of the worker, amounts and GPUs, once for each task.
    pub holds: Vec<(usize, Resources, Option<Grant>)>,
}

/// What comes, as far as others may have to stop for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) unit: &'a GangCandidate,
    pub(crate) stake: Option<&'a Stake>,
    /// The one that its standing counts with: the first, for what is pinned.
    pub(crate) level: u8,
    /// In whose favour it was stopped: that one is not stopped for it.
    pub(crate) stopped_for: Option<Unit>,
}

/// Where stops are tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) workers: &'a [WorkerView],
    pub(crate) tenants: &'a BTreeMap<Unit, Tenant>,
    pub(crate) ledger: Option<&'a Ledger>,
    pub(crate) policies: &'a Policies,
    /// The most that stops may waste that priority does not demand.
    pub(crate) allowed: u64,
}

/// Who stops and why, and the room that comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MadeRoom {
    pub(crate) victims: Vec<Victim<Unit>>,
    /// The room to keep until it is there, by position of the worker.
    pub(crate) rooms: BTreeMap<usize, KeptRoom>,
}

/// Chooses the victims for a unit; `None` when it would not fit even without all that may be stopped for it.
pub(crate) fn make_room(scene: &Scene<'_>, incoming: &Incoming<'_>) -> Option<MadeRoom> {
    let mut sketch = Sketch::new(scene, incoming);
    if let Some(places) = sketch.places() {
        return Some(MadeRoom { victims: Vec::new(), rooms: sketch.rooms(&places) });
    }
    let all = candidates(scene, incoming, &sketch);
    let Some(comes) = incoming.stake.filter(|_| all.iter().any(|victim| victim.cause == Cause::Quota)) else {
        let victims = choose(&mut sketch, &all, scene.allowed)?;
        let places = sketch.places()?;
        return Some(MadeRoom { victims, rooms: sketch.rooms(&places) });
    };
    // First those that may all be stopped one after the other; then any, who are asked for afterwards.
    let ledger = scene.ledger?;
    for line in [in_turn(ledger, comes, scene.tenants, &all), all] {
        let mut sketch = Sketch::new(scene, incoming);
        let Some(victims) = choose(&mut sketch, &line, scene.allowed) else { continue };
        let Some(places) = sketch.places() else { continue };
        if are_taken_back(ledger, comes, scene.tenants, &victims) {
            return Some(MadeRoom { victims, rooms: sketch.rooms(&places) });
        }
    }
    None
}

/// All whose stop is allowed and may be of help, in the order in which they are taken.
fn candidates(scene: &Scene<'_>, incoming: &Incoming<'_>, sketch: &Sketch<'_>) -> Vec<Victim<Unit>> {
    let lacks_quota = sketch.most() < incoming.unit.fewest();
    let need = &incoming.unit.requirement;
    let useful =
        |worker: usize| scene.workers.get(worker).is_some_and(|worker| worker.capacity_ever(need, 1) > 0);
    let owns = |stake: Option<&Stake>| {
        let (ledger, stake) = (scene.ledger?, stake?);
        Some(ledger.is_own(stake))
    };
    let comes_own = owns(incoming.stake).unwrap_or(true);
    let by_level = scene.policies.at(incoming.unit.pool).preempt_by_level;
    let over = scene.ledger.map(Ledger::seats_over).unwrap_or_default();
    let victim = |tenant: &Tenant| {
        // Most may not be stopped, whatever their quotas are.
        let may_borrow = tenant.stake.as_ref().is_some_and(|stake| over.get(stake.seat) == Some(&true));
        if tenant.priority >= incoming.unit.priority && !by_level && !may_borrow {
            return None;
        }
        let related = scene
            .ledger
            .zip(incoming.stake.zip(tenant.stake.as_ref()))
            .filter(|(ledger, (a, b))| ledger.are_related(a.seat, b.seat));
        let borrows = related.is_some_and(|(ledger, (_, runs))| ledger.borrows(runs));
        let seat = |stake: Option<&Stake>| stake.map_or(u32::MAX, |stake| stake.seat as u32);
        let comes = Party {
            priority: incoming.unit.priority,
            level: incoming.level,
            pinned: false,
            queue: seat(incoming.stake),
            borrows: related.is_some() && !comes_own,
        };
        let runs = Party {
            priority: tenant.priority,
            level: tenant.level,
            pinned: tenant.pinned,
            queue: seat(tenant.stake.as_ref()),
            borrows,
        };
        let cause = cause(comes, runs, by_level)
            .filter(|cause| scene.policies.may_stop(incoming.unit.pool, tenant.pool, *cause))?;
        let helps = || tenant.holds.iter().any(|(worker, ..)| useful(*worker));
        if incoming.stopped_for == Some(tenant.unit) || !(lacks_quota && related.is_some() || helps()) {
            return None;
        }
        Some(Victim {
            priority: tenant.priority,
            owns: !borrows,
            level: Reverse(tenant.level),
            cost: tenant.cost,
            since: Reverse(tenant.since),
            unit: tenant.unit,
            cause,
        })
    };
    let mut found: Vec<Victim<Unit>> = scene.tenants.values().filter_map(victim).collect();
    found.sort_unstable();
    found
}

/// The candidates without those that may not be taken back once the others before them are; of borrowers of one
/// priority, the queue with the largest share gives first.
fn in_turn(
    ledger: &Ledger,
    comes: &Stake,
    tenants: &BTreeMap<Unit, Tenant>,
    all: &[Victim<Unit>],
) -> Vec<Victim<Unit>> {
    let mut ledger = ledger.clone();
    let mut line = Vec::with_capacity(all.len());
    let stake = |victim: &Victim<Unit>| tenants.get(&victim.unit).and_then(|tenant| tenant.stake.as_ref());
    for group in all.chunk_by(|one, next| (one.priority, one.owns) == (next.priority, next.owns)) {
        // Within a queue the order stays; the next of each is looked at.
        let mut lanes: BTreeMap<Option<usize>, Vec<&Victim<Unit>>> = BTreeMap::new();
        for victim in group.iter().rev() {
            lanes
                .entry(stake(victim).filter(|_| !victim.owns).map(|stake| stake.seat))
                .or_default()
                .push(victim);
        }
        while let Some(seat) = lanes
            .keys()
            .copied()
            .max_by_key(|seat| (seat.map(|seat| ledger.share(seat, &[], 0)), Reverse(*seat)))
        {
            let lane = lanes.entry(seat).or_default();
            let next = lane.pop();
            if lane.is_empty() {
                lanes.remove(&seat);
            }
            let Some(victim) = next else { continue };
            let Some(runs) = stake(victim) else {
                line.push(*victim);
                continue;
            };
            if victim.cause != Cause::Quota || ledger.may_take_back(comes, runs) {
                ledger.leave(runs);
                line.push(*victim);
            }
        }
    }
    line
}

/// Whether each of these may be taken back, one after the other.
fn are_taken_back(
    ledger: &Ledger,
    comes: &Stake,
    tenants: &BTreeMap<Unit, Tenant>,
    victims: &[Victim<Unit>],
) -> bool {
    let mut ledger = ledger.clone();
    victims.iter().all(|victim| {
        let Some(runs) = tenants.get(&victim.unit).and_then(|tenant| tenant.stake.as_ref()) else {
            return true;
        };
        let allowed = victim.cause != Cause::Quota || ledger.may_take_back(comes, runs);
        ledger.leave(runs);
        allowed
    })
}

/// The workers and the quotas as they would be without some of what runs.
struct Sketch<'a> {
    scene: &'a Scene<'a>,
    incoming: &'a Incoming<'a>,
    /// Copied when the first of them is tried without somebody.
    left: Cow<'a, [WorkerView]>,
    /// How many tasks each of them takes, and all together.
    tasks: Vec<u32>,
    all: u64,
    ledger: Option<Ledger>,
    /// Who is gone from each worker.
    gone: BTreeMap<usize, BTreeSet<Unit>>,
}

impl<'a> Sketch<'a> {
    fn new(scene: &'a Scene<'a>, incoming: &'a Incoming<'a>) -> Self {
        let ledger = scene.ledger.filter(|_| incoming.stake.is_some()).cloned();
        let tasks: Vec<u32> = scene.workers.iter().map(|worker| tasks_on(worker, incoming.unit)).collect();
        let all = tasks.iter().copied().map(u64::from).sum();
        let left = Cow::Borrowed(scene.workers);
        Self { scene, incoming, left, tasks, all, ledger, gone: BTreeMap::new() }
    }

    /// How many tasks the quota lets start.
    fn most(&self) -> u32 {
        let stake = self.ledger.as_ref().zip(self.incoming.stake);
        stake.map_or(u32::MAX, |(ledger, stake)| ledger.room(stake.seat, &stake.need, stake.fixed))
    }

    /// Whether enough tasks have room and may start. Where no domain is asked for that is all that it takes.
    fn has_enough(&self) -> bool {
        let fewest = self.incoming.unit.fewest();
        self.incoming.unit.tasks > 0 && self.all >= u64::from(fewest) && self.most() >= fewest
    }

    fn places(&self) -> Option<Vec<usize>> {
        if !self.has_enough() {
            return None;
        }
        prospect::places(&self.left, self.incoming.unit, self.scene.policies.scoring(), self.most())
    }

    fn rooms(&self, places: &[usize]) -> BTreeMap<usize, KeptRoom> {
        prospect::rooms(&self.left, self.incoming.unit, places, None)
    }

    /// Works out anew what is left of the workers of a unit.
    fn settle(&mut self, tenant: &Tenant) {
        for (worker, ..) in &tenant.holds {
            let Some(left) = self.left.to_mut().get_mut(*worker) else { continue };
            left.clone_from(&self.scene.workers[*worker]);
            let gone = self.gone.get(worker).into_iter().flatten();
            for unit in gone.filter_map(|unit| self.scene.tenants.get(unit)) {
                let here = unit.holds.iter().filter(|(at, ..)| at == worker);
                here.for_each(|(_, held, devices)| left.leave(held, devices.as_ref()));
            }
            let tasks = tasks_on(left, self.incoming.unit);
            self.all = self.all - u64::from(self.tasks[*worker]) + u64::from(tasks);
            self.tasks[*worker] = tasks;
        }
    }
}

impl Trial<Unit> for Sketch<'_> {
    fn stop(&mut self, unit: Unit) {
        let Some(tenant) = self.scene.tenants.get(&unit) else { return };
        for (worker, ..) in &tenant.holds {
            self.gone.entry(*worker).or_default().insert(unit);
        }
        self.settle(tenant);
        if let Some((ledger, stake)) = self.ledger.as_mut().zip(tenant.stake.as_ref()) {
            ledger.leave(stake);
        }
    }

    fn restore(&mut self, unit: Unit) {
        let Some(tenant) = self.scene.tenants.get(&unit) else { return };
        for (worker, ..) in &tenant.holds {
            if let Some(gone) = self.gone.get_mut(worker) {
                gone.remove(&unit);
            }
        }
        self.settle(tenant);
        if let Some((ledger, stake)) = self.ledger.as_mut().zip(tenant.stake.as_ref()) {
            ledger.enter(stake);
        }
    }

    fn fits(&self) -> bool {
        let required = self.incoming.unit.topology.as_ref().is_some_and(|topology| topology.required);
        self.has_enough() && (!required || self.places().is_some())
    }
}

#[cfg(test)]
#[path = "make_room_tests.rs"]
mod tests;
