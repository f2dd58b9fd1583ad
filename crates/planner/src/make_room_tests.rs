//! Tests of the choice of victims: by hand, and against trying every choice.

use muster_domain::JobId;
use proptest::prelude::*;

use super::*;
use crate::prospect::tests::{unit, worker};

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn victim(name: u8, priority: i32, cost: u64, holds: &[(usize, u64)]) -> Victim {
    Victim {
        unit: Unit::Job(JobId::from_random([name; 16])),
        priority,
        borrows: false,
        cost,
        holds: holds.iter().map(|(worker, amount)| (*worker, gpus(*amount), None)).collect(),
    }
}

fn chosen(workers: &[WorkerView], incoming: &GangCandidate, victims: &[Victim]) -> Option<Vec<usize>> {
    make_room(workers, incoming, victims, Scoring::BestFit).map(|made| made.victims)
}

#[test]
fn the_least_important_then_the_cheapest_stop() {
    let workers = [worker("a", 8, 8), worker("b", 8, 8), worker("c", 8, 8)];
    let victims = [victim(1, 5, 1, &[(0, 8)]), victim(2, 0, 900, &[(1, 8)]), victim(3, 0, 100, &[(2, 8)])];
    assert_eq!(chosen(&workers, &unit(1, 8), &victims), Some(vec![2]));
    assert_eq!(chosen(&workers, &unit(2, 8), &victims), Some(vec![2, 1]));
    assert_eq!(chosen(&workers, &unit(3, 8), &victims), Some(vec![2, 1, 0]));
    assert_eq!(chosen(&workers, &unit(4, 8), &victims), None);
    let borrower = Victim { borrows: true, ..victim(4, 0, 9_999, &[(0, 8)]) };
    assert_eq!(chosen(&workers, &unit(1, 8), &[victims[1].clone(), borrower]), Some(vec![1]));
}

#[test]
fn those_whose_stop_does_not_help_are_spared() {
    let workers = [worker("a", 8, 8), worker("b", 8, 8)];
    // Cheap ones on both workers, of which one worker alone must become free.
    let victims = [victim(1, 0, 1, &[(0, 2)]), victim(2, 0, 2, &[(1, 4)]), victim(3, 0, 3, &[(1, 4)])];
    assert_eq!(chosen(&workers, &unit(1, 8), &victims), Some(vec![1, 2]));
    let free = [worker("a", 8, 0)];
    assert_eq!(chosen(&free, &unit(1, 8), &victims[..1]), Some(vec![]));
}

proptest! {
    #[test]
    fn the_choice_is_enough_and_nobody_in_it_is_spare(
        held in prop::collection::vec((0_usize..3, 1_u64..5, -1_i32..2, 0_u64..9), 0..7),
        tasks in 1_u32..3,
        need in 1_u64..9,
    ) {
        let mut used = [0; 3];
        let mut victims = Vec::new();
        for (index, (worker, amount, priority, cost)) in held.into_iter().enumerate() {
            if used[worker] + amount <= 8 {
                used[worker] += amount;
                victims.push(victim(index as u8, priority, cost, &[(worker, amount)]));
            }
        }
        let workers: Vec<WorkerView> = used.iter().zip(["a", "b", "c"]).map(|(used, name)| worker(name, 8, *used)).collect();
        let incoming = unit(tasks, need);
        let fits = |gone: &[usize]| prospect::places(&without(&workers, &victims, gone), &incoming, Scoring::BestFit).is_some();
        let everyone: Vec<usize> = (0..victims.len()).collect();
        let choice = chosen(&workers, &incoming, &victims);
        prop_assert_eq!(choice.is_some(), fits(&everyone));
        let Some(choice) = choice else { return Ok(()) };
        prop_assert!(fits(&choice));
        for index in 0..choice.len() {
            let mut fewer = choice.clone();
            fewer.remove(index);
            prop_assert!(!fits(&fewer), "{choice:?} without {index} is enough");
        }
    }
}
