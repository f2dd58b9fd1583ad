//! Tests of gang placement: the published examples, and what must hold for any cluster.

use std::collections::BTreeMap;

use muster_domain::Device;
use proptest::prelude::*;

use super::*;
use crate::policy::Policy;

fn vram(vram_mb: u64) -> Resources {
    Resources { vram_mb, ..Resources::default() }
}

fn worker(name: &str, total: Resources) -> WorkerView {
    WorkerView {
        id: Some(WorkerId::new(name)),
        total: Some(total),
        used: Resources::default(),
        running: 0,
        slots: None,
        ..WorkerView::default()
    }
}

fn workers(count: usize, vram_mb: u64) -> Vec<WorkerView> {
    (0..count).map(|index| worker(&format!("w{index:05}"), vram(vram_mb))).collect()
}

fn gang(seq: u64, tasks: u32, need: Resources) -> GangCandidate {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seq.to_be_bytes());
    GangCandidate {
        unit: Unit::Gang(GangId::from_random(bytes)),
        tasks,
        least: tasks,
        per_worker: 1,
        priority: 0,
        // The larger first, as one of the policies wants it.
        pool: muster_domain::PoolAt::default(),
        rank: -i64::from(tasks),
        seq,
        requirement: Requirement { resources: need, ..Requirement::default() },
        limits: Vec::new(),
        avoid: Vec::new(),
        seat: None,
        fixed: false,
        ends: None,
        topology: None,
    }
}

/// Which gangs are placed (by age) and where.
fn placed(workers: &[WorkerView], gangs: &[GangCandidate]) -> Vec<(u64, Vec<String>)> {
    named(workers, gangs, &place_gangs(workers, &[], None, gangs, &Policies::default()))
}

fn named(
    workers: &[WorkerView],
    gangs: &[GangCandidate],
    placements: &[GangPlacement],
) -> Vec<(u64, Vec<String>)> {
    let name = |worker: &usize| workers[*worker].id.clone().unwrap().into_string();
    placements.iter().map(|p| (gangs[p.candidate].seq, p.workers.iter().map(name).collect())).collect()
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn rank_then_age_decides_who_goes_first_whatever_the_size() {
    let gang = |seq, tasks, rank| GangCandidate { rank, ..gang(seq, tasks, vram(1)) };
    let gangs = [gang(2, 2, 9), gang(3, 4, 1), gang(4, 8, 9), gang(1, 4, 9)];
    let order: Vec<u64> = placed(&workers(8, 8000), &gangs).into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(order, [3, 1, 2, 4]);
}

#[test]
fn the_larger_of_two_gangs_gets_the_workers() {
    let gangs = [gang(1, 3, vram(8000)), gang(2, 4, vram(8000))];
    let all = placed(&workers(4, 8000), &gangs);
    assert_eq!(all, [(2, names(&["w00000", "w00001", "w00002", "w00003"]))]);
}

#[test]
fn a_gang_waits_for_the_last_worker_it_needs() {
    let four = [gang(1, 4, vram(8000))];
    assert_eq!(placed(&workers(3, 8000), &four), []);
    assert_eq!(placed(&workers(4, 8000), &four).len(), 1);
}

#[test]
fn what_is_in_use_is_not_given_again() {
    let mut one = workers(1, 8000);
    one[0].used = vram(5000);
    assert_eq!(placed(&one, &[gang(1, 1, vram(4000))]), []);
    assert_eq!(placed(&one, &[gang(1, 1, vram(3000))]).len(), 1);
}

#[test]
fn a_gang_that_does_not_fit_hides_none_that_fits() {
    let gangs = [gang(1, 9, vram(1)), gang(2, 2, vram(9000)), gang(3, 2, vram(8000))];
    assert_eq!(placed(&workers(2, 8000), &gangs), [(3, names(&["w00000", "w00001"]))]);
}

#[test]
fn tasks_without_resources_fit_everywhere_and_a_gpu_need_never_fits_a_worker_without() {
    let bare = [worker("a", Resources::default()), worker("b", Resources::default())];
    assert_eq!(placed(&bare, &[gang(1, 2, Resources::default())]).len(), 1);
    assert_eq!(placed(&bare, &[gang(1, 1, vram(1))]), []);
}

#[test]
fn the_smallest_workers_that_fit_are_taken_and_tasks_follow_their_names() {
    let sizes = [("d", 9000), ("c", 4000), ("b", 5000), ("a", 20_000)];
    let cluster: Vec<WorkerView> = sizes.iter().map(|(name, size)| worker(name, vram(*size))).collect();
    assert_eq!(placed(&cluster, &[gang(1, 2, vram(4500))]), [(1, names(&["b", "d"]))]);
    let spread = place_gangs(
        &cluster,
        &[],
        None,
        &[gang(1, 2, vram(4500))],
        &Policy { scoring: Scoring::Spread, ..Policy::default() }.into(),
    );
    assert_eq!(named(&cluster, &[gang(1, 2, vram(4500))], &spread), [(1, names(&["a", "b"]))]);
}

#[test]
fn a_worker_is_shared_up_to_the_limit_and_the_rest_goes_where_it_fits_tightest() {
    let gpus = |gpus| Resources { gpus, ..Resources::default() };
    let cluster = [worker("big", gpus(8)), worker("mid", gpus(4)), worker("one", gpus(1))];
    let five = GangCandidate { per_worker: 4, ..gang(1, 5, gpus(1)) };
    assert_eq!(placed(&cluster, &[five]), [(1, names(&["mid", "mid", "mid", "mid", "one"]))]);
    let thirteen = GangCandidate { per_worker: 8, ..gang(1, 13, gpus(1)) };
    assert_eq!(placed(&cluster, std::slice::from_ref(&thirteen))[0].1.len(), 13);
    assert_eq!(placed(&cluster, &[GangCandidate { per_worker: 7, ..thirteen }]), []);
}

#[test]
fn slots_and_tags_are_respected() {
    let mut cluster = workers(3, 100);
    cluster[0].slots = Some(1);
    cluster[0].running = 1;
    assert_eq!(placed(&cluster, &[gang(1, 2, vram(1))]), [(1, names(&["w00001", "w00002"]))]);
    let mut tagged = gang(1, 1, vram(1));
    tagged.requirement.tags.insert("a100".to_owned());
    assert_eq!(placed(&cluster, std::slice::from_ref(&tagged)), []);
    cluster[2].tags.insert("a100".to_owned());
    assert_eq!(placed(&cluster, &[tagged]), [(1, names(&["w00002"]))]);
}

#[test]
fn an_elastic_gang_starts_with_as_many_as_fit() {
    let elastic = GangCandidate { least: 2, ..gang(1, 4, vram(8000)) };
    assert_eq!(placed(&workers(1, 8000), std::slice::from_ref(&elastic)), []);
    assert_eq!(placed(&workers(3, 8000), std::slice::from_ref(&elastic))[0].1.len(), 3);
    assert_eq!(placed(&workers(9, 8000), &[elastic])[0].1.len(), 4);
}

#[test]
fn workers_to_avoid_are_used_only_as_far_as_the_gang_cannot_start_without() {
    let avoid = vec![WorkerId::new("w00000"), WorkerId::new("w00001"), WorkerId::new("gone")];
    let two = GangCandidate { avoid: avoid.clone(), ..gang(1, 2, vram(1)) };
    assert_eq!(placed(&workers(4, 8000), std::slice::from_ref(&two)), [(1, names(&["w00002", "w00003"]))]);
    assert_eq!(placed(&workers(3, 8000), &[two]), [(1, names(&["w00000", "w00002"]))]);
    let elastic = |least| GangCandidate { avoid: avoid.clone(), least, ..gang(1, 4, vram(1)) };
    assert_eq!(placed(&workers(4, 8000), &[elastic(1)])[0].1, names(&["w00002", "w00003"]));
    assert_eq!(placed(&workers(4, 8000), &[elastic(3)])[0].1, names(&["w00000", "w00002", "w00003"]));
}

#[test]
fn limits_count_every_task_and_are_shared_by_the_gangs_of_a_pass() {
    let limited = |seq, tasks| GangCandidate { limits: vec![0], ..gang(seq, tasks, vram(1)) };
    let cluster = workers(9, 8000);
    let seqs = |gangs: &[GangCandidate], limits: &[u32]| -> Vec<(u64, usize)> {
        let placements = place_gangs(&cluster, limits, None, gangs, &Policies::default());
        placements.iter().map(|p| (gangs[p.candidate].seq, p.workers.len())).collect()
    };
    assert_eq!(seqs(&[limited(1, 3), limited(2, 2), limited(3, 2)], &[5]), [(1, 3), (2, 2)]);
    assert_eq!(seqs(&[limited(1, 3), limited(2, 2)], &[2]), [(2, 2)]);
    assert_eq!(seqs(&[GangCandidate { least: 1, ..limited(1, 4) }], &[3]), [(1, 3)]);
}

#[test]
fn a_claimer_without_a_name_gets_no_reservation() {
    let nobody = WorkerView { id: None, total: None, ..worker("x", Resources::default()) };
    assert_eq!(placed(&[nobody], &[gang(1, 1, vram(1))]), []);
}

/// No clock bounds this: a pass that looked at every pair of a task and a worker would not end.
#[test]
fn a_thousand_gangs_on_ten_thousand_workers_are_one_short_pass() {
    let cluster = workers(10_000, 8000);
    let gangs: Vec<GangCandidate> = (0..1000)
        .map(|seq| {
            let need = vram(if seq % 2 == 0 { 1000 + seq } else { 9000 });
            GangCandidate { per_worker: 1 + (seq % 3) as u32, ..gang(seq, 8 + (seq % 64) as u32, need) }
        })
        .collect();
    let placements = place_gangs(&cluster, &[], None, &gangs, &Policies::default());
    assert_eq!(placements.len(), 500);
}

fn any_resources(limit: u64) -> impl Strategy<Value = Resources> {
    let counter = prop_oneof![3 => Just(None), 1 => (0..4_u64).prop_map(Some)];
    (0..limit, 0..limit, 0..limit, 0..4_u64, counter).prop_map(
        |(cpu_millis, memory_mb, vram_mb, gpus, license)| Resources {
            cpu_millis,
            memory_mb,
            vram_mb,
            gpus,
            counters: license.map(|n| ("license".to_owned(), n)).into_iter().collect(),
        },
    )
}

fn with_sizes(sizes: &[u64]) -> crate::devices::Devices {
    let device = |(index, vram_mb): (u32, &u64)| Device { index, vram_mb: *vram_mb, ..Device::default() };
    crate::devices::Devices::idle(&(0..).zip(sizes).map(device).collect::<Vec<_>>())
}

fn any_worker() -> impl Strategy<Value = WorkerView> {
    let slots = prop::option::of(0_u32..5);
    let devices = prop::option::of(prop::collection::vec(1_u64..20, 1..4));
    (any_resources(60), any_resources(20), 0_u32..3, slots, any::<bool>(), devices).prop_map(
        |(total, used, running, slots, tagged, devices)| WorkerView {
            devices: devices.map(|sizes| with_sizes(&sizes)),
            used,
            running,
            slots,
            tags: tagged.then(|| "a100".to_owned()).into_iter().collect(),
            ..worker("x", total)
        },
    )
}

fn any_gang() -> impl Strategy<Value = GangCandidate> {
    let shape = (1_u32..7, 0_u32..7, 1_u32..4, -2_i32..3);
    let limits = prop::collection::vec(0_usize..3, 0..3);
    let avoid = prop::collection::vec(0_usize..8, 0..4);
    let flags = (any::<bool>(), prop::bool::weighted(0.2));
    (shape, any_resources(15), flags, limits, avoid).prop_map(
        |((tasks, spare, per_worker, priority), need, (tagged, exclusive), limits, avoid)| {
            let mut gang = gang(0, tasks, need);
            gang.least = tasks.saturating_sub(spare.saturating_sub(3)).max(1);
            gang.requirement.tags = tagged.then(|| "a100".to_owned()).into_iter().collect();
            gang.requirement.exclusive = exclusive;
            let avoid = avoid.iter().map(|index| WorkerId::new(format!("w{index}"))).collect();
            GangCandidate { per_worker, priority, rank: -i64::from(priority), limits, avoid, ..gang }
        },
    )
}

/// How many tasks of the gang fit, by trying one after the other.
fn room(cluster: &[WorkerView], gang: &GangCandidate) -> u32 {
    let mut cluster = cluster.to_vec();
    let mut count = 0;
    for worker in &mut cluster {
        for _ in 0..gang.per_worker {
            if worker.has_room_for(&gang.requirement) {
                worker.take(&gang.requirement);
                count += 1;
            }
        }
    }
    count
}

fn allowed(limits: &[u32], gang: &GangCandidate) -> u32 {
    let mut limits = limits.to_vec();
    let mut count = 0;
    while count < gang.tasks {
        for limit in &gang.limits {
            match limits.get_mut(*limit) {
                Some(0) => return count,
                Some(left) => *left -= 1,
                None => {}
            }
        }
        count += 1;
    }
    count
}

/// Replays the pass one gang at a time with the plain means above.
fn check(
    cluster: &[WorkerView],
    limits: &[u32],
    gangs: &[GangCandidate],
    placements: &[GangPlacement],
) -> Result<(), TestCaseError> {
    let mut cluster = cluster.to_vec();
    let mut limits = limits.to_vec();
    let mut order: Vec<usize> = (0..gangs.len()).collect();
    order.sort_by_key(|index| gangs[*index].key());
    let mut remaining = placements.iter().peekable();
    for index in order {
        let gang = &gangs[index];
        let possible = room(&cluster, gang).min(allowed(&limits, gang)).min(gang.tasks);
        let Some(placement) = remaining.next_if(|p| p.candidate == index) else {
            prop_assert!(possible < gang.least, "{gang:?} was left although {possible} fit");
            continue;
        };
        let count = placement.workers.len() as u32;
        prop_assert!(count >= gang.least && count <= possible, "{count} of {possible}: {gang:?}");
        let mut shares: BTreeMap<usize, u32> = BTreeMap::new();
        for worker in &placement.workers {
            prop_assert!(cluster[*worker].has_room_for(&gang.requirement), "over-committed");
            cluster[*worker].take(&gang.requirement);
            *shares.entry(*worker).or_default() += 1;
        }
        prop_assert!(shares.values().all(|tasks| *tasks <= gang.per_worker));
        let mut runs = placement.workers.clone();
        runs.dedup();
        prop_assert_eq!(runs.len(), shares.len(), "tasks on one worker are adjacent");
        for limit in gang.limits.iter().filter(|limit| **limit < limits.len()).copied().collect::<Vec<_>>() {
            prop_assert!(limits[limit] >= count, "over the limit");
            limits[limit] -= count;
        }
    }
    prop_assert!(remaining.next().is_none(), "placed twice or out of order");
    Ok(())
}

fn numbered(gangs: Vec<GangCandidate>) -> Vec<GangCandidate> {
    let each = gangs.into_iter().zip(0..);
    each.map(|(other, seq)| GangCandidate { unit: gang(seq, 1, vram(0)).unit, seq, ..other }).collect()
}

proptest! {
    #[test]
    fn every_gang_is_whole_or_waits_for_a_good_reason(
        cluster in prop::collection::vec(any_worker(), 0..8),
        gangs in prop::collection::vec(any_gang(), 0..12),
        needs in prop::collection::vec(any_resources(15), 1..4),
        limits in prop::collection::vec(0_u32..12, 0..3),
        spread in any::<bool>(),
    ) {
        let cluster: Vec<WorkerView> = cluster.into_iter().enumerate()
            .map(|(i, w)| WorkerView { id: Some(WorkerId::new(format!("w{i}"))), ..w }).collect();
        // Few different needs, so that what is remembered about one matters to the next.
        let mut gangs = numbered(gangs);
        for (index, gang) in gangs.iter_mut().enumerate() {
            gang.requirement.resources = needs[index % needs.len()].clone();
        }
        let scoring = if spread { Scoring::Spread } else { Scoring::BestFit };
        let placements = place_gangs(&cluster, &limits, None, &gangs, &Policy { scoring, ..Policy::default() }.into());
        check(&cluster, &limits, &gangs, &placements)?;
    }

    #[test]
    fn the_order_in_which_workers_are_given_does_not_matter(
        (cluster, shuffled) in prop::collection::vec(any_worker(), 0..8).prop_flat_map(|list| {
            let named: Vec<WorkerView> = list.into_iter().enumerate()
                .map(|(i, w)| WorkerView { id: Some(WorkerId::new(format!("w{i}"))), ..w }).collect();
            (Just(named.clone()), Just(named).prop_shuffle())
        }),
        gangs in prop::collection::vec(any_gang(), 0..12),
        spread in any::<bool>(),
    ) {
        let gangs = numbered(gangs);
        let scoring = if spread { Scoring::Spread } else { Scoring::BestFit };
        let by_name = |workers: &[WorkerView]| named(workers, &gangs, &place_gangs(workers, &[], None, &gangs, &Policy { scoring, ..Policy::default() }.into()));
        prop_assert_eq!(by_name(&cluster), by_name(&shuffled));
    }
}
