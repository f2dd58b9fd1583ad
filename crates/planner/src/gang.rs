//! One pass over waiting gangs: each starts whole or not at all.
//!
//! Guarantees: every task of a placed gang has its worker; a gang that does not fit takes nothing and hides
//! none that fits; the choice does not depend on the order in which workers or gangs are given.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use muster_domain::{
    Entrant, GangId, PoolAt, Requirement, Resources, Timestamp, Topology, Turn, Unit, WorkerId,
};

use crate::fit::{Room, WorkerView};
use crate::place::first_holders;
use crate::policy::{Policies, turn_in_passing};
use crate::promise::Wish;
use crate::quota::Ledger;
use crate::score::{self, Key, Scoring};
use crate::share::{Contender, Turns};
use crate::topology::{self, Labels, Wanted};

/// A gang that waits for placement, reduced to what placement looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangCandidate {
    /// The gang; or a job outside gangs, where room is sought for it as for a gang of one.
    pub unit: Unit,
    /// Tasks that are to be placed (those that have not ended).
    pub tasks: u32,
    /// The fewest that a round may start with; as many as `tasks` when all must start.
    pub least: u32,
    /// The most tasks on one worker.
    pub per_worker: u32,
    pub priority: i32,
    pub pool: PoolAt,
    /// Its place by the policy of its pool: smaller goes first.
    pub rank: i64,
    /// Order of submission: smaller is older.
    pub seq: u64,
    /// Of one task.
    pub requirement: Requirement,
    /// Positions in the pass's `limits` that each started task counts against.
    pub limits: Vec<usize>,
    /// Workers that failed it or did not claim: used only as far as it cannot start without them.
    pub avoid: Vec<WorkerId>,
    /// When it will have ended if it starts now; `None` when nobody can say.
    pub ends: Option<Timestamp>,
    /// The place of its queue in the pass's ledger, where one is kept.
    pub seat: Option<usize>,
    /// Not preemptible.
    pub fixed: bool,
    /// Where its tasks are to be; close together, when absent and workers say where they are.
    pub topology: Option<Topology>,
}

impl GangCandidate {
    /// One of these tasks on each worker, all of them, with nothing else to say about it.
    pub const fn plain(unit: Unit, seq: u64, tasks: u32, requirement: Requirement) -> Self {
        Self {
            unit,
            tasks,
            least: tasks,
            per_worker: 1,
            priority: 0,
            pool: PoolAt(0),
            rank: 0,
            seq,
            requirement,
            limits: Vec::new(),
            avoid: Vec::new(),
            ends: None,
            seat: None,
            fixed: false,
            topology: None,
        }
    }

    /// The gang, when it is one.
    pub const fn gang(&self) -> Option<GangId> {
        match self.unit {
            Unit::Gang(id) => Some(id),
            Unit::Job(_) => None,
        }
    }

    const fn turn(&self) -> Turn {
        Turn::new(self.pool, self.rank, self.seq)
    }

    /// Sorts first what goes first.
    pub const fn key(&self) -> (Turn, Unit) {
        (self.turn(), self.unit)
    }

    pub fn entrant(&self) -> Entrant<'_> {
        Entrant { unit: self.unit, turn: self.turn(), need: &self.requirement.resources, ends: self.ends }
    }

    /// The fewest tasks that make a round; at least one.
    pub(crate) fn fewest(&self) -> u32 {
        self.least.clamp(1, self.tasks.max(1))
    }

    pub(crate) fn most_on_one(&self) -> u32 {
        self.per_worker.max(1)
    }
}

/// A gang that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangPlacement {
    /// Position in the list of gangs.
    pub candidate: usize,
    /// Worker position for each task that starts, in task order. Tasks on one worker are adjacent, and
    /// workers come in the order of their names, so that the same workers get the same tasks again.
    pub workers: Vec<usize>,
}

/// Places the gangs that fit, one after the other in the order of [`GangCandidate::key`], or in turn by queue
/// where a ledger is kept.
///
/// Whether workers ask for work does not matter; `limits` say how many more tasks may start under each.
pub fn place_gangs(
    workers: &[WorkerView],
    limits: &[u32],
    ledger: Option<&Ledger>,
    gangs: &[GangCandidate],
    policies: &Policies,
) -> Vec<GangPlacement> {
    let mut pass = Pass::new(workers, limits, policies.scoring());
    if let Some(ledger) = ledger {
        return in_turn(pass, ledger.clone(), gangs, policies);
    }
    let mut line: Vec<usize> = (0..gangs.len()).collect();
    line.sort_by_key(|index| gangs[*index].key());
    let holders = first_holders(workers);
    let is_behind = |gang: &GangCandidate| holders.get(&gang.pool).is_some_and(|first| *first < gang.turn());
    let (ahead, mut behind): (Vec<usize>, Vec<usize>) =
        line.into_iter().partition(|at| !is_behind(&gangs[*at]));
    let mut place = |candidate: &usize| {
        let workers = pass.place(&gangs[*candidate], u32::MAX)?;
        Some(GangPlacement { candidate: *candidate, workers })
    };
    let mut placements: Vec<GangPlacement> = ahead.iter().filter_map(&mut place).collect();
    let placed = placements.iter().map(|placed| gangs[placed.candidate].turn());
    let moved_on: HashSet<Turn> = placed.collect();
    behind.sort_by_key(|index| {
        let gang = &gangs[*index];
        // Where the one that room was kept for has started, nobody passes it: the others go in their order.
        let passes = holders.get(&gang.pool).is_some_and(|holder| !moved_on.contains(holder));
        let turn = passes.then(|| turn_in_passing(policies.at(gang.pool).passing(), gang.ends));
        (gang.pool, turn, gang.key())
    });
    placements.extend(behind.iter().filter_map(&mut place));
    placements
}

/// Places gangs queue by queue, each as far as the quota of its queue goes.
fn in_turn<'a>(
    mut pass: Pass<'a>,
    mut ledger: Ledger,
    gangs: &'a [GangCandidate],
    policies: &Policies,
) -> Vec<GangPlacement> {
    let seats: Vec<usize> =
        gangs.iter().map(|gang| gang.seat.unwrap_or_else(|| ledger.seat_or_add(None))).collect();
    let contender = |(gang, seat): (&GangCandidate, &usize)| {
        let one = ledger.row(&gang.requirement.resources);
        let need = one.iter().map(|amount| amount.saturating_mul(u64::from(gang.tasks))).collect();
        Contender {
            seat: *seat,
            pool: gang.pool,
            priority: gang.priority,
            rank: gang.rank,
            age: gang.seq,
            need,
            jobs: gang.tasks,
        }
    };
    let mut turns = Turns::new(gangs.iter().zip(&seats).map(contender).collect(), policies);
    let mut placements = Vec::new();
    while let Some(candidate) = turns.next(&ledger, |_| false) {
        let (gang, seat) = (&gangs[candidate], seats[candidate]);
        let need = ledger.row(&gang.requirement.resources);
        let wish = Wish { unit: Some(gang.unit), seat, need: &need, jobs: gang.tasks, fixed: gang.fixed };
        if let Some(workers) = pass.place(gang, ledger.room_beside(&wish)) {
            ledger.keep_promise(gang.unit);
            ledger.take(seat, &need, gang.fixed, workers.len() as u32);
            placements.push(GangPlacement { candidate, workers });
        }
    }
    placements
}

/// How many tasks of a gang a worker takes of which so much is free.
fn capacity(view: &WorkerView, free: &Resources, gang: &GangCandidate) -> u32 {
    // Nothing can be reserved on a claimer that gave no name.
    if view.id.is_none() || !view.carries(&gang.requirement) {
        return 0;
    }
    if view.total.is_none() {
        return gang.most_on_one();
    }
    let room = Room { free, slots: view.free_slots(), devices: view.devices.as_ref(), running: view.running };
    let (need, most) = (&gang.requirement, gang.most_on_one());
    room.capacity(need, most).min(view.capacity_beside(&gang.entrant(), need, most))
}

/// The same of a worker by itself.
pub(crate) fn tasks_on(view: &WorkerView, gang: &GangCandidate) -> u32 {
    let free = view.total.as_ref().map(|total| total.minus(&view.used)).unwrap_or_default();
    capacity(view, &free, gang)
}

/// A worker during the pass, with what would otherwise be computed for every gang again.
struct Host {
    view: WorkerView,
    free: Resources,
    key: Key,
    /// Its place among the names of all workers.
    name: usize,
}

impl Host {
    fn capacity(&self, gang: &GangCandidate) -> u32 {
        capacity(&self.view, &self.free, gang)
    }

    /// Whether it could take a task if it were empty.
    fn could_ever(&self, gang: &GangCandidate) -> bool {
        self.view.id.is_some()
            && self.view.carries(&gang.requirement)
            && self.view.capacity_ever(&gang.requirement, 1) > 0
    }

    fn refresh(&mut self, scoring: Scoring) {
        self.free = self.view.total.as_ref().map(|total| total.minus(&self.view.used)).unwrap_or_default();
        self.key = score::key(scoring, &self.view);
    }
}

/// A worker that can take tasks of the gang at hand. The order of the fields is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offer {
    pub(crate) avoided: bool,
    /// Many on one worker rather than few on many: tasks of a gang talk with each other.
    pub(crate) tasks: Reverse<u32>,
    key: Key,
    name: usize,
    pub(crate) worker: usize,
}

pub(crate) struct Pass<'a> {
    hosts: Vec<Host>,
    labels: Labels,
    limits: Vec<u32>,
    scoring: Scoring,
    /// Whether any worker keeps room.
    keeping: bool,
    /// Room only shrinks during a pass: no more tasks than this fit, of this need with so many on a worker.
    /// Empty when room is kept, because then it matters who asks.
    at_most: HashMap<(&'a Requirement, u32), u64>,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(workers: &[WorkerView], limits: &[u32], scoring: Scoring) -> Self {
        let mut names: Vec<usize> = (0..workers.len()).collect();
        names.sort_by(|a, b| workers[*a].id.cmp(&workers[*b].id));
        let mut hosts: Vec<Host> = workers
            .iter()
            .map(|view| Host { view: view.clone(), free: Resources::default(), key: Key::default(), name: 0 })
            .collect();
        for (name, position) in names.into_iter().enumerate() {
            hosts[position].name = name;
        }
        for host in &mut hosts {
            host.refresh(scoring);
        }
        let keeping = workers.iter().any(|worker| worker.kept.is_some());
        let labels = Labels::of(workers);
        let limits = limits.to_vec();
        Self { hosts, labels, limits, scoring, keeping, at_most: HashMap::new() }
    }

    /// The workers of the gang's tasks, no more than `most`, taken; `None` when it does not fit.
    pub(crate) fn place(&mut self, gang: &'a GangCandidate, most: u32) -> Option<Vec<usize>> {
        let allowed = self.allowed(gang).min(gang.tasks).min(most);
        let known = (&gang.requirement, gang.most_on_one());
        let hopeless = self.at_most.get(&known).is_some_and(|room| *room < u64::from(gang.fewest()));
        if gang.tasks == 0 || allowed < gang.fewest() || hopeless {
            return None;
        }
        let offers = self.offers(gang);
        let all = offers.iter().map(|offer| u64::from(offer.tasks.0)).sum();
        if !self.keeping {
            self.at_most.insert(known, all);
        }
        if all < u64::from(gang.fewest()) {
            return None;
        }
        let ever = |worker: usize| self.hosts[worker].could_ever(gang);
        let wanted = Wanted { gang, allowed, ever: &ever };
        let shares = topology::share_out(&self.labels, &wanted, offers)?;
        Some(self.take(gang, shares))
    }

    /// How many tasks the limits let start.
    pub(crate) fn allowed(&self, gang: &GangCandidate) -> u32 {
        let each = |limit: &usize| -> Option<u32> {
            let times = gang.limits.iter().filter(|other| *other == limit).count() as u32;
            self.limits.get(*limit).map(|left| left / times.max(1))
        };
        gang.limits.iter().filter_map(each).min().unwrap_or(u32::MAX)
    }

    /// Looked for one by one: few gangs avoid anybody.
    fn position(&self, worker: &WorkerId) -> Option<usize> {
        self.hosts.iter().position(|host| host.view.id.as_ref() == Some(worker))
    }

    fn offers(&self, gang: &GangCandidate) -> Vec<Offer> {
        let avoid: HashSet<usize> = gang.avoid.iter().filter_map(|id| self.position(id)).collect();
        let offer = |(worker, host): (usize, &Host)| {
            let tasks = Reverse(host.capacity(gang));
            let avoided = !avoid.is_empty() && avoid.contains(&worker);
            (tasks.0 > 0).then_some(Offer { avoided, tasks, key: host.key, name: host.name, worker })
        };
        self.hosts.iter().enumerate().filter_map(offer).collect()
    }

    /// Counts the gang, and gives the worker of each task.
    fn take(&mut self, gang: &GangCandidate, mut shares: Vec<(Offer, u32)>) -> Vec<usize> {
        shares.sort_by_key(|(offer, _)| offer.name);
        // A worker is in one domain, so that no two shares are of one worker.
        let mut workers = Vec::new();
        for (offer, tasks) in shares {
            let host = &mut self.hosts[offer.worker];
            for _ in 0..tasks {
                host.view.take(&gang.requirement);
                host.view.enter(&gang.entrant());
                workers.push(offer.worker);
            }
            host.refresh(self.scoring);
        }
        for limit in &gang.limits {
            if let Some(left) = self.limits.get_mut(*limit) {
                *left = left.saturating_sub(workers.len() as u32);
            }
        }
        workers
    }
}

/// Shares `count` tasks out among the best offers, which have room for that many.
pub(crate) fn share(mut offers: Vec<Offer>, count: u32) -> Vec<(Offer, u32)> {
    // No more than `count` of them are looked at, and the others need no order.
    let looked_at = (count as usize).min(offers.len());
    if looked_at < offers.len() {
        offers.select_nth_unstable(looked_at);
    }
    offers[..looked_at].sort_unstable();
    let mut shares = Vec::new();
    let mut left = count;
    for index in 0..looked_at {
        let best = offers[index];
        let chosen = if best.tasks.0 > left { tightest(&offers[index..], best, left) } else { best };
        let tasks = chosen.tasks.0.min(left);
        shares.push((chosen, tasks));
        left -= tasks;
        if left == 0 {
            break;
        }
    }
    shares
}

/// The best place for the last few tasks, which need no worker as roomy as `best`.
fn tightest(rest: &[Offer], best: Offer, left: u32) -> Offer {
    rest.iter()
        .filter(|offer| offer.avoided == best.avoided && offer.tasks.0 >= left)
        .min_by_key(|offer| (offer.key, offer.name))
        .copied()
        .unwrap_or(best)
}

#[cfg(test)]
#[path = "gang_tests.rs"]
mod tests;
