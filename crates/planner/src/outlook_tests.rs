//! Tests of what is done for work that does not fit.

use muster_domain::JobId;

use super::*;
use crate::prospect::tests::{at, occupant, unit, worker};

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
    let sight = Sight { workers, occupants, ledger: None, allowance: Allowance::default() };
    outlook(sight, waiting, Policy::default(), at(now))
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
    let found = seen(&workers, &occupants, &[waits(8, 0, (2, 8))], 600);
    assert_eq!((found.rooms.len(), found.rooms[&0].until), (2, None));
}
