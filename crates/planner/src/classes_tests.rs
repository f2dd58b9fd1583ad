//! Classes of workers: what they have, who holds it, until when.

use muster_domain::{GangId, JobId, WorkerId};

use super::*;
use crate::gang::GangCandidate;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(1_000_000_000 + second * 1_000_000)
}

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn worker(name: &str, total: u64, used: u64) -> WorkerView {
    WorkerView {
        id: Some(WorkerId::new(name)),
        total: Some(gpus(total)),
        used: gpus(used),
        running: u32::from(used > 0),
        ..WorkerView::default()
    }
}

fn job(byte: u8) -> Unit {
    Unit::Job(JobId::from_random([byte; 16]))
}

fn occupant(worker: usize, unit: Unit, held: u64, ends: Option<Timestamp>) -> Occupant {
    Occupant {
        pool: muster_domain::PoolAt::default(),
        worker,
        held: gpus(held),
        devices: None,
        ends,
        unit,
        priority: 0,
        since: None,
        ready: Timestamp::default(),
        saved: None,
        stopping: false,
        preemptible: true,
        seat: None,
        level: 0,
        pinned: false,
    }
}

fn case(needed: u64, workers: Vec<WorkerView>, occupants: Vec<Occupant>) -> Case {
    let unit = GangCandidate {
        unit: job(99),
        tasks: 1,
        least: 1,
        per_worker: 1,
        priority: 0,
        pool: muster_domain::PoolAt::default(),
        rank: 0,
        seq: 1,
        requirement: Requirement { resources: gpus(needed), ..Requirement::default() },
        limits: Vec::new(),
        avoid: Vec::new(),
        ends: None,
        seat: None,
        fixed: false,
        topology: None,
    };
    Case { occupants, ..Case::new(unit, workers, NOW) }
}

fn classes(case: &Case) -> Explanation {
    let mut explanation = Explanation::default();
    explain(case, &mut explanation);
    explanation
}

#[test]
fn busy_workers_say_until_when_and_with_whom() {
    let gang = Unit::Gang(GangId::from_random([1; 16]));
    let workers = vec![worker("a", 8, 8), worker("b", 8, 8), worker("c", 8, 6), worker("small", 4, 0)];
    let occupants = vec![
        occupant(0, gang, 8, Some(at(60))),
        occupant(1, gang, 8, Some(at(60))),
        occupant(2, job(2), 3, Some(at(20))),
        occupant(2, job(3), 3, Some(at(40))),
    ];
    let found = classes(&case(8, workers.clone(), occupants.clone()));
    let [large, small] = found.classes.as_slice() else { panic!("{found:?}") };
    assert_eq!((large.workers, large.busy, large.room, large.endless), (3, 3, 0, 0));
    assert_eq!(large.free_at, Some(at(40)), "the first has room when both of its jobs have ended");
    assert_eq!((large.holders[0].unit, large.holders[0].workers), (gang, 2));
    assert_eq!((small.workers, small.lacks.len(), small.busy), (1, 1, 0));
    let endless: Vec<Occupant> = occupants.into_iter().map(|one| Occupant { ends: None, ..one }).collect();
    let found = classes(&case(8, workers, endless));
    assert_eq!((found.classes[0].free_at, found.classes[0].endless), (None, 3));
}

#[test]
fn what_is_told_is_bounded_and_counts_everybody() {
    let workers: Vec<WorkerView> = (0..10_000_u64).map(|n| worker(&format!("w{n}"), 1 + n % 20, 1)).collect();
    let occupants =
        (0..10_000).map(|n| occupant(n, Unit::Job(JobId::from_random((n as u128).to_be_bytes())), 1, None));
    let found = classes(&case(8, workers, occupants.collect()));
    assert_eq!(found.classes.len(), CLASSES);
    let told: u32 = found.classes.iter().map(|class| class.workers).sum();
    assert_eq!(told + found.more_workers, 10_000);
    assert!(found.classes.iter().all(|class| class.holders.len() <= NAMED));
    assert!(found.classes[0].is_able());
}
