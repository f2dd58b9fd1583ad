//! The cluster as a whole: what waits for what, and why room is idle.

use muster_domain::{GangId, JobId, KeptRoom, Requirement, Timestamp, WorkerId};
use proptest::prelude::*;

use super::*;
use crate::case::{Aside, Gate};

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

fn waiter(byte: u8, tasks: u32, needed: u64) -> Waiter {
    let unit = match tasks {
        1 => Unit::Job(JobId::from_random([byte; 16])),
        _ => Unit::Gang(GangId::from_random([byte; 16])),
    };
    let need = Requirement { resources: gpus(needed), ..Requirement::default() };
    let unit = GangCandidate::plain(unit, byte.into(), tasks, need);
    Waiter { unit, count: 1, queue: None, user: None, facing: Facing::default() }
}

fn case(workers: Vec<WorkerView>) -> Case {
    Case::new(waiter(0, 1, 0).unit, workers, Timestamp::default())
}

fn idle(found: &Overview) -> Vec<(&'static str, u32, u64)> {
    found.idle.iter().map(|room| (room.why.code(), room.workers, room.free.gpus)).collect()
}

#[test]
fn what_is_free_has_one_reason_each() {
    let mut cluster = case(vec![worker("a", 8, 6), worker("b", 8, 7), worker("c", 8, 0)]);
    cluster.aside.push(Aside { view: worker("bad", 8, 0), quarantined_until: Some(Timestamp::default()) });
    cluster.aside.push(Aside { view: worker("gone", 4, 0), quarantined_until: None });
    let kept = KeptRoom {
        unit: Unit::Gang(GangId::from_random([9; 16])),
        priority: 0,
        pool: muster_domain::PoolAt::default(),
        rank: 0,
        seq: 0,
        tasks: 1,
        resources: gpus(8),
        until: None,
        spare: Resources::default(),
        spare_slots: None,
    };
    cluster.workers[2].kept = Some(kept.clone());
    let found = overview(cluster.clone(), Vec::new());
    let nobody = [("nobody_waits", 2, 3), ("kept", 1, 8), ("quarantined", 1, 8), ("offline", 1, 4)];
    assert_eq!(idle(&found), nobody);
    assert_eq!((found.total.gpus, found.free.gpus, found.stranded.gpus), (24, 11, 0));
    let mut paused = waiter(1, 1, 1);
    paused.facing.gates.push(Gate::Paused { queue: QueueName::new("q") });
    let found = overview(cluster.clone(), vec![waiter(2, 3, 2), paused]);
    let expected =
        [("gated", 1, 1), ("part_of_gang", 1, 2), ("kept", 1, 8), ("quarantined", 1, 8), ("offline", 1, 4)];
    let mut told = idle(&found);
    told.sort_by_key(|(code, ..)| expected.iter().position(|one| one.0 == *code));
    assert_eq!(told, expected);
    let codes: Vec<&str> = found.waiting.iter().map(|cause| cause.code).collect();
    assert_eq!(codes, ["queue_paused", "gang_room"]);
    assert_eq!((found.kept.len(), found.kept[0].resources.gpus), (1, 8));
    let found = overview(cluster, vec![waiter(3, 1, 4)]);
    assert_eq!(idle(&found)[0], ("does_not_fit", 2, 3));
    assert_eq!(found.stranded.gpus, 3);
}

#[test]
fn pools_say_how_what_is_free_is_scattered() {
    let workers = vec![worker("a", 8, 6), worker("b", 8, 6), worker("c", 8, 8), worker("d", 4, 0)];
    let mut many = waiter(1, 1, 4);
    many.count = 1_000_000;
    let found = overview(case(workers), vec![many, waiter(2, 1, 8)]);
    assert_eq!(found.pools[0].by_free, [(2, 2), (0, 1)]);
    assert_eq!((found.pools[0].free.gpus, found.pools[0].stranded.gpus), (4, 4));
    assert_eq!((found.pools[1].free.gpus, found.pools[1].stranded.gpus), (4, 0));
    assert_eq!(found.waiting[0].jobs, 1_000_000);
    assert_eq!(found.line.len(), 2);
}

proptest! {
    #[test]
    fn everything_is_counted_once(
        sizes in prop::collection::vec((1_u64..9, 0_u64..9, 0_u32..6), 0..12),
        needs in prop::collection::vec((1_u64..9, 1_u32..4), 0..5),
    ) {
        let (mut workers, mut aside) = (Vec::new(), Vec::new());
        for (at, (total, used, state)) in sizes.iter().enumerate() {
            let view = worker(&format!("w{at}"), *total, (*used).min(*total));
            match state {
                0 => aside.push(Aside { view, quarantined_until: None }),
                1 => aside.push(Aside { view, quarantined_until: Some(Timestamp::default()) }),
                _ => workers.push(view),
            }
        }
        let count = workers.len() + aside.len();
        let free: u64 = sizes.iter().map(|(total, used, _)| total - (*used).min(*total)).sum();
        let waiters = needs.iter().zip(1_u8..).map(|((need, tasks), byte)| waiter(byte, *tasks, *need));
        let found = overview(Case { aside, ..case(workers) }, waiters.collect());
        prop_assert_eq!(found.pools.iter().map(|pool| pool.workers as usize).sum::<usize>(), count);
        prop_assert_eq!(found.idle.iter().map(|room| room.free.gpus).sum::<u64>(), free);
        prop_assert!(found.stranded.gpus <= found.free.gpus);
        let told: u64 = found.waiting.iter().map(|cause| cause.jobs + cause.gangs).sum();
        prop_assert_eq!(told, needs.len() as u64);
    }
}

#[test]
fn memory_of_gpus_that_somebody_has_for_itself_is_not_free() {
    let devices: Vec<muster_domain::Device> = (0..4)
        .map(|index| muster_domain::Device { index, vram_mb: 80, ..muster_domain::Device::default() })
        .collect();
    let total = Resources { memory_mb: 100, ..Resources::default() }.with_devices(&devices);
    let mut holder = WorkerView {
        total: Some(total),
        devices: Some(crate::devices::Devices::idle(&devices)),
        ..worker("w", 4, 0)
    };
    for (gpus, vram_mb) in [(2, 0), (0, 30)] {
        let resources = Resources { gpus, vram_mb, ..Resources::default() };
        holder.take(&Requirement { resources, ..Requirement::default() });
    }
    let found = overview(case(vec![holder]), Vec::new());
    assert_eq!((found.free.gpus, found.free.vram_mb), (1, 130), "one is idle, and 50 are left of another");
    assert_eq!((found.idle[0].free.vram_mb, found.pools[0].free.vram_mb), (130, 130));
}
