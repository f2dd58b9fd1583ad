//! What becomes of finished jobs: they stay for their time, go to the archive if there is one, and leave a mark
//! in the stream of events.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_tests::{Scheduler, Settings, StoreKind, for_each_store, id_of, until};
use serde_json::{Value, json};

use crate::logs::{Live, until_dropped};

const BOUND: Duration = Duration::from_secs(20);

/// Finished jobs go after a moment. Nothing that is done within a test takes as long as the other time.
fn soon() -> Settings {
    Settings::default().set("retention", "1ms").set("retention-interval", "50ms")
}

fn is_gone(scheduler: &Scheduler, id: &str) -> bool {
    scheduler.http().get(&format!("/jobs/{id}")).status == 404
}

fn run_to_done(scheduler: &Scheduler) -> String {
    scheduler.submit("true");
    let id = id_of(&scheduler.claim(None));
    scheduler.report(&id, "done").expect_empty();
    id
}

/// All lines of all days.
fn archived(directory: &Path) -> Vec<Value> {
    let Ok(files) = fs::read_dir(directory) else { return Vec::new() };
    let mut lines = Vec::new();
    for file in files.map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap();
        let day = name.strip_prefix("jobs-").and_then(|rest| rest.strip_suffix(".jsonl"));
        assert_eq!(day.map(str::len), Some("2026-01-31".len()), "{name}");
        let text = fs::read_to_string(file.path()).unwrap();
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    lines
}

for_each_store! {
    fn finished_jobs_go_and_others_stay(store) {
        let scheduler = Scheduler::start_with(store, soon());
        let waiting = scheduler.submit("waits");
        scheduler.report(&waiting, "hold").expect(200);
        let parent = scheduler.submit("parent");
        let child = id_of(&scheduler.submit_job(&json!({ "command": "child", "depends_on": [parent] })));
        assert_eq!(id_of(&scheduler.claim(None)), parent);
        scheduler.report(&parent, "done").expect_empty();
        let done = scheduler.submit("done");
        scheduler.report(&done, "cancel").expect(200);
        until("the ended job is removed", BOUND, || is_gone(&scheduler, &done));
        assert_eq!(scheduler.status(&waiting), "pending");
        assert_eq!(scheduler.status(&parent), "done", "a job that unfinished work depends on stays");
        assert_eq!(scheduler.http().get(&format!("/jobs/{done}/events")).status, 404);
        scheduler.report(&child, "cancel").expect(200);
        until("parent and child are removed", BOUND, || is_gone(&scheduler, &parent) && is_gone(&scheduler, &child));
    }

    fn what_goes_is_in_the_archive(store) {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("archive");
        let settings = soon().set("archive-dir", &archive.display().to_string());
        let scheduler = Scheduler::start_with(store, settings);
        // More than go in one step.
        let jobs = 250;
        let batch: Vec<Value> = (0..jobs).map(|_| json!({ "command": "true", "queue_name": "q" })).collect();
        let made = scheduler.http().post_json("/jobs/batch", &json!(batch)).expect(201).json();
        let ids: Vec<String> = made.as_array().unwrap().iter().map(id_of).collect();
        for id in &ids {
            scheduler.report(id, "cancel").expect(200);
        }
        until("all jobs are removed", BOUND, || scheduler.jobs().is_empty());
        let lines = archived(&archive);
        assert_eq!(lines.len(), jobs, "each job once");
        for id in &ids {
            let line = lines.iter().find(|line| line["id"] == id.as_str()).unwrap();
            assert_eq!((&line["status"], &line["queue_name"]), (&json!("cancelled"), &json!("q")), "{line}");
            let types: Vec<&str> = line["events"].as_array().unwrap().iter().filter_map(|e| e["type"].as_str()).collect();
            assert_eq!(types, ["submitted", "cancelled"], "{line}");
        }
    }

    fn who_comes_back_is_told_what_is_missing(store) {
        let scheduler = Scheduler::start_with(store, soon());
        scheduler.register(&json!({ "id": "w" }));
        let done = run_to_done(&scheduler);
        until("the job is removed", BOUND, || is_gone(&scheduler, &done));
        scheduler.register(&json!({ "id": "w2" }));
        let first = Live::open(scheduler.http(), "/events?after=0").until("\"w2\"");
        let kinds: Vec<&str> = first.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(kinds, ["worker_registered", "gap", "worker_registered"], "{first}");
        let data: Vec<Value> = first.lines().filter_map(|line| line.strip_prefix("data: "))
            .map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(data[1], json!({ "after": data[0]["id"], "first": data[2]["id"] }), "{first}");
        let target = format!("/events?after=0&job_id={done}");
        scheduler.http().get(&target).expect_error(404, "job not found");
    }
}

/// The positions of the events in a piece of the stream.
fn positions(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
}

#[test]
fn a_reader_of_events_that_does_not_read_is_let_go_and_comes_back() {
    let settings = Settings::default().set("event-reader-timeout", "100ms");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let mut live = Live::open(scheduler.http(), "/events?after=0");
    live.until(": muster events");
    let (batches, each) = (5, 10_000);
    let batch = json!(vec![json!({ "command": "true" }); each]);
    for _ in 0..batches {
        scheduler.http().post_json("/jobs/batch", &batch).expect(201);
    }
    // More than the sockets and queues hold; the scheduler gives up on us and says so at the end.
    let dropped = || scheduler.metric("muster_event_readers_dropped_total") == Some(1);
    until("the reader is let go", BOUND, dropped);
    let mut received = Vec::new();
    assert!(until_dropped(&mut live.reader, &mut received), "the stream ended without a word");
    let seen = positions(&String::from_utf8_lossy(&received));
    let last = *seen.last().unwrap();
    assert!(last < batches * each as u64, "it was not let go");
    let mut again = Live::open(scheduler.http(), &format!("/events?after={last}"));
    let rest = positions(&again.until("event: "));
    assert_eq!(rest, [last + 1], "it goes on where it was");
}
