//! Real workers whose words and answers are old when they arrive.

use std::thread::sleep;
use std::time::Duration;

use muster_tests::{Scheduler, Settings, StoreKind, Worker, WorkerSettings};

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
    let events = scheduler.http().get(&format!("/jobs/{id}/events")).expect(200).json();
    let claims = events.as_array().into_iter().flatten().filter(|event| event["type"] == "claimed").count();
    assert_eq!(claims, 1, "{events}");
}
