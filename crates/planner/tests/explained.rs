//! What `explain` says, compared with a second, plain look at small random clusters.
//!
//! Every reason that is given holds; when all that are named are gone the work starts; every change that is suggested
//! lets it start; every worker is counted in one class. The checks here share no code with the planner but the
//! placement itself, which has the last word.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "explained/cluster.rs"]
mod cluster;
#[path = "explained/removal.rs"]
mod removal;
#[path = "explained/truth.rs"]
mod truth;

use std::collections::BTreeSet;

use muster_planner::explain;
use proptest::prelude::*;

use cluster::{Cluster, cluster};

fn settings() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.max(2_000), ..usual }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn every_reason_holds_and_its_removal_lets_the_work_start(cluster in cluster()) {
        let found = explain(&cluster.case());
        prop_assert!(!found.reasons.is_empty(), "{cluster:#?}");
        for reason in &found.reasons {
            if let Err(lie) = truth::check(&cluster, reason) {
                prop_assert!(false, "{reason}: {lie}\n{cluster:#?}");
            }
        }
        let mut cleared = cluster.clone();
        for reason in &found.reasons {
            removal::remove(&mut cleared, reason);
        }
        prop_assert!(cleared.starts(), "{:?}\n{cluster:#?}\n{cleared:#?}", found.reasons);
        prop_assert_eq!(truth::fits(&cluster), cluster.starts(), "the plain look is wrong: {:#?}", cluster);
    }

    #[test]
    fn every_change_that_is_suggested_lets_the_work_start(cluster in cluster()) {
        let found = explain(&cluster.case());
        if cluster.starts() {
            prop_assert!(found.suggestions.is_empty());
        }
        for suggestion in &found.suggestions {
            let mut changed = cluster.clone();
            removal::apply(&mut changed, &suggestion.change);
            if let Some(also) = &suggestion.also {
                prop_assert!(!changed.starts(), "{suggestion}: the first is enough\n{cluster:#?}");
                let mut second = cluster.clone();
                removal::apply(&mut second, also);
                prop_assert!(!second.starts(), "{suggestion}: the second is enough\n{cluster:#?}");
                removal::apply(&mut changed, also);
            }
            prop_assert!(changed.starts(), "{suggestion}\n{cluster:#?}\n{changed:#?}");
            if suggestion.also.is_some() {
                continue;
            }
            if let Some(less) = removal::one_step_less(&cluster, &suggestion.change) {
                prop_assert!(!less.starts(), "{suggestion} is not the closest\n{cluster:#?}");
            }
        }
    }

    #[test]
    fn classes_count_every_worker_once_and_say_when(cluster in cluster()) {
        let found = explain(&cluster.case());
        let told: u32 = found.classes.iter().map(|class| class.workers).sum();
        prop_assert_eq!(told + found.more_workers, cluster.nodes.len() as u32);
        for class in found.classes.iter().filter(|class| class.is_able()) {
            let sum = class.room + class.kept + class.busy + class.quarantined + class.offline;
            prop_assert_eq!(sum, class.workers, "{}", class);
        }
        let plain = truth::classes(&cluster);
        let sum = |of: fn(&muster_domain::WorkerClass) -> u32| found.classes.iter().map(of).sum::<u32>();
        prop_assert_eq!(
            (sum(|class| class.room), sum(|class| class.kept), sum(|class| class.busy)),
            (plain.room, plain.kept, plain.busy)
        );
        let told = found.classes.iter().filter_map(|class| class.free_at).min();
        prop_assert_eq!(told, plain.free_at, "{:#?}", cluster);
    }

    #[test]
    fn the_start_that_is_foreseen_is_the_first_at_which_it_fits(cluster in cluster()) {
        let Some(start) = explain(&cluster.case()).start.filter(|start| !start.kept) else { return Ok(()) };
        let ends: BTreeSet<_> = cluster.jobs.iter().filter_map(|job| job.ends).collect();
        for end in ends {
            let mut later = cluster.clone();
            later.jobs.retain(|job| job.ends.is_none_or(|ends| ends > end));
            prop_assert_eq!(later.starts(), end >= start.at, "{:?} {:#?}", start, cluster);
        }
    }
}

/// All codes that the planner itself gives come up, so that none is left unchecked.
#[test]
fn every_code_comes_up() {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut reasons, mut changes) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..6_000 {
        let cluster: Cluster = cluster().new_tree(&mut runner).unwrap().current();
        let found = explain(&cluster.case());
        reasons.extend(found.reasons.iter().map(muster_domain::Reason::code));
        changes.extend(found.suggestions.iter().map(|suggestion| suggestion.change.code()));
    }
    let expected = [
        "concurrency",
        "foreseen",
        "gang_fits",
        "gang_impossible",
        "gang_room",
        "gang_topology",
        "gang_topology_impossible",
        "impossible",
        "kept",
        "no_workers",
        "nobody_asks",
        "quarantine",
        "queue_full",
        "queue_paused",
        "quota",
        "rate_limited",
        "resources",
        "tags",
        "user_limit",
    ];
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), expected);
    let expected = [
        "anywhere",
        "fewer_tasks",
        "less",
        "more_borrowing",
        "more_concurrency",
        "more_quota",
        "more_running",
        "more_running_per_user",
        "more_tasks_per_worker",
        "not_exclusive",
        "preemptible",
        "priority",
        "release_worker",
        "resume_queue",
        "time_limit",
        "without_tags",
    ];
    assert_eq!(changes.into_iter().collect::<Vec<_>>(), expected);
}
