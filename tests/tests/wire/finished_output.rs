//! Output of ended attempts in the blob store: two schedulers with data directories of their own on one PostgreSQL and a real
//! S3, each of which may be lost at any moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_s3_testkit::Seaweed;
use muster_tests::{
    Backing, Http, Response, Scheduler, Settings, StoreKind, Switch, Worker, WorkerSettings, lease_of, until,
};
use serde_json::json;
use tempfile::TempDir;

use crate::artifacts::on_s3;

const BOUND: Duration = Duration::from_secs(60);
const STDOUT: &str = "/logs?stream=stdout";

/// Two schedulers, an S3 and the folder of their credentials.
struct Stand {
    first: Scheduler,
    second: Scheduler,
    settings: Settings,
    directory: TempDir,
}

impl Stand {
    fn start(server: &Seaweed) -> Self {
        Self::start_with(server, |settings| settings)
    }

    fn start_with(server: &Seaweed, more: impl Fn(Settings) -> Settings) -> Self {
        let directory = TempDir::with_prefix("muster-s3-").unwrap();
        let settings = more(on_s3(server, directory.path()).set("job-heartbeat-timeout", "5s"));
        let backing = Backing::new(StoreKind::Postgres);
        let first = Scheduler::start_apart(&backing, settings.clone(), "data-a");
        let second = Scheduler::start_apart(&backing, settings.clone(), "data-b");
        Self { first, second, settings, directory }
    }

    /// The objects of moved output that are in S3.
    fn objects(&self, server: &Seaweed) -> usize {
        server.objects_and_parts(&format!("{}/output", prefix(self.directory.path()))).0.len()
    }

    /// Files of output that are left at a scheduler.
    fn files(&self, data: &str) -> Vec<PathBuf> {
        files_below(&self.first.backing().directory().join(data).join("logs"))
    }
}

fn prefix(directory: &Path) -> String {
    directory.file_name().unwrap().to_string_lossy().replace('.', "x")
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

fn moved(scheduler: &Scheduler) -> i64 {
    let of = |place: &str| {
        let series = format!("muster_output_moved_total{{place=\"{place}\"}}");
        scheduler.metric(&series).map_or(0, |count| i64::try_from(count).unwrap_or(i64::MAX))
    };
    of("database") + of("blob_store")
}

fn run(scheduler: &Scheduler, command: &str) -> String {
    let id = scheduler.submit(command);
    scheduler.await_status(&id, "done", BOUND);
    id
}

/// A job with both streams, more than is kept of one of them, and times that tell them apart.
const WRITES: &str = "for i in 1 2 3; do echo out $i; echo err $i >&2; sleep 0.1; done; \
    head -c 300000 /dev/zero | tr '\\0' x; echo; printf 'the end'; echo bad >&2";

/// Every way to ask for output: targets, and a range each.
fn questions(id: &str) -> Vec<(String, Option<&'static str>)> {
    let raw = |query: &str, range| (format!("/jobs/{id}/logs{query}"), range);
    let live = |query: &str| (format!("/jobs/{id}/logs/stream{query}"), None);
    vec![
        raw("", None),
        raw("?stream=stdout", None),
        raw("?stream=stderr", None),
        raw("?stream=stdout&offset=20", None),
        raw("?stream=stdout&offset=99999", None),
        raw("?tail=3", None),
        raw("?stream=stderr&tail=2", None),
        raw("?stream=stdout&attempt=1", None),
        raw("?stream=stdout&follow=true", None),
        raw("?since=2020-01-01T00:00:00Z", None),
        raw("?since=2090-01-01T00:00:00Z", None),
        raw("?stream=stdout", Some("bytes=3-9")),
        raw("?stream=stdout", Some("bytes=-20")),
        raw("?stream=stdout", Some("bytes=39990-90000")),
        raw("?stream=stdout", Some("bytes=9999999-")),
        live(""),
        live("?timestamps=true"),
        live("?tail=2&timestamps=true"),
        live("?follow=true&stream=stderr"),
        live("?since=2020-01-01T00:00:00Z&timestamps=true"),
    ]
}

/// What was asked, the status, the headers that tell of the output, and the body.
type Answered = (String, u16, Vec<(&'static str, Option<String>)>, String);

/// Answers with all that is said of the output in their heads.
fn answers(http: Http, id: &str) -> Vec<Answered> {
    let ask = |(target, range): (String, Option<&str>)| {
        let request = http.request("GET", &target);
        let request = match range {
            Some(range) => request.header("Range", range),
            None => request,
        };
        let answer: Response = request.send();
        let heads =
            ["x-muster-log-length", "x-muster-log-missing", "x-muster-log-unreachable", "content-range"];
        let heads = heads.map(|name| (name, answer.header(name).map(str::to_owned))).to_vec();
        (format!("{target} {range:?}"), answer.status, heads, answer.text())
    };
    questions(id).into_iter().map(ask).collect()
}

#[test]
fn answers_are_the_same_before_and_after_the_move_from_everywhere() {
    let server = Seaweed::start();
    // A limit that drops the middle of the output.
    let mut stand = Stand::start_with(&server, |settings| settings.set("log-limit", "80000"));
    let worker = Worker::start(&stand.first, WorkerSettings::new("w", 1));
    // While S3 is away nothing large moves, and nothing waits for that.
    server.kill();
    let large = run(&stand.first, WRITES);
    until("all of it is there", BOUND, || {
        stand.first.http().get(&format!("/jobs/{large}/logs")).text().ends_with("bad\n")
    });
    let before = answers(stand.first.http(), &large);
    assert!(before[1].2[1].1.is_some(), "something was to be missing: {:?}", before[1].2);
    assert_eq!(answers(stand.second.http(), &large), before, "the other passes the questions on");
    until("a move has failed", BOUND, || {
        stand.first.metric("muster_output_move_failures_total").is_some_and(|failures| failures > 0)
    });
    until("it is told that it waits", BOUND, || stand.first.metric("muster_output_waiting_jobs") == Some(1));
    server.launch();
    until("the output has moved", BOUND, || stand.files("data-a").is_empty());
    assert_eq!((moved(&stand.first), stand.objects(&server)), (1, 1));
    for scheduler in [&stand.first, &stand.second] {
        assert_eq!(answers(scheduler.http(), &large), before);
    }
    let whole = stand.second.http().get(&format!("/jobs/{large}{STDOUT}")).expect(200).text();
    // Small output costs no object.
    let small = run(&stand.first, "echo one; echo two >&2; sleep 0.2; echo three");
    let before = answers(stand.first.http(), &small);
    until("the small output has moved too", BOUND, || stand.files("data-a").is_empty());
    assert_eq!((moved(&stand.first), stand.objects(&server)), (2, 1));
    drop(worker);
    // The one that took it in is gone for ever, and so are its files.
    stand.first.kill9();
    fs::remove_dir_all(stand.first.backing().directory().join("data-a")).unwrap();
    assert_eq!(answers(stand.second.http(), &small), before);
    assert_eq!(stand.second.http().get(&format!("/jobs/{large}{STDOUT}")).expect(200).text(), whole);
    let gone = stand.second.http().request("DELETE", &format!("/jobs/{large}")).send();
    gone.expect(204);
    assert_eq!(stand.objects(&server), 0, "the object goes with its job");
}

#[test]
fn a_crash_at_any_step_of_a_move_loses_nothing_and_leaves_nothing() {
    let server = Seaweed::start();
    for (fault, command, length) in [
        ("moved.before", "head -c 100000 /dev/zero | tr '\\0' x", 100_000),
        ("moved.after", "head -c 100000 /dev/zero | tr '\\0' x", 100_000),
        ("moved.before", "printf 0123456789", 10),
        ("moved.after", "printf 0123456789", 10),
    ] {
        let sweeps = |settings: Settings| {
            settings
                .set("retention-interval", "200ms")
                .set("blob-sweep-after", "3s")
                .set("job-heartbeat-timeout", "10m")
        };
        let mut stand = Stand::start_with(&server, sweeps);
        let settings = stand.settings.clone();
        stand.first.terminate();
        stand.first.restart_with(settings.clone().set("fault", fault));
        let switch = Switch::to(stand.first.port());
        let _worker = Worker::start_by(&stand.first, &switch.url(), WorkerSettings::new("w", 1));
        let id = stand.first.submit(command);
        let ended = stand.first.process().wait(BOUND);
        assert!(!ended.success(), "{fault}: {ended}");
        // The job has ended before: its end did not wait for the move.
        switch.turn_to(stand.second.port());
        stand.second.await_status(&id, "done", BOUND);
        stand.first.restart_with(settings);
        let path = format!("/jobs/{id}{STDOUT}");
        until("both tell all of it", BOUND, || {
            let all = [&stand.first, &stand.second].map(|scheduler| scheduler.http().get(&path).text().len());
            all == [length, length]
        });
        until("it has moved", BOUND, || stand.files("data-a").is_empty());
        assert_eq!(stand.second.http().get(&path).expect(200).text().len(), length, "{fault}");
        let objects = usize::from(length > 10_000);
        until("what nothing names is swept", BOUND, || stand.objects(&server) == objects);
        assert_eq!(stand.second.http().get(&path).expect(200).text().len(), length, "{fault}");
    }
}

/// A worker that goes over to another scheduler in the middle of an attempt sends that one everything; the part that is left
/// with the first never takes the place of the whole.
#[test]
fn the_longest_copy_stays() {
    let server = Seaweed::start();
    let stand = Stand::start(&server);
    let switch = Switch::to(stand.first.port());
    let worker = Worker::start_by(&stand.first, &switch.url(), WorkerSettings::new("w", 1));
    let id = stand.first.submit("echo one; while [ ! -e go ]; do sleep 0.1; done; echo two");
    let path = format!("/jobs/{id}{STDOUT}");
    until("the first part is at the first", BOUND, || stand.first.http().get(&path).text() == "one\n");
    switch.turn_to(stand.second.port());
    fs::write(worker.directory().join("go"), "").unwrap();
    stand.second.await_status(&id, "done", BOUND);
    until("nothing is left in files", BOUND, || {
        stand.files("data-a").is_empty() && stand.files("data-b").is_empty()
    });
    for scheduler in [&stand.first, &stand.second] {
        assert_eq!(scheduler.http().get(&path).expect(200).text(), "one\ntwo\n");
    }
}

#[test]
fn moved_output_is_bounded_by_age_and_size() {
    let server = Seaweed::start();
    let bounded = |settings: Settings| {
        settings
            .set("retention-interval", "300ms")
            .set("log-total-limit", "150000")
            .set("log-retention", "1h")
    };
    let stand = Stand::start_with(&server, bounded);
    let _worker = Worker::start(&stand.first, WorkerSettings::new("w", 1));
    let old = run(&stand.first, "head -c 100000 /dev/zero | tr '\\0' x");
    until("it has moved", BOUND, || stand.files("data-a").is_empty());
    let young = run(&stand.first, "head -c 100000 /dev/zero | tr '\\0' y");
    until("the oldest output has gone", BOUND, || {
        let gone = stand.second.http().get(&format!("/jobs/{old}{STDOUT}"));
        gone.expect(200).header("x-muster-log-missing") == Some("0-99999")
    });
    let range = stand
        .second
        .http()
        .request("GET", &format!("/jobs/{old}{STDOUT}"))
        .header("Range", "bytes=0-9")
        .send();
    range.expect(416);
    until("the young one stays", BOUND, || stand.files("data-a").is_empty());
    let left = stand.second.http().get(&format!("/jobs/{young}{STDOUT}"));
    assert_eq!((left.expect(200).text().len(), left.header("x-muster-log-missing")), (100_000, None));
    assert_eq!(stand.objects(&server), 1);
}

#[test]
fn large_checkpoints_lie_in_the_blob_store_and_outlive_it_being_away() {
    let server = Seaweed::start();
    let stand = Stand::start_with(&server, |settings| {
        settings
            .set("retention-interval", "200ms")
            .set("blob-sweep-after", "3s")
            .set("job-heartbeat-timeout", "10m")
    });
    let id = stand.first.submit("sleep 60");
    let job = stand.first.claim(Some("w"));
    let folder = format!("{}/checkpoints", prefix(stand.directory.path()));
    let objects = || server.objects_and_parts(&folder).0.len();
    let save = |scheduler: &Scheduler, byte: u8, bytes: usize| {
        scheduler.http().post(&format!("/jobs/{id}/checkpoint?lease={}", lease_of(&job)), vec![byte; bytes])
    };
    let read = |scheduler: &Scheduler| {
        scheduler.http().get(&format!("/jobs/{id}/checkpoint")).expect(200).body.clone()
    };
    save(&stand.first, 1, 3 << 20).expect(200);
    assert_eq!((read(&stand.second), objects()), (vec![1; 3 << 20], 1));
    save(&stand.second, 2, 2 << 20).expect(200);
    assert_eq!((read(&stand.first), objects()), (vec![2; 2 << 20], 1), "the one before is removed");
    // S3 is away: one answer says so, and the next attempt finds a place in the database.
    server.kill();
    until("a checkpoint is taken in without S3", BOUND, || save(&stand.first, 3, 1 << 20).status == 200);
    assert_eq!(read(&stand.second), vec![3; 1 << 20]);
    server.launch();
    until("S3 is used again", BOUND, || {
        save(&stand.second, 4, 1 << 20).expect(200);
        objects() == 1 && read(&stand.first) == vec![4; 1 << 20]
    });
    save(&stand.second, 5, 10).expect(200);
    until("nothing is left of those before", BOUND, || objects() == 0);
    assert_eq!(read(&stand.first), vec![5; 10]);
    assert_eq!(json!(stand.files("data-a").len()), json!(0));
}
