//! Two schedulers on one PostgreSQL, each with a data directory of its own: whatever one of them took in is there at the
//! other, or it is said who has it.

use std::time::Duration;

use muster_tests::{
    Backing, Scheduler, Settings, StoreKind, Switch, Worker, WorkerSettings, lease_of, until,
};
use serde_json::json;

fn start_two() -> (Scheduler, Scheduler) {
    let settings = Settings::default().set("job-heartbeat-timeout", "5s").set("disconnect-keep", "60s");
    let backing = Backing::new(StoreKind::Postgres);
    let first = Scheduler::start_apart(&backing, settings.clone(), "data-a");
    let second = Scheduler::start_apart(&backing, settings, "data-b");
    (first, second)
}

const LOGS: &str = "/logs?stream=stdout";

/// The first attempt leaves a checkpoint of 1 MiB and asks to run again; the second one compares.
const RESUMES: &str = "if [ -f \"$MUSTER_CHECKPOINT_FILE\" ]; then sha256sum < \"$MUSTER_CHECKPOINT_FILE\"; else \
    head -c 1048576 /dev/urandom > \"$MUSTER_CHECKPOINT_OUT\"; sha256sum < \"$MUSTER_CHECKPOINT_OUT\"; \
    while [ ! -e go ]; do sleep 0.1; done; exit 75; fi";

#[test]
fn a_checkpoint_taken_in_by_one_outlives_it() {
    let (mut first, second) = start_two();
    let switch = Switch::to(first.port());
    let worker = Worker::start_by(&first, &switch.url(), WorkerSettings::new("w", 1));
    // The next attempt waits until the first scheduler is gone.
    let id = first.submit_job(&json!({"command": RESUMES, "retry": {"initial_seconds": 4.0}}))["id"].clone();
    let id = id.as_str().unwrap();
    let logs = format!("/jobs/{id}{LOGS}");
    until("the sum is in the output", Duration::from_secs(30), || first.http().get(&logs).text().len() > 60);
    let written = first.http().get(&logs).text();
    std::fs::write(worker.directory().join("go"), "").unwrap();
    first.await_status(id, "pending", Duration::from_secs(30));
    assert_eq!(second.http().get(&format!("/jobs/{id}/checkpoint")).expect(200).body.len(), 1 << 20);
    first.kill9();
    switch.turn_to(second.port());
    let job = second.await_status(id, "done", Duration::from_secs(60));
    assert_eq!(job["attempts"], 1, "{job}");
    assert_eq!(second.http().get(&logs).expect(200).text(), written, "it went on from the same bytes");
}

#[test]
fn output_is_read_through_the_other_while_it_is_there_and_named_when_it_is_not() {
    let (mut first, second) = start_two();
    let _worker = Worker::start(&first, WorkerSettings::new("w", 2));
    let ended = first.submit("printf 0123456789");
    first.await_status(&ended, "done", Duration::from_secs(30));
    let path = format!("/jobs/{ended}{LOGS}");
    until("the first scheduler has its output", Duration::from_secs(20), || {
        first.http().get(&path).text() == "0123456789"
    });
    assert_eq!(second.http().get(&path).expect(200).text(), "0123456789");
    let range = second.http().request("GET", &path).header("Range", "bytes=2-4").send();
    assert_eq!(
        (range.expect(206).text(), range.header("content-range")),
        ("234".to_owned(), Some("bytes 2-4/10"))
    );
    let live = first.submit("echo one; sleep 3; echo two");
    let follow = format!("/jobs/{live}/logs?stream=stdout&follow=true");
    first.await_status(&live, "running", Duration::from_secs(20));
    until("something was written", Duration::from_secs(20), || {
        first.http().get(&format!("/jobs/{live}{LOGS}")).text() == "one\n"
    });
    assert_eq!(second.http().get(&follow).expect(200).text(), "one\ntwo\n");
    first.kill9();
    let gone = second.http().get(&path);
    let text = gone.expect(503).text();
    assert!(text.contains(&first.url()) && text.contains("last heard of at 20"), "{text}");
    assert!(gone.header("retry-after").is_some());
    first.restart();
    assert_eq!(second.http().get(&path).expect(200).text(), "0123456789");
    // A job that has never run has no output anywhere.
    let waiting = second.submit_job(&json!({"command": "true", "hold": true}))["id"].clone();
    assert_eq!(
        second.http().get(&format!("/jobs/{}{LOGS}", waiting.as_str().unwrap())).expect(200).text(),
        ""
    );
}

/// An address that only its own machine knows, such as 127.0.0.1, leads the others elsewhere.
#[test]
fn an_address_that_leads_to_another_scheduler_is_noticed() {
    let backing = Backing::new(StoreKind::Postgres);
    let second = Scheduler::start_apart(&backing, Settings::default(), "data-b");
    let misled = Settings::default().set("advertise-url", &second.url());
    let first = Scheduler::start_apart(&backing, misled, "data-a");
    let _worker = Worker::start(&first, WorkerSettings::new("w", 1));
    let id = first.submit("echo here");
    first.await_status(&id, "done", Duration::from_secs(30));
    let path = format!("/jobs/{id}{LOGS}");
    until("the first scheduler has it", Duration::from_secs(20), || {
        first.http().get(&path).text() == "here\n"
    });
    let text = second.http().get(&path).expect(503).text();
    assert!(text.contains("does not answer") && text.contains(&second.url()), "{text}");
}

/// A worker that goes over to another scheduler in the middle of an attempt sends that one everything.
#[test]
fn output_of_an_attempt_that_changed_over_is_whole() {
    let (first, second) = start_two();
    let switch = Switch::to(first.port());
    let worker = Worker::start_by(&first, &switch.url(), WorkerSettings::new("w", 1));
    let id = first.submit("echo one; while [ ! -e go ]; do sleep 0.1; done; echo two");
    let path = format!("/jobs/{id}{LOGS}");
    until("the first part is at the first", Duration::from_secs(30), || {
        first.http().get(&path).text() == "one\n"
    });
    switch.turn_to(second.port());
    std::fs::write(worker.directory().join("go"), "").unwrap();
    second.await_status(&id, "done", Duration::from_secs(60));
    for scheduler in [&first, &second] {
        until("both tell all of it", Duration::from_secs(20), || {
            scheduler.http().get(&path).text() == "one\ntwo\n"
        });
    }
}

#[test]
fn a_checkpoint_that_is_replaced_or_refused_leaves_no_parts() {
    let (first, second) = start_two();
    let id = first.submit("sleep 60");
    let job = first.claim(Some("w"));
    let save = |scheduler: &Scheduler, lease: u64, byte: u8, bytes: usize| {
        scheduler.http().post(&format!("/jobs/{id}/checkpoint?lease={lease}"), vec![byte; bytes])
    };
    let read = |scheduler: &Scheduler| {
        scheduler.http().get(&format!("/jobs/{id}/checkpoint")).expect(200).body.clone()
    };
    save(&first, lease_of(&job), 1, 3 << 20).expect(200);
    assert_eq!(read(&second), vec![1; 3 << 20]);
    save(&second, lease_of(&job) + 1, 2, 2 << 20).expect(409);
    assert_eq!(read(&first), vec![1; 3 << 20], "what was refused changes nothing");
    save(&second, lease_of(&job), 3, 2 << 20).expect(200);
    assert_eq!(read(&first), vec![3; 2 << 20]);
    save(&first, lease_of(&job), 4, 10).expect(200);
    assert_eq!(read(&second), vec![4; 10]);
}
