//! Real workers that cannot reach a scheduler for a while, and what becomes of their jobs.

use std::thread::sleep;
use std::time::Duration;

use muster_tests::{Scheduler, Settings, StoreKind, Worker, WorkerSettings, until};
use serde_json::{Value, json};

/// The kinds of what happened to a job, in order.
fn events(scheduler: &Scheduler, id: &str) -> Vec<String> {
    let events = scheduler.http().get(&format!("/jobs/{id}/events")).expect(200).json();
    let kinds = events.as_array().into_iter().flatten();
    kinds.map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

fn submit(scheduler: &Scheduler, request: &Value) -> String {
    scheduler.submit_job(request)["id"].as_str().unwrap_or_default().to_owned()
}

/// The first poll of a worker, before it knows how long a lease lasts, must not be older than most of a short one when
/// the job comes.
#[test]
fn the_first_claims_of_a_worker_are_kept_when_leases_are_short() {
    let settings = Settings::default().set("job-heartbeat-timeout", "10s");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    // The age of the poll is what the test is about: a claim that is older than four seconds is handed back.
    sleep(Duration::from_millis(5_500));
    let id = scheduler.submit("true");
    scheduler.await_status(&id, "done", Duration::from_secs(30));
    let happened = events(&scheduler, &id);
    assert_eq!(happened.iter().filter(|kind| *kind == "claimed").count(), 1, "{happened:?}");
    assert_eq!(scheduler.job(&id)["attempts"], 1);
}

/// The scheduler is away for longer than the silence that it bears of workers which do not stop by themselves.
#[test]
fn jobs_outlive_a_scheduler_that_is_away_for_longer_than_a_heartbeat_timeout() {
    let settings = Settings::default().set("job-heartbeat-timeout", "2s").set("disconnect-keep", "60s");
    let mut scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
    let worker =
        Worker::start(&scheduler, WorkerSettings::new("w", 4).set("job-heartbeat-interval", "500ms"));
    let kept = scheduler.submit("touch begun-1; sleep 9; echo survived");
    let asked =
        submit(&scheduler, &json!({"command": "touch begun-2; sleep 9", "on_disconnect": "keep=40s"}));
    let told = "trap 'touch told; exit 1' TERM; touch begun-3; sleep 9 & wait";
    let stopped = submit(&scheduler, &json!({"command": told, "on_disconnect": "stop", "max_retries": 2}));
    // The scheduler may say "running" before the worker has heard of the job.
    until("all three have begun", Duration::from_secs(20), || {
        (1..=3).all(|number| worker.directory().join(format!("begun-{number}")).exists())
    });
    scheduler.kill9();
    until("the short lease is over", Duration::from_secs(60), || worker.directory().join("told").exists());
    scheduler.restart();
    for id in [&kept, &asked] {
        let job = scheduler.await_status(id, "done", Duration::from_secs(60));
        assert_eq!((&job["attempts"], &job["lease"]), (&json!(1), &json!(1)), "{job}");
    }
    let again = scheduler.await_status(&stopped, "done", Duration::from_secs(60));
    assert!(again["lease"].as_u64() > Some(1), "it was to be stopped: {again}");
}
