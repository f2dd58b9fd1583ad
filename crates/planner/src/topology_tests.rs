//! Tests of topology: what is promised holds for any small cluster, checked by trying everything.

use std::collections::BTreeMap;

use muster_domain::{GangId, Reason, Requirement, Resources, Timestamp, Unit, WorkerId};
use proptest::prelude::*;

use super::*;
use crate::case::Case;
use crate::explain::reasons;
use crate::gang::{GangPlacement, place_gangs};
use crate::policy::Policies;

fn explain_gang(gang: &GangCandidate, workers: &[WorkerView]) -> Vec<Reason> {
    reasons(&Case::new(gang.clone(), workers.to_vec(), Timestamp::default()))
}

fn worker(name: &str, slots: u32, labels: &[(&str, &str)]) -> WorkerView {
    WorkerView {
        id: Some(WorkerId::new(name)),
        total: Some(Resources::default()),
        slots: Some(slots),
        labels: labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect(),
        ..WorkerView::default()
    }
}

fn gang(tasks: u32, per_worker: u32, topology: Option<(TopologyMode, bool)>) -> GangCandidate {
    GangCandidate {
        unit: Unit::Gang(GangId::from_random([1; 16])),
        tasks,
        least: tasks,
        per_worker,
        priority: 0,
        pool: muster_domain::PoolAt::default(),
        rank: 0,
        seq: 1,
        requirement: Requirement::default(),
        limits: Vec::new(),
        avoid: Vec::new(),
        ends: None,
        seat: None,
        fixed: false,
        topology: topology.map(|(mode, required)| Topology { label: "rack".to_owned(), mode, required }),
    }
}

fn place(workers: &[WorkerView], gang: &GangCandidate) -> Option<Vec<usize>> {
    let rules = &Policies::default();
    let placed = place_gangs(workers, &[], None, std::slice::from_ref(gang), rules);
    placed.into_iter().next().map(|GangPlacement { workers, .. }| workers)
}

/// The value of a label for each task.
fn values(workers: &[WorkerView], label: &str, placed: Option<Vec<usize>>) -> Vec<String> {
    let value = |at: usize| workers[at].labels.get(label).cloned().unwrap_or_default();
    placed.unwrap_or_default().into_iter().map(value).collect()
}

fn racks(rooms: &[(&str, u32)]) -> Vec<WorkerView> {
    let mut all = Vec::new();
    for (rack, count) in rooms {
        all.extend((0..*count).map(|number| worker(&format!("{rack}{number}"), 1, &[("rack", *rack)])));
    }
    all
}

#[test]
fn the_smallest_domain_that_holds_the_gang_is_taken() {
    let cluster = racks(&[("a", 8), ("b", 3), ("c", 5)]);
    for topology in [None, Some((TopologyMode::Pack, false)), Some((TopologyMode::Pack, true))] {
        let rack = |tasks| values(&cluster, "rack", place(&cluster, &gang(tasks, 1, topology)));
        assert_eq!(rack(3), ["b"; 3], "{topology:?}");
        assert_eq!(rack(4), ["c"; 4], "{topology:?}");
        assert_eq!(rack(8), ["a"; 8], "{topology:?}");
    }
    let across = place(&cluster, &gang(10, 1, Some((TopologyMode::Pack, false))));
    let mut racks_used = values(&cluster, "rack", across);
    racks_used.dedup();
    assert_eq!(racks_used, ["a", "b"], "two racks, the second the one that holds the rest");
    assert_eq!(place(&cluster, &gang(9, 1, Some((TopologyMode::Pack, true)))), None);
}

#[test]
fn without_a_wish_the_smallest_of_all_labels_counts_and_one_worker_is_smaller_than_any() {
    let labelled = |name, rack, zone| worker(name, 2, &[("rack", rack), ("zone", zone)]);
    let cluster = [
        labelled("w0", "r0", "z0"),
        labelled("w1", "r0", "z0"),
        labelled("w2", "r1", "z1"),
        labelled("w3", "r1", "z1"),
        labelled("w4", "r2", "z1"),
    ];
    assert_eq!(values(&cluster, "zone", place(&cluster, &gang(6, 2, None))), ["z1"; 6]);
    assert_eq!(values(&cluster, "rack", place(&cluster, &gang(4, 2, None))), ["r0"; 4]);
    let mut with_large = cluster.to_vec();
    with_large.push(worker("w9", 8, &[("rack", "r9")]));
    assert_eq!(place(&with_large, &gang(4, 4, None)), Some(vec![5; 4]));
}

#[test]
fn a_required_label_that_nobody_carries_keeps_the_gang_and_is_told() {
    let cluster = [worker("a", 4, &[]), worker("b", 4, &[("rack", "r")])];
    let packed = gang(6, 4, Some((TopologyMode::Pack, true)));
    assert_eq!(place(&cluster, &packed), None);
    let text = explain_gang(&packed, &cluster)[0].to_string();
    assert_eq!(
        text,
        "needs room for 6 tasks with one value of rack; rack=r has room for 4 even when every worker is empty \
         and lacks 2; 1 worker has no label rack"
    );
    let none = gang(2, 4, Some((TopologyMode::Spread, true)));
    let text = explain_gang(&none, &cluster[..1])[0].to_string();
    assert!(text.contains("carries the label rack"), "{text}");
    let mut busy = racks(&[("a", 3), ("b", 3)]);
    busy[0].running = 1;
    busy[3].running = 1;
    busy[4].running = 1;
    let reasons = explain_gang(&gang(3, 1, Some((TopologyMode::Pack, true))), &busy);
    assert_eq!(reasons[0].code(), "gang_topology");
    let expected = "needs room for 3 tasks with one value of rack; rack=a has room for 2 now and lacks 1; \
                    rack=b has room for 1 and lacks 2";
    assert_eq!(reasons[0].to_string(), expected);
}

/// Every way to put `count` tasks into rooms, as numbers for each domain.
fn all_distributions(rooms: &[u64], count: u32) -> Vec<Vec<u32>> {
    let Some((first, rest)) = rooms.split_first() else {
        return if count == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let mut found = Vec::new();
    for here in 0..=count.min(*first as u32) {
        for mut tail in all_distributions(rest, count - here) {
            tail.insert(0, here);
            found.push(tail);
        }
    }
    found
}

fn difference(counts: &[u32]) -> u32 {
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

fn any_cluster() -> impl Strategy<Value = Vec<WorkerView>> {
    let one = (0_u32..4, 0_u32..4, prop::option::of(0_u8..4), 0_u8..3);
    prop::collection::vec(one, 0..8).prop_map(|list| {
        let view = |(number, (slots, running, rack, zone)): (usize, (u32, u32, Option<u8>, u8))| {
            let mut view = worker(&format!("w{number}"), slots, &[]);
            view.running = running.min(slots);
            view.labels.extend(rack.map(|rack| ("rack".to_owned(), format!("r{rack}"))));
            view.labels.insert("zone".to_owned(), format!("z{zone}"));
            view
        };
        list.into_iter().enumerate().map(view).collect()
    })
}

/// The tasks that each domain of `rack` has room for, by value; with domains that could have, if `ever`.
fn free(cluster: &[WorkerView], per_worker: u32, ever: bool) -> BTreeMap<String, u64> {
    let mut rooms: BTreeMap<String, u64> = BTreeMap::new();
    for worker in cluster.iter().filter(|worker| worker.slots.unwrap() > 0) {
        let Some(rack) = worker.labels.get("rack") else { continue };
        let free = (worker.slots.unwrap() - worker.running).min(per_worker);
        if free > 0 || ever {
            *rooms.entry(rack.clone()).or_default() += u64::from(free);
        }
    }
    rooms
}

fn counts(cluster: &[WorkerView], placed: &[usize], rooms: &BTreeMap<String, u64>) -> Vec<u32> {
    let mut found: BTreeMap<&str, u32> = rooms.keys().map(|rack| (rack.as_str(), 0)).collect();
    for at in placed {
        if let Some(rack) = cluster[*at].labels.get("rack") {
            *found.entry(rack).or_default() += 1;
        }
    }
    found.into_values().collect()
}

proptest! {
    #[test]
    fn a_gang_that_must_be_packed_is_in_one_domain_or_waits(
        cluster in any_cluster(), tasks in 1_u32..7, per_worker in 1_u32..4, spare in 0_u32..3,
    ) {
        let mut packed = gang(tasks, per_worker, Some((TopologyMode::Pack, true)));
        packed.least = tasks.saturating_sub(spare).max(1);
        let rooms = free(&cluster, per_worker, false);
        let most = rooms.values().copied().max().unwrap_or(0);
        let told = explain_gang(&packed, &cluster)[0].code();
        match place(&cluster, &packed) {
            None => {
                prop_assert!(most < u64::from(packed.least), "{rooms:?}");
                prop_assert_ne!(told, "gang_fits");
            }
            Some(placed) => {
                prop_assert_eq!(told, "gang_fits");
                let mut used = values(&cluster, "rack", Some(placed.clone()));
                used.dedup();
                used.sort();
                used.dedup();
                prop_assert_eq!(used.len(), 1);
                prop_assert_eq!(placed.len() as u64, most.min(u64::from(tasks)), "as many as any domain takes");
                let chosen = rooms[&used[0]];
                let fits_one = |room: &u64| *room >= placed.len() as u64;
                let smallest = rooms.values().copied().filter(|room| fits_one(room)).min().unwrap();
                let single = placed.iter().all(|at| *at == placed[0]);
                prop_assert!(single || chosen == smallest, "{chosen} of {rooms:?}");
            }
        }
    }

    #[test]
    fn what_is_preferred_keeps_nobody_from_starting_and_uses_as_few_domains_as_possible(
        cluster in any_cluster(), tasks in 1_u32..9, per_worker in 1_u32..4,
    ) {
        let plain = place(&cluster, &gang(tasks, per_worker, None)).map(|placed| placed.len());
        for mode in [TopologyMode::Pack, TopologyMode::Spread] {
            let placed = place(&cluster, &gang(tasks, per_worker, Some((mode, false))));
            prop_assert_eq!(placed.as_ref().map(Vec::len), plain);
        }
        let rooms = free(&cluster, per_worker, false);
        let Some(placed) = place(&cluster, &gang(tasks, per_worker, Some((TopologyMode::Pack, false)))) else {
            return Ok(());
        };
        if values(&cluster, "rack", Some(placed.clone())).iter().all(|rack| !rack.is_empty()) {
            let used = counts(&cluster, &placed, &rooms).into_iter().filter(|count| *count > 0).count();
            let mut sizes: Vec<u64> = rooms.values().copied().collect();
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let mut sum = 0;
            let fewest = sizes.iter().position(|room| { sum += room; sum >= u64::from(tasks) });
            prop_assert_eq!(Some(used), fewest.map(|at| at + 1), "{:?}", rooms);
        }
    }

    #[test]
    fn a_spread_gang_is_as_even_as_any_distribution(
        cluster in any_cluster(), tasks in 1_u32..8, per_worker in 1_u32..4, required in any::<bool>(),
        spare in 0_u32..3,
    ) {
        let mut spread = gang(tasks, per_worker, Some((TopologyMode::Spread, required)));
        spread.least = tasks.saturating_sub(spare).max(1);
        let rooms = free(&cluster, per_worker, required);
        let sizes: Vec<u64> = rooms.values().copied().collect();
        let even = |count: u32| all_distributions(&sizes, count).iter().map(|d| difference(d)).min();
        let placed = place(&cluster, &spread);
        if required {
            let best = (spread.least..=tasks).rev().find(|count| even(*count).is_some_and(|d| d <= 1));
            prop_assert_eq!(placed.as_ref().map(|placed| placed.len() as u32), best, "{:?}", rooms);
            let told = explain_gang(&spread, &cluster)[0].code();
            prop_assert_eq!(told == "gang_fits", best.is_some(), "{}", told);
        }
        if let Some(placed) = placed {
            let own = counts(&cluster, &placed, &rooms);
            let inside: u32 = own.iter().sum();
            prop_assert_eq!(Some(difference(&own)), even(inside), "{:?} of {:?}", own, rooms);
        }
    }
}
