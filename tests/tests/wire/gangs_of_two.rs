//! Gangs with two schedulers on one PostgreSQL: placed once, drained once, and nothing hangs on the leader.

use std::thread;
use std::time::Duration;

use muster_tests::{Backing, Gang, Scheduler, Settings, StoreKind, until};
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(60);

fn start_two() -> (Scheduler, Scheduler) {
    let settings = Settings::default().set("reaper-interval", "300ms").set("admission-interval", "300ms");
    let backing = Backing::new(StoreKind::Postgres);
    let first = Scheduler::start_on(&backing, settings.clone());
    (first, Scheduler::start_on(&backing, settings))
}

fn plans(scheduler: &Scheduler) -> bool {
    scheduler.metric("muster_admission_leader") == Some(1)
}

/// The one that places gangs, and the other.
fn leader_and_follower() -> (Scheduler, Scheduler) {
    let (first, second) = start_two();
    until("one leads", BOUND, || plans(&first) != plans(&second));
    if plans(&first) { (first, second) } else { (second, first) }
}

fn sum(schedulers: [&Scheduler; 2], series: &str) -> u64 {
    schedulers.map(|scheduler| scheduler.count_of(series)).iter().sum()
}

fn finish(scheduler: &Scheduler, gang: &Gang, claims: &[Value]) {
    for claim in claims {
        let (lease, id) = (muster_tests::lease_of(claim), muster_tests::id_of(claim));
        scheduler.report_under(lease, &id, "done").expect_empty();
    }
    assert!(scheduler.gang_statuses(gang).iter().all(|status| status == "done"));
}

#[test]
fn t25_each_gang_is_placed_once() {
    let (first, second) = start_two();
    first.register_many(4);
    let gangs: Vec<Gang> =
        (0..6).map(|number| if number % 2 == 0 { &first } else { &second }.submit_gang(2)).collect();
    let mut open = gangs.clone();
    while !open.is_empty() {
        until("one more is placed", BOUND, || {
            open.iter().any(|gang| second.gang_statuses(gang)[0] == "reserved")
        });
        assert!(second.workers().iter().all(|worker| worker["running"].as_u64() <= Some(1)), "one slot each");
        let at = open.iter().position(|gang| second.gang_statuses(gang)[0] == "reserved").unwrap();
        let gang = open.remove(at);
        let claims = second.start_gang(&gang);
        finish(&first, &gang, &claims);
    }
    for gang in &gangs {
        assert!(first.gang(gang).iter().all(|task| task["reservation_epoch"] == 1 && task["attempts"] == 1));
    }
    assert_eq!(sum([&first, &second], "muster_gang_rounds_total"), 6);
}

#[test]
fn t25_a_reserved_gang_survives_its_leader() {
    let (mut leader, follower) = leader_and_follower();
    follower.register_many(3);
    let gang = follower.submit_gang(3);
    follower.await_gang(&gang, "reserved");
    leader.kill9();
    let claims = follower.start_gang(&gang);
    let next = follower.submit_gang(3);
    finish(&follower, &gang, &claims);
    follower.await_gang(&next, "reserved");
    assert!(follower.gang(&gang).iter().all(|task| task["reservation_epoch"] == 1));
}

#[test]
fn t25_a_draining_gang_survives_its_leader() {
    let (mut leader, follower) = leader_and_follower();
    follower.register_many(3);
    let gang = leader.submit_gang(3);
    let claims = leader.start_gang(&gang);
    leader.report(&gang.tasks[0], "fail").expect_empty();
    follower.acknowledge(&claims[..1], 1);
    leader.kill9();
    follower.acknowledge(&claims[1..], 1);
    follower.await_round(&gang, 2);
    assert_eq!(follower.gang_attempts(&gang), [1, 0, 0]);
    assert_eq!(follower.count_of("muster_gang_preemptions_force_drained_total"), 0);
}

#[test]
fn t25_many_failures_told_to_both_are_one_drain() {
    let (first, second) = start_two();
    first.register_many(8);
    let gang = first.submit_gang(8);
    let claims = second.start_gang(&gang);
    let reporters: Vec<_> = (0..24)
        .map(|number| {
            let http = if number % 2 == 0 { first.http() } else { second.http() };
            let task = gang.tasks[number % 8].clone();
            thread::spawn(move || http.post(&format!("/jobs/{task}/fail"), "").status)
        })
        .collect();
    let statuses: Vec<u16> = reporters.into_iter().map(|reporter| reporter.join().unwrap()).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 409)), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(first.gang(&gang).iter().all(|task| task["preemption_epoch"] == 1));
    assert_eq!(first.gang_attempts(&gang).iter().sum::<u64>(), 1, "one pays");
    assert_eq!(sum([&first, &second], "muster_gangs_preempted_total"), 1);
    first.acknowledge(&claims[..4], 1);
    second.acknowledge(&claims[4..], 1);
    second.await_round(&gang, 2);
    let completed = r#"muster_gang_preemptions_completed_total{outcome="blocked"}"#;
    assert_eq!(sum([&first, &second], completed), 1);
}
