//! What is done for work that does not fit: who stops for it, which room is kept for it, when it will start.
//!
//! Guarantees: nobody is stopped but for a reason of [`crate::policy::cause`], before it ran for a while, for
//! whom stopped for it, or when stopping it does not help; stops that priority does not demand waste no more than is allowed;
//! room that comes free anyway is waited for; one unit of a pool at a time holds room on the strength of foreseen
//! ends alone; a worker keeps room for one unit; room is kept for nobody whose quota does not let it start.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{KeptRoom, Span, Timestamp, Unit};

use crate::fit::WorkerView;
use crate::gang::GangCandidate;
use crate::make_room::{Incoming, MadeRoom, Scene, Tenant, make_room, size};
use crate::policy::{Ages, Allowances, Cause, Passing, Policies, Policy, Service, cost};
use crate::prospect::{Occupant, prospect};
use crate::quota::Ledger;
use crate::reclaim::Stake;
use crate::strict;

/// A unit that waits, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub unit: GangCandidate,
    pub since: Timestamp,
    /// Of the service that it has had; the first, for what has waited for very long.
    pub level: u8,
    /// In whose favour it was stopped. That one is not stopped for it.
    pub stopped_for: Option<Unit>,
}

/// A unit that stops so that another one can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub victim: Unit,
    pub incoming: Unit,
    pub cause: Cause,
}

/// The cluster as a look sees it.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    pub workers: &'a [WorkerView],
    pub occupants: &'a [Occupant],
    /// What queues have and use, where one of those in play shares with others.
    pub ledger: Option<&'a Ledger>,
    /// What stops may waste that priority does not demand.
    pub allowances: &'a Allowances,
}

/// What follows from a look at the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outlook {
    /// By position of the worker. All other workers keep nothing.
    pub rooms: BTreeMap<usize, KeptRoom>,
    pub stops: Vec<Stop>,
    /// What is left of it.
    pub allowances: Allowances,
    /// Queues for whose own work room is made: until it starts nobody else should borrow in their trees. By place
    /// in the ledger.
    pub taking_back: BTreeSet<usize>,
    /// Those whose quota others give up, or have given up: so many tasks of each. Nobody else should take it.
    pub promised: BTreeMap<Unit, u32>,
}

/// Looks at those that did not fit, in the order in which they go: pool by pool, each by its policy.
pub fn outlook(sight: Sight<'_>, waiting: &[Waiting], policies: &Policies, now: Timestamp) -> Outlook {
    let mut line: Vec<&Waiting> = waiting.iter().collect();
    line.sort_by_key(|waiting| waiting.unit.key());
    let mut look = Look::new(sight, policies, now);
    look.tenants = look.who_may_stop(&line);
    for pool in line.chunk_by(|one, next| one.unit.pool == next.unit.pool) {
        let Some(policy) = pool.first().map(|first| policies.at(first.unit.pool)) else { continue };
        match policy.passing() {
            Passing::Everybody => {}
            Passing::Nobody => look.keep(strict::all_room(&look.free, sight.occupants, pool, policies)),
            Passing::InOrder | Passing::ShortestFirst => {
                look.held = false;
                for waiting in pool {
                    look.consider(waiting, policy);
                }
            }
        }
    }
    look.found
}

struct Look<'a> {
    /// The workers, those without a name that keep room for somebody already.
    free: Vec<WorkerView>,
    sight: Sight<'a>,
    /// Who may be stopped.
    tenants: BTreeMap<Unit, Tenant>,
    /// The quotas without those who stop, and with those for whom room is kept.
    ledger: Option<Ledger>,
    /// Who was chosen to stop.
    leaving: BTreeSet<Unit>,
    /// Whether somebody of the pool that is looked at holds room on the strength of foreseen ends.
    held: bool,
    policies: &'a Policies,
    now: Timestamp,
    found: Outlook,
}

impl<'a> Look<'a> {
    fn new(sight: Sight<'a>, policies: &'a Policies, now: Timestamp) -> Self {
        let free = sight.workers.iter().map(|worker| WorkerView { kept: None, ..worker.clone() }).collect();
        let mut ledger = sight.ledger.cloned();
        if let Some(ledger) = &mut ledger {
            for one in sight.occupants.iter().filter(|one| one.stopping) {
                if let Some(stake) = stake(ledger, one) {
                    ledger.leave(&stake);
                }
            }
        }
        Self {
            free,
            sight,
            tenants: BTreeMap::new(),
            ledger,
            leaving: BTreeSet::new(),
            held: false,
            policies,
            now,
            found: Outlook { allowances: sight.allowances.clone(), ..Outlook::default() },
        }
    }

    /// Those that may be stopped for one of these, each as a whole: as a rule few of all that runs.
    fn who_may_stop(&self, line: &[&Waiting]) -> BTreeMap<Unit, Tenant> {
        let highest = line.iter().map(|waiting| waiting.unit.priority).max().unwrap_or(i32::MIN);
        let by_level = line.iter().any(|waiting| self.policies.at(waiting.unit.pool).preempt_by_level);
        let over = self.ledger.as_ref().map(Ledger::seats_over).unwrap_or_default();
        let may_borrow = |one: &Occupant| one.seat.is_some_and(|seat| over.get(seat) == Some(&true));
        let concerned = |one: &&Occupant| one.priority < highest || by_level || may_borrow(one);
        let mut tenants: BTreeMap<Unit, Tenant> = BTreeMap::new();
        let mut spared: Vec<Unit> = Vec::new();
        for one in self.sight.occupants.iter().filter(concerned) {
            let Some(since) = one.since.filter(|_| self.may_stop(one)) else {
                spared.push(one.unit);
                continue;
            };
            let policy = self.policies.at(one.pool);
            let unsaved = self.now.since(one.saved.unwrap_or(since).max(since));
            let tenant = tenants.entry(one.unit).or_insert_with(|| Tenant {
                unit: one.unit,
                pool: one.pool,
                priority: one.priority,
                level: one.level,
                pinned: one.pinned,
                cost: 0,
                since,
                stake: self
                    .ledger
                    .as_ref()
                    .and_then(|ledger| stake(ledger, one))
                    .map(|stake| Stake { jobs: 0, ..stake }),
                holds: Vec::new(),
            });
            tenant.since = tenant.since.max(since);
            tenant.cost = tenant.cost.saturating_add(cost(size(&one.held), unsaved, policy.restart));
            if let Some(stake) = &mut tenant.stake {
                stake.jobs += 1;
            }
            tenant.holds.push((one.worker, one.held.clone(), one.devices.clone()));
        }
        spared.sort_unstable();
        tenants.retain(|unit, _| spared.binary_search(unit).is_err());
        tenants
    }

    fn may_stop(&self, one: &Occupant) -> bool {
        let policy = self.policies.at(one.pool);
        let ran = one.since.map(|since| self.now.since(since));
        let long = ran.is_some_and(|ran| ran >= policy.least_run);
        policy.preempts() && one.preemptible && !one.stopping && long
    }

    fn consider(&mut self, waiting: &Waiting, policy: &Policy) {
        let unit = &waiting.unit;
        let stake = self.ledger.as_ref().and_then(|ledger| incoming_stake(ledger, unit));
        if let Some(made) = self.make_room(waiting, stake.as_ref()) {
            self.stop(unit, &made);
            let tasks = made.rooms.values().map(|room| room.tasks).sum();
            if self.needs_promise(unit, stake.as_ref()) {
                self.found.promised.insert(unit.unit, tasks);
            }
            if let Some((ledger, stake)) = self.ledger.as_mut().zip(stake) {
                if ledger.is_own(&stake) && ledger.bounds_any(&stake) {
                    self.found.taking_back.insert(stake.seat);
                }
                ledger.enter(&Stake { jobs: tasks, ..stake });
            }
            self.keep(made.rooms);
            return;
        }
        let waited = self.now.since(waiting.since);
        let early = matches!(unit.unit, Unit::Job(_)) && waited < policy.patience;
        if self.held || early || self.lacks_quota(unit, stake.as_ref()) {
            return;
        }
        if let Some(found) = prospect(&self.free, self.sight.occupants, unit, policy.scoring) {
            self.held = true;
            if found.at.is_some() || waited >= self.passed_for(unit, policy) {
                self.keep(found.rooms);
            }
        }
    }

    /// How long others may pass the unit, by what runs in its pool.
    fn passed_for(&self, unit: &GangCandidate, policy: &Policy) -> Span {
        let need = &unit.requirement.resources;
        let service = Service::of(need.gpus, need.cpu_millis, unit.tasks, Span::ZERO);
        let has = |worker: &WorkerView| {
            let slots = u64::from(worker.slots.unwrap_or(0)) * service.one;
            let total = worker.total.as_ref();
            let amount = total.map_or(0, |has| if need.gpus > 0 { has.gpus } else { has.cpu_millis });
            if need.gpus > 0 { amount } else { amount.max(slots) }
        };
        let own = self.sight.workers.iter().filter(|worker| self.policies.has(unit.pool, &worker.tags));
        let mut ages = Ages::default();
        for one in self.sight.occupants.iter().filter(|one| one.pool == unit.pool) {
            ages.add(size(&one.held), one.ready, self.now);
        }
        policy.passed_for(service.size, own.map(has).sum(), &ages)
    }

    fn lacks_quota(&self, unit: &GangCandidate, stake: Option<&Stake>) -> bool {
        let room = self.ledger.as_ref().zip(stake);
        room.is_some_and(|(ledger, stake)| ledger.room(stake.seat, &stake.need, stake.fixed) < unit.fewest())
    }

    /// Whether its quota is not all there yet, or was given up by others so that it can start.
    fn needs_promise(&self, unit: &GangCandidate, stake: Option<&Stake>) -> bool {
        let now = self.sight.ledger.zip(stake);
        now.is_some_and(|(ledger, stake)| {
            ledger.is_promised(unit.unit) || ledger.room(stake.seat, &stake.need, stake.fixed) < unit.fewest()
        })
    }

    /// The room that is there once those have gone who stop already, or who would have to.
    fn make_room(&self, waiting: &Waiting, stake: Option<&Stake>) -> Option<MadeRoom> {
        let soon = self.soon();
        let scene = Scene {
            workers: &soon,
            tenants: &self.tenants,
            ledger: self.ledger.as_ref(),
            policies: self.policies,
            allowed: self.found.allowances.of(waiting.unit.pool).at_once(),
        };
        let Waiting { unit, level, stopped_for, .. } = waiting;
        make_room(&scene, &Incoming { unit, stake, level: *level, stopped_for: *stopped_for })
    }

    /// The workers without those who stop already.
    fn soon(&self) -> Cow<'_, [WorkerView]> {
        let mut soon = Cow::Borrowed(self.free.as_slice());
        let stops = |one: &&Occupant| one.stopping || self.leaving.contains(&one.unit);
        for occupant in self.sight.occupants.iter().filter(stops) {
            if let Some(worker) = soon.to_mut().get_mut(occupant.worker) {
                worker.leave(&occupant.held, occupant.devices.as_ref());
            }
        }
        soon
    }

    fn stop(&mut self, incoming: &GangCandidate, made: &MadeRoom) {
        for victim in &made.victims {
            self.found.stops.push(Stop { victim: victim.unit, incoming: incoming.unit, cause: victim.cause });
            if victim.cause != Cause::Priority {
                self.found.allowances.of_mut(incoming.pool).spend(victim.cost);
            }
            self.leaving.insert(victim.unit);
            let gone = self.tenants.remove(&victim.unit).and_then(|tenant| tenant.stake);
            if let Some((ledger, stake)) = self.ledger.as_mut().zip(gone) {
                ledger.leave(&stake);
            }
        }
    }

    fn keep(&mut self, rooms: BTreeMap<usize, KeptRoom>) {
        for worker in rooms.keys() {
            self.free[*worker].id = None;
        }
        self.found.rooms.extend(rooms);
    }
}

/// What one that holds room counts for in the quotas.
fn stake(ledger: &Ledger, one: &Occupant) -> Option<Stake> {
    Some(Stake { seat: one.seat?, need: ledger.row(&one.held), jobs: 1, fixed: !one.preemptible })
}

fn incoming_stake(ledger: &Ledger, unit: &GangCandidate) -> Option<Stake> {
    let need = ledger.row(&unit.requirement.resources);
    Some(Stake { seat: unit.seat?, need, jobs: unit.tasks, fixed: unit.fixed })
}

#[cfg(test)]
#[path = "outlook_tests.rs"]
mod tests;
