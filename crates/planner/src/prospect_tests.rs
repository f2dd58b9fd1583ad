//! Tests of foreseen starts: by hand, and against trying every moment.

use muster_domain::{Entrant, JobId, Requirement, Turn, Unit, WorkerId};
use proptest::prelude::*;

use super::*;

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds as i64 * 1_000_000)
}

pub(crate) fn worker(name: &str, total: u64, used: u64) -> WorkerView {
    WorkerView {
        id: Some(WorkerId::new(name)),
        total: Some(gpus(total)),
        used: gpus(used),
        ..WorkerView::default()
    }
}

pub(crate) fn unit(tasks: u32, need: u64) -> GangCandidate {
    GangCandidate {
        unit: Unit::Job(JobId::from_random([9; 16])),
        tasks,
        least: tasks,
        per_worker: 1,
        priority: 0,
        pool: muster_domain::PoolAt::default(),
        rank: 0,
        seq: 1,
        requirement: Requirement { resources: gpus(need), ..Requirement::default() },
        limits: Vec::new(),
        avoid: Vec::new(),
        seat: None,
        fixed: false,
        ends: None,
        topology: None,
    }
}

pub(crate) fn occupant(worker: usize, held: u64, ends: Option<u64>) -> Occupant {
    Occupant {
        pool: muster_domain::PoolAt::default(),
        worker,
        held: gpus(held),
        devices: None,
        ends: ends.map(at),
        unit: Unit::Job(JobId::from_random([1; 16])),
        priority: 0,
        since: Some(at(0)),
        ready: at(0),
        saved: None,
        stopping: false,
        preemptible: true,
        seat: None,
        level: 0,
        pinned: false,
    }
}

#[test]
fn the_start_is_when_the_last_room_it_needs_becomes_free() {
    let workers = [worker("a", 8, 8), worker("b", 8, 8), worker("c", 8, 8)];
    let occupants = [occupant(0, 8, Some(300)), occupant(1, 8, Some(100)), occupant(2, 8, Some(200))];
    let found = prospect(&workers, &occupants, &unit(2, 8), Scoring::BestFit).unwrap();
    assert_eq!(found.at, Some(at(200)));
    assert_eq!(found.rooms.keys().copied().collect::<Vec<_>>(), [1, 2]);
    let unknown = [occupant(0, 8, None), occupant(1, 8, Some(100)), occupant(2, 8, None)];
    let found = prospect(&workers, &unknown, &unit(2, 8), Scoring::BestFit).unwrap();
    assert_eq!((found.at, found.rooms.len()), (None, 2));
    assert_eq!(prospect(&workers, &occupants, &unit(4, 8), Scoring::BestFit), None);
}

#[test]
fn what_is_left_beside_the_room_is_spare() {
    let workers = [worker("a", 8, 7)];
    let occupants = [occupant(0, 5, Some(100)), occupant(0, 2, Some(900))];
    let found = prospect(&workers, &occupants, &unit(1, 4), Scoring::BestFit).unwrap();
    assert_eq!(
        (found.at, &found.rooms[&0].resources, &found.rooms[&0].spare),
        (Some(at(100)), &gpus(4), &gpus(2))
    );
}

/// Workers of eight GPUs, and who holds some of them.
fn cluster() -> impl Strategy<Value = (Vec<WorkerView>, Vec<Occupant>)> {
    let held = prop::collection::vec((1_u64..5, prop::option::weighted(0.8, 1_u64..50)), 0..4);
    prop::collection::vec(held, 1..5).prop_map(|all| {
        let (mut workers, mut occupants) = (Vec::new(), Vec::new());
        for (index, held) in all.into_iter().enumerate() {
            let mut used = 0;
            for (gpus, ends) in held {
                if used + gpus <= 8 {
                    used += gpus;
                    occupants.push(occupant(index, gpus, ends));
                }
            }
            workers.push(worker(&format!("w{index}"), 8, used));
        }
        (workers, occupants)
    })
}

proptest! {
    #[test]
    fn no_earlier_moment_has_room((workers, occupants) in cluster(), tasks in 1_u32..4, need in 1_u64..9) {
        let unit = unit(tasks, need);
        let found = prospect(&workers, &occupants, &unit, Scoring::BestFit);
        prop_assert_eq!(found.is_some(), tasks as usize <= workers.len());
        let Some(found) = found else { return Ok(()) };
        let earliest = (0..60).map(at).find(|at| {
            places(&left_at(&workers, &occupants, Some(*at)), &unit, Scoring::BestFit, u32::MAX).is_some()
        });
        // A moment without an end has the room of the end before it; now is the time of none.
        if let Some(earliest) = earliest.filter(|earliest| *earliest > at(0)) {
            prop_assert_eq!(found.at, Some(earliest));
        }
        let kept: u32 = found.rooms.values().map(|room| room.tasks).sum();
        prop_assert_eq!(kept, tasks);
    }

    /// Whoever the kept room admits, the unit starts at the time that was foreseen.
    #[test]
    fn those_who_are_admitted_never_delay_it(
        (workers, occupants) in cluster(),
        tasks in 1_u32..4,
        need in 1_u64..9,
        others in prop::collection::vec((0_usize..5, 1_u64..5, prop::option::of(1_u64..60)), 0..12),
    ) {
        let unit = unit(tasks, need);
        let Some(found) = prospect(&workers, &occupants, &unit, Scoring::BestFit) else { return Ok(()) };
        let mut now = workers.clone();
        for (index, room) in &found.rooms {
            now[*index].kept = Some(room.clone());
        }
        let mut occupants = occupants;
        for (index, amount, ends) in others {
            let need = gpus(amount);
            let stranger = Unit::Job(JobId::from_random([3; 16]));
            let entrant = Entrant { unit: stranger, turn: Turn::new(muster_domain::PoolAt::default(), 0, 2), need: &need, ends: ends.map(at) };
            let requirement = Requirement { resources: need.clone(), ..Requirement::default() };
            let Some(worker) = now.get_mut(index) else { continue };
            if worker.has_room_for(&requirement) && worker.admits(&entrant) {
                worker.take(&requirement);
                worker.enter(&entrant);
                occupants.push(Occupant { ends: entrant.ends, ..occupant(index, amount, None) });
            }
        }
        let then = left_at(&now, &occupants, found.at);
        for (index, room) in &found.rooms {
            let free = then[*index].total.as_ref().unwrap().minus(&then[*index].used);
            prop_assert!(room.resources.fits_in(&free), "{room:?} does not fit {free:?}");
        }
    }
}
