//! What a board does as a whole: scenarios in few lines, and the promise of a reservation.

use std::collections::BTreeMap;

use muster_domain::{Requirement, Resources, Span, Timestamp};
use proptest::prelude::*;

use super::*;

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn at(secs: u32) -> Timestamp {
    Timestamp::default() + Span::from_secs(secs)
}

/// A board of nodes with so many GPUs, and units that are told apart by small numbers.
struct Scene {
    board: Board,
    units: BTreeMap<u64, UnitId>,
}

impl Scene {
    fn new(policy: Policy, nodes: u32, each: u64) -> Self {
        let mut board = Board::new(policy);
        for _ in 0..nodes {
            board.add_node(&gpus(each), None, [].iter());
        }
        Self { board, units: BTreeMap::new() }
    }

    fn unit(&mut self, seq: u64, tasks: u32, each: u64, now: u32) -> Unit {
        let shape = self.board.shape(&Requirement { resources: gpus(each), ..Requirement::default() });
        Unit {
            shape,
            tasks,
            queue: QueueId(0),
            priority: 0,
            submit: at(now),
            seq,
            estimate: None,
            preemptible: true,
        }
    }

    fn submit(&mut self, unit: Unit) {
        let id = self.board.submit(unit, Past::default(), unit.submit);
        self.units.insert(unit.seq, id);
    }

    fn seq(&self, id: UnitId) -> u64 {
        *self.units.iter().find(|(_, unit)| **unit == id).unwrap().0
    }

    /// Who starts, and who is stopped.
    fn pass(&mut self, now: u32) -> (Vec<u64>, Vec<u64>) {
        let plan = self.board.pass(at(now));
        let starts = plan.starts.iter().map(|start| self.seq(start.unit)).collect();
        (starts, plan.stops.iter().map(|stop| self.seq(stop.unit)).collect())
    }

    fn end(&mut self, seq: u64, now: u32) {
        // Its number may be given to another.
        let id = self.units.remove(&seq).unwrap();
        self.board.end(id, at(now));
    }
}

fn muster() -> Policy {
    Policy { preempt_by_level: true, ..Policy::default() }
}

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    let mut scene = Scene::new(muster(), 2, 8);
    let (gang, single) = (scene.unit(1, 3, 8, 0), scene.unit(2, 1, 8, 0));
    scene.submit(gang);
    scene.submit(single);
    // Three nodes are not there: the gang waits, and others may pass for a while.
    assert_eq!(scene.pass(0), (vec![2], vec![]));
    scene.board.add_node(&gpus(8), None, [].iter());
    assert_eq!(scene.pass(1), (vec![], vec![]));
    scene.end(2, 2);
    assert_eq!(scene.pass(2), (vec![1], vec![]));
    assert_eq!(scene.board.places(scene.units[&1]).len(), 3);
}

#[test]
fn the_more_important_stops_the_less_important_whole_and_only_as_much_as_it_needs() {
    let mut scene = Scene::new(muster(), 4, 8);
    let gang = scene.unit(1, 2, 8, 0);
    scene.submit(gang);
    for seq in [2, 3] {
        let single = scene.unit(seq, 1, 8, 0);
        scene.submit(single);
    }
    assert_eq!(scene.pass(0).0.len(), 3);
    let urgent = Unit { priority: 5, ..scene.unit(4, 1, 8, 100) };
    scene.submit(urgent);
    // A single is cheaper than the gang, and one is enough.
    let (starts, stops) = scene.pass(100);
    assert_eq!((starts, stops.len()), (vec![4], 1));
    assert!(stops == [2] || stops == [3]);
    let larger = Unit { priority: 5, ..scene.unit(5, 3, 8, 200) };
    scene.submit(larger);
    let (starts, mut stops) = scene.pass(200);
    stops.sort_unstable();
    assert_eq!(starts, [5]);
    assert!(stops.contains(&1), "nothing but the whole gang and one more is enough: {stops:?}");
    assert_eq!(stops.len(), 2);
}

#[test]
fn what_must_not_be_stopped_or_has_just_started_is_left_alone() {
    let mut scene = Scene::new(muster(), 1, 8);
    let firm = Unit { preemptible: false, ..scene.unit(1, 1, 4, 0) };
    let fresh = scene.unit(2, 1, 4, 0);
    scene.submit(firm);
    scene.submit(fresh);
    scene.pass(0);
    let urgent = Unit { priority: 1, ..scene.unit(3, 1, 4, 10) };
    scene.submit(urgent);
    let plan = scene.board.pass(at(10));
    assert_eq!((plan.starts.len(), plan.look_again), (0, Some(at(60))));
    assert_eq!(scene.pass(60), (vec![3], vec![2]));
    let larger = Unit { priority: 9, ..scene.unit(4, 1, 8, 500) };
    scene.submit(larger);
    assert_eq!(scene.pass(500), (vec![], vec![]));
}

#[test]
fn who_has_had_little_stops_who_has_had_much_and_is_not_stopped_back() {
    let mut scene = Scene::new(muster(), 1, 8);
    let old = scene.unit(1, 1, 8, 0);
    scene.submit(old);
    scene.pass(0);
    let new = scene.unit(2, 1, 8, 60);
    scene.submit(new);
    // Eight GPUs have had four GPU-hours after half an hour.
    assert_eq!(scene.pass(60), (vec![], vec![]));
    assert_eq!(scene.board.pass(at(700)).look_again, Some(at(1800)));
    assert_eq!(scene.pass(1800), (vec![2], vec![1]));
    // The second has reached the level of the first, and then the next.
    assert_eq!(scene.pass(3600), (vec![], vec![]));
    assert_eq!(scene.pass(1800 + 5 * 3600), (vec![], vec![]));
    scene.end(2, 30_000);
    assert_eq!(scene.pass(30_000), (vec![1], vec![]));
}

#[test]
fn levels_stop_nobody_when_that_is_switched_off_or_costs_too_much() {
    for policy in [Policy { preempt_by_level: false, ..muster() }, Policy { waste_per_mille: 0, ..muster() }]
    {
        let mut scene = Scene::new(policy, 1, 8);
        let old = scene.unit(1, 1, 8, 0);
        scene.submit(old);
        scene.pass(0);
        let new = scene.unit(2, 1, 8, 4000);
        scene.submit(new);
        assert_eq!(scene.pass(4000), (vec![], vec![]));
        let urgent = Unit { priority: 1, ..scene.unit(3, 1, 8, 5000) };
        scene.submit(urgent);
        assert_eq!(scene.pass(5000), (vec![3], vec![1]));
    }
}

#[test]
fn who_has_waited_for_very_long_goes_first_and_is_not_stopped_for_its_level() {
    let policy = Policy { least_run: Span::ZERO, ..muster() };
    let mut scene = Scene::new(policy, 1, 8);
    let first = scene.unit(1, 1, 8, 0);
    scene.submit(first);
    scene.pass(0);
    // One after the other of those that come later goes first, since the first has had its service.
    let mut seq = 1;
    let mut now = 1800;
    let started = loop {
        seq += 1;
        let next = scene.unit(seq, 1, 8, now);
        scene.submit(next);
        let (starts, _) = scene.pass(now);
        if starts == [1] {
            break now;
        }
        assert!(now < 200_000, "it waits for ever");
        now += 1800;
    };
    assert!((86_400..=90_000 + 1800).contains(&started), "{started}");
    assert_eq!(scene.pass(started + 3600), (vec![], vec![]));
}

#[test]
fn what_is_pinned_is_a_tenth_of_the_pool_and_the_rest_goes_by_its_level() {
    const DAY: u32 = 25 * 3600;
    let mut scene = Scene::new(Policy { preempt: false, ..muster() }, 1, 10);
    for (seq, each) in [(1, 8), (2, 2)] {
        let holder = scene.unit(seq, 1, each, 0);
        scene.submit(holder);
    }
    scene.pass(0);
    // Two that have had their first service wait for a day, and one that has had nothing comes then.
    let past = Past { ran: Span::from_secs(5 * 3600), ..Past::default() };
    for seq in [3, 4] {
        let old = scene.unit(seq, 1, 1, 0);
        let id = scene.board.submit(old, past, at(0));
        scene.units.insert(seq, id);
    }
    let fresh = scene.unit(5, 1, 1, DAY);
    scene.submit(fresh);
    scene.end(2, DAY);
    assert_eq!(scene.pass(DAY), (vec![3, 5], vec![]));
}

#[test]
fn stops_by_level_are_paid_from_what_was_saved_up_and_comes_back() {
    // A day's worth is 691 GPU-seconds, a stop costs 480, and 0.008 come with every second.
    let policy = Policy { waste_per_mille: 1, ..muster() };
    let mut scene = Scene::new(policy, 1, 8);
    for (seq, now) in [(1, 0), (2, 1800), (3, 3600)] {
        let unit = scene.unit(seq, 1, 8, now);
        scene.submit(unit);
        let expected = match seq {
            1 => (vec![1], vec![]),
            2 => (vec![2], vec![1]),
            _ => (vec![], vec![]),
        };
        assert_eq!(scene.pass(now), expected, "{seq}");
    }
    assert_eq!(scene.pass(30_000), (vec![], vec![]), "too little has come back");
    assert_eq!(scene.pass(40_000), (vec![3], vec![2]));
}

#[test]
fn the_queue_with_the_smaller_share_goes_first() {
    let mut scene = Scene::new(muster(), 1, 8);
    scene.board.set_queue(QueueId(1), &QueueTerms { weight: 3, ..QueueTerms::default() });
    for seq in 0..16 {
        let unit = Unit { queue: QueueId((seq % 2) as u32), ..scene.unit(seq, 1, 1, 0) };
        scene.submit(unit);
    }
    let (starts, _) = scene.pass(0);
    let heavy = starts.iter().filter(|seq| *seq % 2 == 1).count();
    assert_eq!((starts.len(), heavy), (8, 6));
}

#[test]
fn an_owner_gets_back_what_was_lent() {
    let mut scene = Scene::new(muster(), 2, 8);
    for queue in 0..2 {
        let terms = QueueTerms { nominal: Some(gpus(8)), ..QueueTerms::default() };
        scene.board.set_queue(QueueId(queue), &terms);
    }
    for seq in 0..4 {
        let unit = scene.unit(seq, 1, 4, 0);
        scene.submit(unit);
    }
    // Idle quota is lent.
    assert_eq!(scene.pass(0).0.len(), 4);
    let owner = Unit { queue: QueueId(1), ..scene.unit(9, 1, 8, 100) };
    scene.submit(owner);
    let (starts, stops) = scene.pass(100);
    assert_eq!((starts, stops.len()), (vec![9], 2));
    // What is stopped waits for its own quota now, and takes nothing back.
    assert_eq!(scene.pass(200), (vec![], vec![]));
    let firm = Unit { preemptible: false, ..scene.unit(10, 1, 1, 300) };
    scene.end(9, 300);
    scene.submit(firm);
    let (starts, _) = scene.pass(300);
    assert!(!starts.contains(&10), "only what may be stopped may borrow");
}

/// A gang of the whole pool waits behind small units whose ends nobody knows.
fn passed_gang() -> Scene {
    let policy = Policy { pinned_per_mille: 1000, ..Policy::default() };
    let mut scene = Scene::new(policy, 2, 8);
    for seq in 0..2 {
        let unit = scene.unit(seq, 1, 4, 0);
        scene.submit(unit);
    }
    scene.pass(0);
    let gang = scene.unit(5, 2, 8, 10);
    scene.submit(gang);
    assert_eq!(scene.board.pass(at(10)).look_again, Some(at(610)));
    let small = scene.unit(6, 1, 4, 20);
    scene.submit(small);
    assert_eq!(scene.pass(20).0, [6]);
    scene
}

#[test]
fn where_no_ends_are_known_others_pass_for_a_while_and_then_room_is_kept() {
    let mut scene = passed_gang();
    // What runs is replaced by what has just come.
    for (old, new) in [(0, 2), (1, 3), (6, 4)] {
        let unit = scene.unit(new, 1, 4, 590);
        scene.submit(unit);
        scene.end(old, 590);
        assert_eq!(scene.pass(590).0, [new]);
    }
    scene.pass(610);
    assert_eq!(scene.board.hold().unwrap().nodes.len(), 2);
    let late = scene.unit(7, 1, 4, 620);
    scene.submit(late);
    assert_eq!(scene.pass(620).0, [] as [u64; 0]);
    for seq in [2, 3, 4] {
        scene.end(seq, 700);
    }
    assert_eq!(scene.pass(700).0, [5]);
    scene.end(5, 800);
    assert_eq!(scene.pass(800).0, [7]);
}

#[test]
fn nodes_are_not_emptied_while_what_runs_is_old() {
    let mut scene = passed_gang();
    scene.end(6, 600);
    scene.pass(600);
    let late = scene.unit(7, 1, 4, 4000);
    scene.submit(late);
    // The gang has waited for 3990 s, and what runs came 4000 s ago.
    assert_eq!(scene.pass(4000).0, [7]);
}

#[derive(Debug, Clone)]
struct Job {
    wait: u32,
    run: u32,
    tasks: u32,
    each: u64,
}

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (0_u32..6, 1_u32..30, 1_u32..6, 1_u64..5).prop_map(|(wait, run, tasks, each)| Job {
        wait,
        run,
        tasks: tasks.min(3 * (4 / each) as u32),
        each,
    });
    prop::collection::vec(job, 1..40)
}

/// Plays jobs whose estimates hold, and checks each first promise against the start.
fn promises_hold(policy: Policy, jobs: &[Job]) -> Result<(), TestCaseError> {
    let mut scene = Scene::new(policy, 3, 4);
    let (mut promised, mut ends) = (BTreeMap::<u64, Timestamp>::new(), BTreeMap::<u32, Vec<u64>>::new());
    let mut arrivals = Vec::new();
    let mut clock = 0;
    for (seq, job) in jobs.iter().enumerate() {
        clock += job.wait;
        arrivals.push((clock, seq as u64, job));
    }
    let mut arrivals = arrivals.into_iter().peekable();
    let mut started = 0;
    loop {
        let next = arrivals.peek().map(|(at, ..)| *at).into_iter().chain(ends.keys().next().copied()).min();
        let Some(now) = next else { break };
        for seq in ends.remove(&now).unwrap_or_default() {
            scene.end(seq, now);
        }
        while let Some((_, seq, job)) = arrivals.next_if(|(at, ..)| *at == now) {
            let unit = scene.unit(seq, job.tasks, job.each, now);
            let estimate = Some(Span::from_secs(job.run));
            scene.submit(Unit { estimate, preemptible: false, ..unit });
        }
        let (starts, stops) = scene.pass(now);
        prop_assert!(stops.is_empty());
        started += starts.len();
        for seq in starts {
            let promise = promised.get(&seq);
            prop_assert!(
                promise.is_none_or(|promise| at(now) <= *promise),
                "{seq} was promised {promise:?}, not {now}"
            );
            ends.entry(now + jobs[seq as usize].run).or_default().push(seq);
        }
        if let Some(Hold { unit, at: Some(start), .. }) = scene.board.hold() {
            let seq = scene.seq(unit);
            promised.entry(seq).or_insert(start);
        }
    }
    prop_assert_eq!(started, jobs.len(), "all of them start");
    Ok(())
}

proptest! {
    #[test]
    fn a_reserved_unit_starts_when_it_was_first_promised_or_earlier(jobs in any_jobs(), pick in 0_usize..3) {
        let name = [PolicyName::Easy, PolicyName::EasySjbf, PolicyName::Muster][pick];
        promises_hold(Policy::named(name), &jobs)?;
    }
}
