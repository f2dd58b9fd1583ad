//! Tests of what is done for work that does not fit.

use muster_domain::{Dimension, JobId, Promised, Queue, QueueName, Resources, Terms};
use proptest::prelude::*;

use super::*;
use crate::promise::Wish;
use crate::prospect::tests::{at, occupant, unit, worker};
use crate::quota::Held;

fn job(name: u8) -> Unit {
    Unit::Job(JobId::from_random([name; 16]))
}

fn waits(name: u8, priority: i32, (tasks, gpus): (u32, u64)) -> Waiting {
    let unit = GangCandidate {
        unit: job(name),
        priority,
        rank: -i64::from(priority),
        seq: u64::from(name),
        ..unit(tasks, gpus)
    };
    Waiting { unit, since: at(0), level: 0, stopped_for: None }
}

fn runs(name: u8, priority: i32, on: usize, ends: Option<u64>) -> Occupant {
    Occupant { unit: job(name), priority, ..occupant(on, 8, ends) }
}

fn look(occupants: &[Occupant], waiting: &[Waiting]) -> Outlook {
    let workers: Vec<WorkerView> = ["a", "b"]
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let held = occupants.iter().filter(|one| one.worker == index).map(|one| one.held.gpus).sum();
            worker(name, 8, held)
        })
        .collect();
    seen(&workers, occupants, waiting, 100)
}

fn seen(workers: &[WorkerView], occupants: &[Occupant], waiting: &[Waiting], now: u64) -> Outlook {
    let sight = Sight { workers, occupants, ledger: None, allowances: &Allowances::default() };
    outlook(sight, waiting, &Policies::default(), at(now))
}

fn stopped(found: &Outlook) -> Vec<Unit> {
    found.stops.iter().map(|stop| stop.victim).collect()
}

#[test]
fn what_is_less_important_makes_room_and_the_room_is_kept() {
    let found = look(&[runs(1, 0, 0, None), runs(2, 3, 1, None)], &[waits(9, 5, (1, 8))]);
    assert_eq!(found.stops, [Stop { victim: job(1), incoming: job(9), cause: Cause::Priority }]);
    assert_eq!(found.rooms[&0].unit, job(9));
    // Nobody stops for an equal, and two that need the room do not get it twice.
    assert_eq!(stopped(&look(&[runs(1, 5, 0, None)], &[waits(9, 5, (2, 8))])), []);
    let both = look(&[runs(1, 0, 0, None), runs(2, 9, 1, None)], &[waits(8, 5, (1, 8)), waits(9, 5, (1, 8))]);
    assert_eq!((stopped(&both), both.rooms.len()), (vec![job(1)], 1));
}

#[test]
fn those_who_may_not_be_stopped_are_left_alone() {
    let young = Occupant { since: Some(at(60)), ..runs(1, 0, 0, None) };
    let kept_on = Occupant { preemptible: false, ..runs(2, 0, 1, None) };
    assert_eq!(stopped(&look(&[young, kept_on], &[waits(9, 5, (1, 8))])), []);
    // A gang of which one task may not be stopped stays whole.
    let gang = [runs(1, 0, 0, None), Occupant { since: None, ..runs(1, 0, 1, None) }];
    assert_eq!(stopped(&look(&gang, &[waits(9, 5, (1, 8))])), []);
}

#[test]
fn room_that_comes_free_anyway_is_waited_for() {
    let stopping = Occupant { stopping: true, ..runs(1, 0, 0, None) };
    let found = look(&[stopping, runs(2, 0, 1, None)], &[waits(9, 5, (1, 8))]);
    assert_eq!((stopped(&found), found.rooms.keys().copied().collect::<Vec<_>>()), (vec![], vec![0]));
}

#[test]
fn the_first_in_line_holds_room_for_when_others_end() {
    let occupants = [runs(1, 0, 0, Some(500)), runs(2, 0, 1, Some(900))];
    let found = look(&occupants, &[waits(8, 0, (2, 8)), waits(9, 0, (1, 8))]);
    assert!(found.stops.is_empty());
    assert!(found.rooms.values().all(|room| room.unit == job(8) && room.until == Some(at(900))));
    assert_eq!(found.rooms.len(), 2);
    // Only the first: the second has to wait until it is the first.
    let alone = look(&occupants, &[waits(8, 0, (1, 8)), waits(9, 0, (1, 8))]);
    assert_eq!(alone.rooms.values().map(|room| room.unit).collect::<Vec<_>>(), [job(8)]);
}

#[test]
fn one_whose_start_cannot_be_foreseen_is_passed_for_a_while() {
    let occupants = [runs(1, 0, 0, None), runs(2, 0, 1, Some(900))];
    assert!(look(&occupants, &[waits(8, 0, (2, 8))]).rooms.is_empty());
    let workers = [worker("a", 8, 8), worker("b", 8, 8)];
    // It needs all of the pool, ten times what may be pinned: others may pass for a hundred minutes.
    let young = occupants.clone().map(|one| Occupant { ready: at(5_990), ..one });
    let after = |occupants: &[Occupant], now| seen(&workers, occupants, &[waits(8, 0, (2, 8))], now);
    assert!(after(&young, 5_999).rooms.is_empty());
    let found = after(&young, 6_000);
    assert_eq!((found.rooms.len(), found.rooms[&0].until), (2, None));
    // Where work waits and runs for long, this one has not been passed for long yet.
    let old = [runs(1, 0, 0, None), runs(2, 0, 1, None)];
    assert!(after(&old, 6_000).rooms.is_empty());
}

/// A job of one worker in a small world where looks are repeated and what they decide is done at once.
#[derive(Debug, Clone)]
struct Actor {
    queue: usize,
    priority: i32,
    level: u8,
    gpus: u64,
    on: Option<usize>,
    stopped_for: Option<Unit>,
}

const QUEUES: [&str; 3] = ["a", "b", "c"];

struct World {
    actors: Vec<Actor>,
    own: [u64; 3],
    takes_back: BTreeSet<usize>,
    promised: BTreeMap<Unit, u32>,
}

impl World {
    fn ledger(&self) -> Ledger {
        let queue = |at: usize| {
            let amounts = [(Dimension::Gpus, self.own[at])].into_iter().collect();
            let parent = Some(QueueName::new("lab"));
            let terms = Terms { parent, nominal: Some(amounts), ..Terms::default() };
            let takes_back = self.takes_back.contains(&at);
            let promised = self.promised.iter().filter_map(|(unit, tasks)| {
                let to = (0..self.actors.len()).find(|at| job(*at as u8) == *unit)?;
                let need = need(self.actors[to].gpus);
                let promised = Promised { unit: *unit, need, tasks: *tasks, fixed: false };
                (self.actors[to].queue == at).then_some(promised)
            });
            let promised = promised.collect();
            Queue { terms, takes_back, promised, ..Queue::new(QueueName::new(QUEUES[at])) }
        };
        let mut queues: Vec<Queue> = (0..3).map(queue).collect();
        queues.push(Queue::new(QueueName::new("lab")));
        let held = self.actors.iter().filter(|one| one.on.is_some()).map(|one| Held {
            queue: Some(QueueName::new(QUEUES[one.queue])),
            need: need(one.gpus),
            fixed: false,
            jobs: 1,
        });
        Ledger::new(&queues, &held.collect::<Vec<_>>())
    }

    fn workers(&self) -> Vec<WorkerView> {
        let used = |at| self.actors.iter().filter(|one| one.on == Some(at)).map(|one| one.gpus).sum();
        ["x", "y"].iter().enumerate().map(|(at, name)| worker(name, 8, used(at))).collect()
    }

    fn candidate(&self, at: usize) -> GangCandidate {
        let one = &self.actors[at];
        GangCandidate {
            unit: job(at as u8),
            priority: one.priority,
            pool: muster_domain::PoolAt::default(),
            rank: -i64::from(one.priority),
            seq: at as u64,
            seat: Some(one.queue),
            ..unit(1, one.gpus)
        }
    }

    /// One look, after which victims are gone and whoever has room and quota starts; who was stopped for whom.
    fn round(&mut self) -> Vec<Stop> {
        let (ledger, workers) = (self.ledger(), self.workers());
        let occupant = |(at, one): (usize, &Actor)| {
            let (priority, level, seat) = (one.priority, one.level, Some(one.queue));
            Some(Occupant { unit: job(at as u8), priority, level, seat, ..occupant(one.on?, one.gpus, None) })
        };
        let occupants: Vec<Occupant> = self.actors.iter().enumerate().filter_map(occupant).collect();
        let waiting = |at: usize| {
            let one = &self.actors[at];
            let unit = self.candidate(at);
            Waiting {
                unit,
                since: crate::prospect::tests::at(0),
                level: one.level,
                stopped_for: one.stopped_for,
            }
        };
        let idle = (0..self.actors.len()).filter(|at| self.actors[*at].on.is_none());
        let line: Vec<Waiting> = idle.map(waiting).collect();
        let mut allowances = Allowances::default();
        allowances.of_mut(muster_domain::PoolAt::default()).fill(
            1 << 20,
            1000,
            crate::prospect::tests::at(100),
        );
        let sight = Sight {
            workers: &workers,
            occupants: &occupants,
            ledger: Some(&ledger),
            allowances: &allowances,
        };
        let found = outlook(sight, &line, &Policies::default(), crate::prospect::tests::at(100));
        let index = |unit: Unit| (0..self.actors.len()).find(|at| job(*at as u8) == unit).unwrap();
        let stops: Vec<(usize, Stop)> = found.stops.iter().map(|stop| (index(stop.victim), *stop)).collect();
        for (victim, stop) in &stops {
            self.actors[*victim].on = None;
            self.actors[*victim].stopped_for = Some(stop.incoming);
        }
        self.takes_back = found.taking_back.clone();
        self.promised = found.promised.clone();
        self.start(&found);
        found.stops
    }

    fn start(&mut self, found: &Outlook) {
        let mut line: Vec<usize> =
            (0..self.actors.len()).filter(|at| self.actors[*at].on.is_none()).collect();
        // Those for whom room is kept are the slowest.
        let promised = |at: &usize| found.rooms.values().any(|room| room.unit == job(*at as u8));
        line.sort_by_key(|at| (promised(at), std::cmp::Reverse(self.actors[*at].priority)));
        for at in line {
            let (ledger, workers) = (self.ledger(), self.workers());
            let unit = self.candidate(at);
            let free = |on: &usize| {
                let kept = found.rooms.get(on);
                workers[*on].has_room_for(&unit.requirement) && kept.is_none_or(|room| room.unit == unit.unit)
            };
            let row = ledger.row(&unit.requirement.resources);
            let seat = self.actors[at].queue;
            let wish = Wish { unit: Some(unit.unit), seat, need: &row, jobs: 1, fixed: false };
            if ledger.room_beside(&wish) > 0
                && let Some(on) = (0..2).find(free)
            {
                self.actors[at].on = Some(on);
                self.actors[at].stopped_for = None;
            }
        }
    }
}

fn need(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

/// Two queues of a tree with 8 GPUs each; those who run hold what they say on worker `x`, whose 32 GPUs are enough.
fn full_queue(running: &[(u8, usize, i32, u64)], comes: &GangCandidate) -> Outlook {
    let actor = |(_, queue, priority, gpus): (u8, usize, i32, u64)| Actor {
        queue,
        priority,
        level: 0,
        gpus,
        on: Some(0),
        stopped_for: None,
    };
    let actors = running.iter().copied().map(actor).collect();
    let world = World { actors, own: [8, 8, 0], takes_back: BTreeSet::new(), promised: BTreeMap::new() };
    let used = running.iter().map(|(.., gpus)| gpus).sum();
    let occupant = |&(name, queue, priority, gpus): &(u8, usize, i32, u64)| Occupant {
        unit: job(name),
        priority,
        seat: Some(queue),
        ..occupant(0, gpus, None)
    };
    let occupants: Vec<Occupant> = running.iter().map(occupant).collect();
    let waiting = Waiting { unit: comes.clone(), since: at(0), level: 0, stopped_for: None };
    let (workers, ledger) = ([worker("x", 32, used)], world.ledger());
    let allowances = Allowances::default();
    let sight =
        Sight { workers: &workers, occupants: &occupants, ledger: Some(&ledger), allowances: &allowances };
    outlook(sight, &[waiting], &Policies::default(), at(100))
}

#[test]
fn an_urgent_job_of_a_full_queue_stops_the_fewest_less_important_of_it() {
    let urgent = |gpus| GangCandidate { unit: job(9), priority: 5, seat: Some(0), ..unit(1, gpus) };
    // All 16 of the tree are used; `a` borrows 4 of `b`, whose own work is not touched.
    let running = [(1, 0, 5, 4), (2, 0, 1, 4), (3, 0, 0, 4), (4, 1, 0, 4)];
    let found = full_queue(&running, &urgent(2));
    assert_eq!(found.stops, [Stop { victim: job(3), incoming: job(9), cause: Cause::Priority }]);
    assert_eq!(found.promised, BTreeMap::from([(job(9), 1)]));
    assert_eq!(stopped(&full_queue(&running, &urgent(8))), [job(3), job(2)]);
    assert_eq!(full_queue(&running, &urgent(9)), Outlook::default(), "not even both would be enough");
    let equal = GangCandidate { priority: 0, ..urgent(2) };
    assert_eq!(full_queue(&running, &equal), Outlook::default());
    let free = full_queue(&running[..2], &urgent(2));
    assert_eq!((free.stops.len(), free.promised.len()), (0, 0), "there is quota");
}

proptest! {
    /// Whatever runs and waits, stops come to an end: nobody is stopped in turn for ever. And nobody stops the one
    /// for which it was stopped before it has run again.
    #[test]
    fn repeated_looks_come_to_rest(
        actors in prop::collection::vec((0_usize..3, 0_i32..2, 0_u8..3, 1_u64..9), 1..7),
        own in prop::array::uniform3(0_u64..9),
    ) {
        let actor = |(queue, priority, level, gpus)| Actor { queue, priority, level, gpus, on: None, stopped_for: None };
        let mut world = World { actors: actors.into_iter().map(actor).collect(), own, takes_back: BTreeSet::new(), promised: BTreeMap::new() };
        let mut rounds = 0;
        loop {
            let before = world.actors.clone();
            let stops = world.round();
            for stop in &stops {
                let back = (0..before.len()).find(|at| job(*at as u8) == stop.incoming).unwrap();
                prop_assert_ne!(before[back].stopped_for, Some(stop.victim));
            }
            prop_assert_eq!(world.ledger().violations(), []);
            if stops.is_empty() && world.takes_back.is_empty() && world.promised.is_empty() {
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 40, "{:?}", world.actors);
        }
    }
}
