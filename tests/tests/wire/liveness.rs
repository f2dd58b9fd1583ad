//! The reaper: silent jobs come back in bounded time, living ones are left alone, restarts forgive.

use std::thread;
use std::time::{Duration, Instant};

use muster_tests::{Backing, Scheduler, Settings, StoreKind, for_each_store, id_of, lease_of, until};
use serde_json::json;

fn impatient() -> Settings {
    Settings::default().set("job-heartbeat-timeout", "500ms").set("reaper-interval", "100ms")
}

for_each_store! {
    fn s8_silent_jobs_are_requeued_and_fail_after_the_last_attempt(store) {
        let scheduler = Scheduler::start_with(store, impatient());
        let id = scheduler.submit("sleep 60");
        for attempt in 1..=3 {
            let claimed = scheduler.claim(Some("mute"));
            assert_eq!(claimed["attempts"], attempt);
            let expected = if attempt < 3 { "pending" } else { "failed" };
            scheduler.await_status(&id, expected, Duration::from_secs(10));
        }
        let job = scheduler.job(&id);
        assert_eq!(job["attempts"], 3);
        assert!(job["reason"].is_string(), "{job}");
        assert_eq!(scheduler.metric(r#"muster_jobs_reaped_total{outcome="requeued"}"#), Some(2));
        assert_eq!(scheduler.metric(r#"muster_jobs_reaped_total{outcome="failed"}"#), Some(1));
    }

    fn s8_heartbeats_keep_a_job(store) {
        // Long enough that a busy machine does not pause for as long between two heartbeats.
        let timeout = Duration::from_secs(5);
        let scheduler = Scheduler::start_with(store, impatient().set("job-heartbeat-timeout", "5s"));
        let id = scheduler.submit("sleep 60");
        let lease = lease_of(&scheduler.claim(Some("alive")));
        let start = Instant::now();
        while start.elapsed() < timeout + Duration::from_secs(1) {
            scheduler.report_under(lease, &id, "heartbeat").expect_empty();
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(scheduler.job(&id)["attempts"], 1);
        scheduler.report_under(lease, &id, "done").expect_empty();
    }

    fn a_cancelled_job_whose_worker_is_silent_ends_after_the_stop_timeout(store) {
        let settings = impatient().set("preempt-timeout", "500ms");
        let scheduler = Scheduler::start_with(store, settings);
        let id = scheduler.submit("sleep 60");
        scheduler.claim(Some("mute"));
        scheduler.report(&id, "cancel").expect(200);
        scheduler.await_status(&id, "cancelled", Duration::from_secs(10));
    }
}

fn survives_a_restart(kind: StoreKind) {
    let backing = Backing::new(kind);
    let settings = Settings::default().set("job-heartbeat-timeout", "2s").set("reaper-interval", "100ms");
    let mut scheduler = Scheduler::start_on(&backing, settings);
    let pending = scheduler.submit("pending");
    let blocked = id_of(&scheduler.submit_job(&json!({ "command": "blocked", "depends_on": [pending] })));
    let running = id_of(&scheduler.submit_job(&json!({ "command": "running", "priority": 9 })));
    let lease = lease_of(&scheduler.claim(Some("survivor")));
    scheduler.kill9();
    // The job has been silent for longer than its lease when the scheduler comes back: the time of the outage
    // is not held against its worker.
    thread::sleep(Duration::from_millis(2200));
    scheduler.restart();
    assert_eq!(scheduler.status(&running), "running");
    scheduler.report_under(lease, &running, "heartbeat").expect_empty();
    scheduler.report_under(lease, &running, "done").expect_empty();
    assert_eq!(scheduler.status(&pending), "pending");
    assert_eq!(scheduler.status(&blocked), "blocked");
    let next = id_of(&scheduler.claim(Some("survivor")));
    assert_eq!(next, pending);
    scheduler.kill9();
    scheduler.restart();
    until("a job of a worker that is gone comes back", Duration::from_secs(15), || {
        scheduler.status(&pending) == "pending"
    });
}

#[test]
fn x24_a_restart_gives_living_workers_time_to_report_first_sqlite() {
    survives_a_restart(StoreKind::Sqlite);
}

#[test]
fn x24_a_restart_gives_living_workers_time_to_report_first_postgres() {
    survives_a_restart(StoreKind::Postgres);
}
