//! Two schedulers on one PostgreSQL: both serve, one leads, the other takes over.

use std::thread;
use std::time::Duration;

use muster_tests::{Backing, Scheduler, Settings, StoreKind, id_of, until};

fn start_two() -> (Scheduler, Scheduler) {
    let settings = Settings::default().set("job-heartbeat-timeout", "1s").set("reaper-interval", "300ms");
    let backing = Backing::new(StoreKind::Postgres);
    let first = Scheduler::start_on(&backing, settings.clone());
    let second = Scheduler::start_on(&backing, settings);
    (first, second)
}

fn leads(scheduler: &Scheduler) -> bool {
    scheduler.metric("muster_reaper_leader") == Some(1)
}

fn reaped(scheduler: &Scheduler) -> u64 {
    scheduler.metric(r#"muster_jobs_reaped_total{outcome="requeued"}"#).unwrap_or(0)
}

#[test]
fn t25_one_of_two_schedulers_reaps() {
    let (first, second) = start_two();
    for _ in 0..10 {
        first.submit("sleep 60");
    }
    for number in 0..10 {
        let claimer = if number % 2 == 0 { &first } else { &second };
        claimer.claim(Some("mute"));
    }
    until("all ten are pending again", Duration::from_secs(10), || {
        second.jobs().iter().all(|job| job["status"] == "pending")
    });
    assert_eq!(reaped(&first) + reaped(&second), 10, "each is reaped once");
    assert!(first.jobs().iter().all(|job| job["attempts"] == 1));
    until("one leads", Duration::from_secs(5), || leads(&first) != leads(&second));
}

#[test]
fn t25_killing_the_leader_costs_one_tick() {
    let (first, second) = start_two();
    until("one leads", Duration::from_secs(5), || leads(&first) != leads(&second));
    let (mut leader, follower) = if leads(&first) { (first, second) } else { (second, first) };
    let id = leader.submit("sleep 60");
    leader.claim(Some("mute"));
    leader.kill9();
    until("the follower leads", Duration::from_secs(5), || leads(&follower));
    follower.await_status(&id, "pending", Duration::from_secs(10));
    assert!(id_of(&follower.claim(Some("next"))).starts_with(&id), "the name carries the lease");
}

#[test]
fn t25_a_submit_to_one_wakes_a_claim_parked_at_the_other() {
    let (first, second) = start_two();
    let http = second.http();
    let parked = thread::spawn(move || http.get("/jobs/next?worker_id=patient&wait=60s"));
    second.await_parked(1);
    let id = first.submit("true");
    assert_eq!(parked.join().unwrap().expect(200).json()["id"], id.as_str());
}

#[test]
fn t25_thirty_claimers_over_two_schedulers_share_twenty_jobs() {
    let (first, second) = start_two();
    let mut submitted: Vec<String> = (0..20).map(|_| first.submit("true")).collect();
    let claimers: Vec<_> = (0..30)
        .map(|number| {
            let http = if number % 2 == 0 { first.http() } else { second.http() };
            thread::spawn(move || http.get(&format!("/jobs/next?worker_id=w{number}")))
        })
        .collect();
    let answers = claimers.into_iter().map(|claimer| claimer.join().unwrap());
    let mut claimed: Vec<String> = answers
        .filter(|answer| answer.status != 204)
        .map(|answer| id_of(&answer.expect(200).json()))
        .collect();
    claimed.sort();
    submitted.sort();
    assert_eq!(claimed, submitted);
}
