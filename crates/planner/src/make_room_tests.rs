//! Tests of the choice of victims: by hand, and against trying every choice.

use muster_domain::{Amounts, Dimension, JobId, Queue, QueueName, Terms};
use proptest::prelude::*;

use super::*;
use crate::policy::Policy;
use crate::prospect::tests::{at, unit, worker};
use crate::quota::Held;

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn job(name: u8) -> Unit {
    Unit::Job(JobId::from_random([name; 16]))
}

fn by_level(on: bool) -> Policies {
    Policy { preempt_by_level: on, ..Policy::default() }.into()
}

fn tenant(name: u8, priority: i32, cost: u64, holds: &[(usize, u64)]) -> Tenant {
    Tenant {
        pool: muster_domain::PoolAt::default(),
        unit: job(name),
        priority,
        level: 0,
        pinned: false,
        cost,
        since: at(0),
        stake: None,
        holds: holds.iter().map(|(worker, amount)| (*worker, gpus(*amount), None)).collect(),
    }
}

/// What comes is more important than all of them, unless a test says otherwise.
fn important(tasks: u32, need: u64) -> GangCandidate {
    GangCandidate { priority: 9, ..unit(tasks, need) }
}

struct Case {
    workers: Vec<WorkerView>,
    tenants: BTreeMap<Unit, Tenant>,
    ledger: Option<Ledger>,
    policies: Policies,
    allowed: u64,
}

impl Case {
    fn new(workers: &[WorkerView], tenants: &[Tenant]) -> Self {
        let tenants = tenants.iter().map(|tenant| (tenant.unit, tenant.clone())).collect();
        Self {
            workers: workers.to_vec(),
            tenants,
            ledger: None,
            policies: by_level(false),
            allowed: u64::MAX,
        }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            workers: &self.workers,
            tenants: &self.tenants,
            ledger: self.ledger.as_ref(),
            policies: &self.policies,
            allowed: self.allowed,
        }
    }

    fn made(&self, unit: &GangCandidate, level: u8, stopped_for: Option<Unit>) -> Option<MadeRoom> {
        let stake = self.stake(unit);
        make_room(&self.scene(), &Incoming { unit, stake: stake.as_ref(), level, stopped_for })
    }

    fn stake(&self, unit: &GangCandidate) -> Option<Stake> {
        let need = self.ledger.as_ref()?.row(&unit.requirement.resources);
        Some(Stake { seat: unit.seat?, need, jobs: unit.tasks, fixed: unit.fixed })
    }

    fn chosen(&self, unit: &GangCandidate) -> Option<Vec<Unit>> {
        self.made(unit, 0, None).map(|made| made.victims.iter().map(|victim| victim.unit).collect())
    }

    fn fits(&self, unit: &GangCandidate, gone: &[Unit]) -> bool {
        let (scene, stake) = (self.scene(), self.stake(unit));
        let incoming = Incoming { unit, stake: stake.as_ref(), level: 0, stopped_for: None };
        let mut sketch = Sketch::new(&scene, &incoming);
        for unit in gone {
            sketch.stop(*unit);
        }
        sketch.fits()
    }
}

#[test]
fn the_least_important_then_the_cheapest_stop() {
    let workers = [worker("a", 8, 8), worker("b", 8, 8), worker("c", 8, 8)];
    let tenants = [tenant(1, 5, 1, &[(0, 8)]), tenant(2, 0, 900, &[(1, 8)]), tenant(3, 0, 100, &[(2, 8)])];
    let case = Case::new(&workers, &tenants);
    assert_eq!(case.chosen(&important(1, 8)), Some(vec![job(3)]));
    assert_eq!(case.chosen(&important(2, 8)), Some(vec![job(3), job(2)]));
    assert_eq!(case.chosen(&important(3, 8)), Some(vec![job(3), job(2), job(1)]));
    assert_eq!(case.chosen(&important(4, 8)), None);
    assert_eq!(case.chosen(&unit(1, 8)), None, "equals stay");
}

#[test]
fn those_whose_stop_does_not_help_are_spared() {
    let workers = [worker("a", 8, 8), worker("b", 8, 8)];
    // Cheap ones on both workers, of which one worker alone must become free.
    let tenants = [tenant(1, 0, 1, &[(0, 2)]), tenant(2, 0, 2, &[(1, 4)]), tenant(3, 0, 3, &[(1, 4)])];
    assert_eq!(Case::new(&workers, &tenants).chosen(&important(1, 8)), Some(vec![job(2), job(3)]));
    let free = Case::new(&[worker("a", 8, 0)], &tenants[..1]);
    assert_eq!(free.chosen(&important(1, 8)), Some(vec![]));
}

#[test]
fn more_service_gives_way_to_less_where_that_is_wanted_and_allowed() {
    let mut case = Case::new(&[worker("a", 8, 8)], &[Tenant { level: 1, ..tenant(1, 0, 50, &[(0, 8)]) }]);
    let stops = |case: &Case, level| case.made(&unit(1, 8), level, None).map(|made| made.victims[0].cause);
    assert_eq!(stops(&case, 0), None);
    case.policies = by_level(true);
    assert_eq!(stops(&case, 0), Some(Cause::Level));
    assert_eq!(stops(&case, 1), None);
    assert_eq!(case.made(&unit(1, 8), 0, Some(job(1))), None, "it was stopped for that one");
    case.allowed = 49;
    assert_eq!(stops(&case, 0), None);
    assert!(case.made(&important(1, 8), 0, None).is_some(), "priority needs no allowance");
    case.allowed = 50;
    assert_eq!(stops(&case, 0), Some(Cause::Level));
    case.tenants.values_mut().for_each(|tenant| tenant.pinned = true);
    assert_eq!(stops(&case, 0), None);
}

fn queue(name: &str, nominal: u64) -> Queue {
    let amounts: Amounts = [(Dimension::Gpus, nominal)].into_iter().collect();
    let terms = Terms { parent: Some(QueueName::new("lab")), nominal: Some(amounts), ..Terms::default() };
    Queue { terms, ..Queue::new(QueueName::new(name)) }
}

/// Queues below `lab`, each with its own, and jobs of one worker each: name, queue, priority, cost, GPUs.
fn lab(own: &[(&str, u64)], running: &[(u8, &str, i32, u64, u64)], free: u64) -> Case {
    let mut queues: Vec<Queue> = own.iter().map(|(name, nominal)| queue(name, *nominal)).collect();
    queues.push(Queue::new(QueueName::new("lab")));
    let held = running.iter().map(|(_, queue, _, _, amount)| Held {
        queue: Some(QueueName::new(*queue)),
        need: gpus(*amount),
        fixed: false,
        jobs: 1,
    });
    let ledger = Ledger::new(&queues, &held.collect::<Vec<_>>());
    let tenants: Vec<Tenant> = running
        .iter()
        .enumerate()
        .map(|(on, (name, queue, priority, cost, amount))| {
            let seat = ledger.seat(Some(&QueueName::new(*queue))).unwrap();
            let stake = Stake { seat, need: ledger.row(&gpus(*amount)), jobs: 1, fixed: false };
            Tenant { stake: Some(stake), ..tenant(*name, *priority, *cost, &[(on, *amount)]) }
        })
        .collect();
    let names: Vec<String> = (0..running.len()).map(|on| format!("w{on}")).collect();
    let mut workers: Vec<WorkerView> =
        running.iter().zip(&names).map(|(job, name)| worker(name, job.4, job.4)).collect();
    workers.push(worker("z", free, 0));
    Case { ledger: Some(ledger), ..Case::new(&workers, &tenants) }
}

fn of(case: &Case, queue: &str, (tasks, need): (u32, u64)) -> GangCandidate {
    let seat = case.ledger.as_ref().unwrap().seat(Some(&QueueName::new(queue)));
    GangCandidate { seat, per_worker: 8, ..unit(tasks, need) }
}

#[test]
fn an_owner_takes_back_what_it_lent_from_the_largest_share_first() {
    let running = [(1, "b", 0, 1, 2), (2, "c", 0, 100, 2), (3, "c", 0, 200, 2), (4, "a", 0, 1, 2)];
    let case = lab(&[("a", 8), ("b", 0), ("c", 0)], &running, 8);
    // There is room, but all quota is in use: b has 2 of it, c has 4.
    assert_eq!(case.chosen(&of(&case, "a", (1, 2))), Some(vec![job(2)]));
    assert_eq!(case.chosen(&of(&case, "a", (2, 2))), Some(vec![job(2), job(1)]));
    assert_eq!(case.chosen(&of(&case, "a", (3, 2))), Some(vec![job(2), job(1), job(3)]));
    assert_eq!(case.chosen(&of(&case, "a", (4, 2))), None, "that is more than its own");
    // Who must borrow stops nobody, whatever its priority; priority does not protect a borrower.
    let urgent = GangCandidate { priority: 9, ..of(&case, "b", (1, 2)) };
    assert_eq!(case.chosen(&urgent), Some(vec![job(1)]), "its own queue's, and not the owner's");
    let mut proud = lab(&[("a", 2), ("b", 0)], &[(1, "b", 7, 1, 2)], 8);
    assert_eq!(proud.chosen(&of(&proud, "a", (1, 2))), Some(vec![job(1)]));
    proud.allowed = 0;
    assert_eq!(proud.chosen(&of(&proud, "a", (1, 2))), None);
}

#[test]
fn nobody_gives_back_what_is_its_own() {
    let case = lab(&[("a", 6), ("b", 3)], &[(1, "b", 0, 1, 3), (2, "b", 0, 2, 3)], 0);
    assert_eq!(case.chosen(&of(&case, "a", (1, 3))), Some(vec![job(1)]));
    assert_eq!(case.chosen(&of(&case, "a", (2, 3))), None, "the other one is b's own");
    // Its cheaper job would not help, since what comes fits only where the other one is.
    let mut apart = lab(&[("a", 4), ("b", 4)], &[(1, "b", 0, 1, 4), (2, "b", 0, 9, 4)], 0);
    apart.workers[0].tags.clear();
    apart.workers[1].tags.insert("fast".to_owned());
    let mut fast = of(&apart, "a", (1, 4));
    fast.requirement.tags.insert("fast".to_owned());
    assert_eq!(apart.chosen(&fast), Some(vec![job(2)]));
}

proptest! {
    #[test]
    fn the_choice_is_enough_and_nobody_in_it_is_spare(
        held in prop::collection::vec((0_usize..3, 1_u64..5, -1_i32..2, 0_u64..9), 0..7),
        tasks in 1_u32..3,
        need in 1_u64..9,
    ) {
        let mut used = [0; 3];
        let mut tenants = Vec::new();
        for (index, (worker, amount, priority, cost)) in held.into_iter().enumerate() {
            if used[worker] + amount <= 8 {
                used[worker] += amount;
                tenants.push(tenant(index as u8, priority, cost, &[(worker, amount)]));
            }
        }
        let workers: Vec<WorkerView> = used.iter().zip(["a", "b", "c"]).map(|(used, name)| worker(name, 8, *used)).collect();
        let incoming = important(tasks, need);
        let case = Case::new(&workers, &tenants);
        let everyone: Vec<Unit> = tenants.iter().map(|tenant| tenant.unit).collect();
        let choice = case.chosen(&incoming);
        prop_assert_eq!(choice.is_some(), case.fits(&incoming, &everyone));
        let Some(choice) = choice else { return Ok(()) };
        prop_assert!(case.fits(&incoming, &choice));
        for index in 0..choice.len() {
            let mut fewer = choice.clone();
            fewer.remove(index);
            prop_assert!(!case.fits(&incoming, &fewer), "{choice:?} without {index} is enough");
        }
    }

    /// Random queues and jobs: what is stopped for quota makes room for an owner, is spare nowhere, takes from
    /// nobody what is its own, and leaves no queue that gave with a smaller share than the one that got.
    #[test]
    fn what_is_taken_back_is_enough_and_turns_no_shares_round(
        own in prop::array::uniform3(0_u64..9),
        wanted in prop::collection::vec((0_usize..3, 1_u64..4, -1_i32..2, 0_u64..9), 0..9),
        (comes, tasks, need) in (0_usize..3, 1_u32..3, 1_u64..4),
        priority in -1_i32..2,
    ) {
        let names = ["a", "b", "c"];
        let nominal: Vec<(&str, u64)> = names.into_iter().zip(own).collect();
        let mut running = Vec::new();
        let mut left: u64 = own.iter().sum();
        for (index, (queue, amount, priority, cost)) in wanted.into_iter().enumerate() {
            if amount <= left {
                left -= amount;
                running.push((index as u8, names[queue], priority, cost, amount));
            }
        }
        let case = lab(&nominal, &running, 4);
        let incoming = GangCandidate { priority, ..of(&case, names[comes], (tasks, need)) };
        let ledger = case.ledger.clone().unwrap();
        let stake = case.stake(&incoming).unwrap();
        let Some(made) = case.made(&incoming, 0, None) else { return Ok(()) };
        let gone: Vec<Unit> = made.victims.iter().map(|victim| victim.unit).collect();
        prop_assert!(case.fits(&incoming, &gone));
        for spared in &gone {
            let fewer: Vec<Unit> = gone.iter().copied().filter(|unit| unit != spared).collect();
            prop_assert!(!case.fits(&incoming, &fewer));
        }
        let mut after = ledger.clone();
        for victim in &made.victims {
            let runs = case.tenants[&victim.unit].stake.clone().unwrap();
            if victim.cause == Cause::Quota {
                prop_assert!(ledger.is_own(&stake), "only owners take back");
                prop_assert!(!after.over_quota(runs.seat).is_empty(), "only what is borrowed is taken");
            }
            after.leave(&runs);
        }
        after.enter(&stake);
        prop_assert_eq!(after.violations(), []);
        let share = after.share(stake.seat, &[], 0);
        for victim in made.victims.iter().filter(|victim| victim.cause == Cause::Quota) {
            let gave = case.tenants[&victim.unit].stake.as_ref().unwrap().seat;
            prop_assert!(after.share(gave, &[], 0) >= share);
        }
    }
}
