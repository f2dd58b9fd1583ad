//! What is done for work that does not fit: who stops for it, which room is kept for it, when it will start.
//!
//! Guarantees: nobody is stopped for work of the same or a lower priority, before it ran for a while, or when
//! stopping it does not help; room that comes free anyway is waited for; one unit at a time holds room on the
//! strength of foreseen ends alone; a worker keeps room for one unit.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{KeptRoom, Timestamp, Unit};

use crate::fit::WorkerView;
use crate::gang::GangCandidate;
use crate::make_room::{MadeRoom, Victim, make_room};
use crate::policy::Policy;
use crate::prospect::{self, Occupant, prospect};

/// A unit that waits, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub unit: GangCandidate,
    pub since: Timestamp,
}

/// A unit that stops so that another one can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub victim: Unit,
    pub incoming: Unit,
}

/// What follows from a look at the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outlook {
    /// By position of the worker. All other workers keep nothing.
    pub rooms: BTreeMap<usize, KeptRoom>,
    pub stops: Vec<Stop>,
}

/// Looks at those that did not fit, in the order in which they go.
pub fn outlook(
    workers: &[WorkerView],
    occupants: &[Occupant],
    waiting: &[Waiting],
    policy: Policy,
    now: Timestamp,
) -> Outlook {
    let mut line: Vec<&Waiting> = waiting.iter().collect();
    line.sort_by_key(|waiting| waiting.unit.key());
    let free = workers.iter().map(|worker| WorkerView { kept: None, ..worker.clone() }).collect();
    let mut look = Look {
        free,
        occupants,
        leaving: BTreeSet::new(),
        held: false,
        policy,
        now,
        found: Outlook::default(),
    };
    for waiting in line {
        look.consider(waiting);
    }
    look.found
}

struct Look<'a> {
    /// The workers, those without a name that keep room for somebody already.
    free: Vec<WorkerView>,
    occupants: &'a [Occupant],
    /// Who was chosen to stop.
    leaving: BTreeSet<Unit>,
    /// Whether somebody holds room on the strength of foreseen ends.
    held: bool,
    policy: Policy,
    now: Timestamp,
    found: Outlook,
}

impl Look<'_> {
    fn consider(&mut self, waiting: &Waiting) {
        let (unit, policy) = (&waiting.unit, self.policy);
        let soon = self.soon();
        if let Some(rooms) = prospect::rooms(&soon, unit, policy.scoring, None) {
            self.keep(rooms);
            return;
        }
        if let Some(MadeRoom { rooms, victims }) = self.make_room(&soon, unit) {
            let stops = victims.iter().map(|victim| Stop { victim: *victim, incoming: unit.unit });
            self.found.stops.extend(stops);
            self.leaving.extend(victims);
            self.keep(rooms);
            return;
        }
        let waited = self.now.since(waiting.since);
        let early = matches!(unit.unit, Unit::Job(_)) && waited < policy.patience;
        if self.held || early {
            return;
        }
        if let Some(found) = prospect(&self.free, self.occupants, unit, policy.scoring) {
            self.held = true;
            if found.at.is_some() || waited >= policy.pass_for {
                self.keep(found.rooms);
            }
        }
    }

    /// The workers without those who stop already.
    fn soon(&self) -> Vec<WorkerView> {
        let mut soon = self.free.clone();
        let stops = |one: &&Occupant| one.stopping || self.leaving.contains(&one.unit);
        for occupant in self.occupants.iter().filter(stops) {
            if let Some(worker) = soon.get_mut(occupant.worker) {
                worker.leave(&occupant.held, occupant.devices.as_ref());
            }
        }
        soon
    }

    fn make_room(&self, soon: &[WorkerView], unit: &GangCandidate) -> Option<MadeRoom<Unit>> {
        if !self.policy.preempt {
            return None;
        }
        let mut victims: BTreeMap<Unit, Victim> = BTreeMap::new();
        let mut spared: BTreeSet<Unit> = BTreeSet::new();
        for one in self.occupants.iter().filter(|one| one.priority < unit.priority) {
            if !self.may_stop(one) {
                spared.insert(one.unit);
            }
            let victim = victims.entry(one.unit).or_insert_with(|| Victim::new(one.unit, one.priority));
            victim.borrows |= one.borrows;
            victim.cost = victim.cost.saturating_add(one.cost(self.now));
            victim.holds.push((one.worker, one.held.clone(), one.devices.clone()));
        }
        let victims: Vec<Victim> =
            victims.into_values().filter(|victim| !spared.contains(&victim.unit)).collect();
        let MadeRoom { victims: chosen, rooms } = make_room(soon, unit, &victims, self.policy.scoring)?;
        Some(MadeRoom { victims: chosen.into_iter().map(|index| victims[index].unit).collect(), rooms })
    }

    fn may_stop(&self, one: &Occupant) -> bool {
        let ran = one.since.map(|since| self.now.since(since));
        one.preemptible
            && !one.stopping
            && !self.leaving.contains(&one.unit)
            && ran.is_some_and(|ran| ran >= self.policy.least_run)
    }

    fn keep(&mut self, rooms: BTreeMap<usize, KeptRoom>) {
        for worker in rooms.keys() {
            self.free[*worker].id = None;
        }
        self.found.rooms.extend(rooms);
    }
}

#[cfg(test)]
#[path = "outlook_tests.rs"]
mod tests;
