//! The published figures of two real traces, to their last digit.

mod reference;

use muster_domain::Span;
use muster_planner::policy::{Policy, PolicyName};
use muster_replay::{Cluster, Estimates, Events, Settings, Workload};

use reference::{Figures, cluster, cpus, figures, gpus, kth, philly, play, play_policy};

fn settings(events: Events, estimates: Estimates) -> Settings {
    Settings { events, estimates, ..Settings::default() }
}

fn shown(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

#[test]
fn kth_one_by_one_gives_the_published_digits() {
    let Some(workload) = kth() else { return };
    let cluster = cluster(1, cpus(100));
    let check = |policy, estimates, expected: [&str; 4]| {
        let outcome = play(&workload, &cluster, policy, &settings(Events::OneByOne, estimates));
        let Figures { slowdown, flow, wait, worst_slowdown, .. } = figures(&workload, &outcome);
        let seen = [shown(slowdown, 6), shown(flow, 4), shown(wait, 4), shown(worst_slowdown, 1)];
        assert_eq!(seen, expected, "{policy} {estimates:?}");
    };
    check(PolicyName::Easy, Estimates::Limit, ["92.576540", "15696.7982", "6836.8721", "14805.2"]);
    check(PolicyName::EasySjbf, Estimates::Limit, ["69.405401", "14764.0027", "5904.0766", "14805.2"]);
    check(PolicyName::Easy, Estimates::True, ["71.722385", "15187.6077", "6327.6816", "10017.2"]);
    check(PolicyName::EasySjbf, Estimates::True, ["49.847719", "14295.9468", "5436.0208", "9941.7"]);
    let outcome = play(&workload, &cluster, PolicyName::Fifo, &settings(Events::OneByOne, Estimates::Limit));
    let seen = figures(&workload, &outcome);
    assert_eq!([shown(seen.slowdown, 5), shown(seen.wait, 4)], ["6814.97331", "353776.4091"]);
}

#[test]
fn kth_in_batches_gives_the_known_digits() {
    let Some(workload) = kth() else { return };
    let cluster = cluster(1, cpus(100));
    let slowdown = |policy, estimates| {
        let outcome = play(&workload, &cluster, policy, &settings(Events::Batched, estimates));
        shown(figures(&workload, &outcome).slowdown, 6)
    };
    assert_eq!(slowdown(PolicyName::Easy, Estimates::Limit), "92.687654");
    assert_eq!(slowdown(PolicyName::EasySjbf, Estimates::Limit), "69.393636");
    assert_eq!(slowdown(PolicyName::Easy, Estimates::True), "71.722385");
    assert_eq!(slowdown(PolicyName::EasySjbf, Estimates::True), "49.847242");
}

fn near(seen: f64, expected: f64, what: &str) {
    assert!((seen / expected - 1.0).abs() < 0.005, "{what}: {seen} instead of {expected}");
}

fn check_philly(pooled: bool, rows: &[(PolicyName, f64, f64, f64)]) {
    let Some(workload) = philly(pooled) else { return };
    let cluster = if pooled { cluster(1, gpus(640)) } else { cluster(80, gpus(8)) };
    for (policy, wait, flow, slowdown) in rows {
        let outcome = play(&workload, &cluster, *policy, &settings(Events::Batched, Estimates::True));
        let seen = figures(&workload, &outcome);
        near(seen.wait, *wait, &format!("wait under {policy}"));
        near(seen.flow, *flow, &format!("completion under {policy}"));
        near(seen.slowdown, *slowdown, &format!("slowdown under {policy}"));
    }
}

#[test]
fn philly_on_nodes_gives_the_known_figures() {
    check_philly(
        false,
        &[
            (PolicyName::Fifo, 110_373.7, 123_509.6, 586.77),
            (PolicyName::Greedy, 11_717.2, 24_853.1, 61.67),
            (PolicyName::LargestGang, 22_580.8, 35_716.7, 175.95),
            (PolicyName::Easy, 18_619.1, 31_755.1, 86.57),
            (PolicyName::Sjf, 3_818.7, 16_954.6, 2.288),
            (PolicyName::SjfEasy, 2_946.9, 16_082.8, 1.956),
        ],
    );
}

#[test]
fn philly_in_one_pool_gives_the_known_figures() {
    check_philly(
        true,
        &[
            (PolicyName::Fifo, 33_166.7, 46_302.7, 190.87),
            (PolicyName::Easy, 26_232.6, 39_368.5, 90.75),
            (PolicyName::EasySjbf, 21_828.1, 34_964.1, 26.93),
            (PolicyName::SjfEasy, 4_259.3, 17_395.2, 3.065),
        ],
    );
}

fn with_stops_by_level(workload: &Workload, cluster: &Cluster, settings: &Settings) -> Figures {
    let policy = Policy { preempt_by_level: true, ..Policy::default() };
    figures(workload, &play_policy(workload, cluster, &policy, settings))
}

#[test]
fn stops_by_level_need_no_knowledge_to_beat_those_that_have_it_on_philly() {
    let Some(workload) = philly(false) else { return };
    let cluster = cluster(80, gpus(8));
    for restart in [60, 900] {
        let settings = Settings { restart: Span::from_secs(restart), ..Settings::default() };
        let seen = with_stops_by_level(&workload, &cluster, &settings);
        println!("restart of {restart} s: {seen:?}");
        // Shortest first with a reservation, which knows all run times; EASY for the gangs.
        assert!(seen.flow <= 16_082.8 && seen.slowdown <= 1.956 && seen.gang_wait <= 35_157.0, "{seen:?}");
    }
}

#[test]
fn stops_by_level_are_better_than_backfilling_by_limits_on_kth() {
    let Some(workload) = kth() else { return };
    let seen = with_stops_by_level(&workload, &cluster(1, cpus(100)), &Settings::default());
    println!("{seen:?}");
    assert!(seen.flow < 14_764.0 && seen.slowdown < 69.4, "{seen:?}");
}
