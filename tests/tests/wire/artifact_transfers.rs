//! Artifacts on their way between workers and a real S3: straight there by signed links, through the scheduler where that
//! cannot be, and across losses of all three.

use std::fs;
use std::time::Duration;

use muster_s3_testkit::Seaweed;
use muster_tests::{
    Backing, Http, PortLease, Response, Scheduler, StoreKind, Worker, WorkerSettings, id_of, until,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::artifacts::{claimed, list, names, on_s3};

const BOUND: Duration = Duration::from_secs(120);
/// More than one part.
const LARGE: usize = 20_000_000;
/// Of `hello`, as hexadecimal digits.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn written(scheduler: &Scheduler) -> u64 {
    scheduler.metric("muster_blob_bytes_total{direction=\"written\"}").unwrap()
}

/// A job that leaves a small and a large file, and its digests on standard output.
const LEAVES: &str = "cd \"$MUSTER_ARTIFACTS\" && echo one > one && head -c 20000000 /dev/urandom > large && \
                      sha256sum large | cut -c -64";

fn check(scheduler: &Scheduler, id: &str) {
    let all = list(scheduler, id);
    assert_eq!(
        (names(&all), &all["bytes"], &all["missing"]),
        (vec!["large", "one"], &json!(LARGE + 4), &json!(0)),
        "{all}"
    );
    let said = scheduler.http().get(&format!("/jobs/{id}/logs?stream=stdout")).expect(200).text();
    assert!(said.contains(all["artifacts"][0]["sha256"].as_str().unwrap()), "{said} {all}");
    let read = scheduler.http().get(&format!("/jobs/{id}/artifacts/one?redirect=false"));
    assert_eq!(read.expect(200).text(), "one\n");
}

#[test]
fn a_worker_sends_straight_to_s3_and_through_the_scheduler_where_it_cannot() {
    let (server, directory) = (Seaweed::shared(), TempDir::with_prefix("muster-s3-").unwrap());
    let mut scheduler = Scheduler::start_with(StoreKind::Sqlite, on_s3(server, directory.path()));
    let mut worker = Worker::start(&scheduler, WorkerSettings::new("w1", 1));
    let id = scheduler.submit(LEAVES);
    scheduler.await_status(&id, "done", BOUND);
    check(&scheduler, &id);
    assert!(written(&scheduler) < 10_000, "the scheduler saw the bytes");
    // Links that lead nowhere for the worker: everything goes through the scheduler.
    let nowhere = PortLease::take();
    let elsewhere = on_s3(server, directory.path())
        .set("s3-public-endpoint", &format!("http://127.0.0.1:{}", nowhere.port()));
    for settings in [elsewhere, on_s3(server, directory.path()).set("blob-direct", "never")] {
        scheduler.terminate();
        scheduler.restart_with(settings);
        // What it knows of the way to S3 is forgotten.
        worker.terminate(BOUND);
        worker.restart();
        let id = scheduler.submit(LEAVES);
        scheduler.await_status(&id, "done", BOUND);
        check(&scheduler, &id);
        assert!(written(&scheduler) > LARGE as u64, "the bytes went another way");
    }
}

#[test]
fn uploads_outlive_the_loss_of_agent_scheduler_and_s3() {
    let server = Seaweed::start();
    let directory = TempDir::with_prefix("muster-s3-").unwrap();
    let backing = Backing::new(StoreKind::Sqlite);
    let settings = on_s3(&server, directory.path()).set("retention-interval", "100ms");
    let mut scheduler = Scheduler::start_on(&backing, settings.set("blob-sweep-after", "20s"));
    let mut worker = Worker::start(&scheduler, WorkerSettings::new("w1", 1));
    let id = scheduler.submit(LEAVES);
    // S3 goes away while the job runs: its artifacts wait, and so does its end.
    server.kill();
    until("the job has ended and its artifacts wait", BOUND, || {
        let rooms = fs::read_dir(worker.directory().join("artifacts")).into_iter().flatten().flatten();
        rooms
            .into_iter()
            .any(|room| fs::metadata(room.path().join("large")).is_ok_and(|file| file.len() == LARGE as u64))
    });
    worker.kill9();
    worker.restart();
    server.launch();
    // It takes what comes and answers nothing, until it goes on.
    server.freeze();
    scheduler.kill9();
    scheduler.restart();
    server.thaw();
    scheduler.await_status(&id, "done", BOUND);
    check(&scheduler, &id);
    // Nothing is left behind: not twice, and not by halves.
    let prefix = directory.path().file_name().unwrap().to_string_lossy().replace('.', "x");
    until("what nothing names is swept", BOUND, || {
        let (objects, parts) = server.objects_and_parts(&format!("{prefix}/artifacts"));
        objects.len() == 2 && parts.is_empty()
    });
}

fn ask(scheduler: &Scheduler, (id, lease): &(String, u64), end: &str, body: &Value) -> Response {
    let target = format!("/jobs/{id}/artifact-uploads{end}?lease={lease}");
    scheduler.http().request("POST", &target).body(body.to_string()).send()
}

#[test]
fn only_announced_content_gets_in_and_only_what_is_there_is_listed() {
    let server = Seaweed::shared();
    let directory = TempDir::with_prefix("muster-s3-").unwrap();
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, on_s3(server, directory.path()));
    let job = claimed(&scheduler);
    let file = json!({"name": "a/b.txt", "size": 5, "sha256": HELLO});
    let offer = json!({"files": [file, {"name": "../x", "size": 5, "sha256": HELLO}]});
    let places = ask(&scheduler, &job, "", &offer).expect(200).json();
    assert_eq!(places["direct"], true);
    assert!(places["files"][1]["refused"].as_str().is_some_and(|why| why.contains("leads out")), "{places}");
    let put = &places["files"][0]["put"];
    let (url, headers) = (put["url"].as_str().unwrap(), put["headers"].as_object().unwrap());
    let target = url.strip_prefix(&server.endpoint()).unwrap();
    let port: u16 = server.endpoint().rsplit(':').next().unwrap().parse().unwrap();
    let send = |content: &str| {
        let http = Http::new(port);
        let mut request = http.request("PUT", target);
        for (name, value) in headers {
            request = request.header(name, value.as_str().unwrap());
        }
        request.body(content).send().status
    };
    // Nothing is there yet, and nothing but what was announced gets there.
    let completed = json!({ "files": [file] });
    let early = ask(&scheduler, &job, "/complete", &completed).expect(200).json();
    assert_eq!(
        (&early["files"][0]["again"], list(&scheduler, &job.0)["files"].as_u64()),
        (&json!(true), Some(0))
    );
    assert_eq!(send("HELLO"), 400);
    assert_eq!(send("hello"), 200);
    for _ in 0..2 {
        let said = ask(&scheduler, &job, "/complete", &completed).expect(200).json();
        assert_eq!(said["files"][0], json!({}), "{said}");
    }
    let read = scheduler.http().get(&format!("/jobs/{}/artifacts/a%2Fb.txt?redirect=false", job.0));
    assert_eq!(read.expect(200).text(), "hello");
    let again = ask(&scheduler, &job, "", &json!({ "files": [file] })).expect(200).json();
    assert_eq!(again["files"][0]["kept"], true);
    let other = (job.0.clone(), job.1 + 1);
    assert_eq!(ask(&scheduler, &other, "", &offer).status, 409);
    assert_eq!(ask(&scheduler, &other, "/complete", &completed).status, 409);
}

/// Of the first part, of zeros, and of both parts together.
const ZEROS: &str = "2daeb1f36095b44b318410b3f4e8b5d989dcc7bb023d1426c492dab0a3053e74";
const BOTH: &str = "2c2ab423b904a996dc57de8c91631a6b0d7e492b01373bac16a4a6f7d0130723";
const PART: usize = 8 * 1024 * 1024;

/// Sends a part to where the scheduler says. Returns its `ETag`.
fn send_part(server: &Seaweed, place: &Value, content: &[u8]) -> String {
    let link = &place["files"][0]["parts"][0];
    let target = link["url"].as_str().unwrap().strip_prefix(&server.endpoint()).unwrap().to_owned();
    let port: u16 = server.endpoint().rsplit(':').next().unwrap().parse().unwrap();
    let mut request = Http::new(port).request("PUT", &target);
    for (name, value) in link["headers"].as_object().unwrap() {
        request = request.header(name, value.as_str().unwrap());
    }
    let answer = request.body(content).send();
    answer.expect(200);
    answer.header("etag").unwrap().to_owned()
}

#[test]
fn an_upload_in_parts_is_taken_up_where_it_was_and_completed_as_often_as_it_is_said() {
    let server = Seaweed::shared();
    let directory = TempDir::with_prefix("muster-s3-").unwrap();
    let backing = Backing::new(StoreKind::Sqlite);
    let mut scheduler = Scheduler::start_on(&backing, on_s3(server, directory.path()));
    let job = claimed(&scheduler);
    let file = json!({"name": "large", "size": PART + 5, "sha256": BOTH, "part_size": PART});
    let begun = ask(&scheduler, &job, "", &json!({ "files": [file] })).expect(200).json();
    let upload = begun["files"][0]["upload"].clone();
    let part = |number: u32, sha256: &str| {
        let mut wanted = file.clone();
        wanted["upload"] = upload.clone();
        wanted["parts"] = json!([{"number": number, "sha256": sha256}]);
        json!({ "files": [wanted] })
    };
    let second = ask(&scheduler, &job, "", &part(2, HELLO)).expect(200).json();
    let second = send_part(server, &second, b"hello");
    // Nothing is kept about it but what S3 knows.
    scheduler.kill9();
    scheduler.restart();
    let again = ask(&scheduler, &job, "", &json!({ "files": [file] })).expect(200).json();
    assert_eq!(again["files"][0]["upload"], upload);
    assert_eq!(again["files"][0]["there"], json!([{"number": 2, "etag": second}]), "{again}");
    let refused = ask(&scheduler, &job, "", &part(3, HELLO)).expect(200).json();
    assert!(refused["files"][0]["refused"].is_string(), "{refused}");
    let first = ask(&scheduler, &job, "", &part(1, ZEROS)).expect(200).json();
    let first = send_part(server, &first, &vec![0; PART]);
    let mut sent = file.clone();
    sent["upload"] = upload;
    sent["parts"] = json!([{"etag": first, "sha256": HELLO}, {"etag": second, "sha256": HELLO}]);
    let wrong = ask(&scheduler, &job, "/complete", &json!({ "files": [sent] })).expect(200).json();
    assert!(wrong["files"][0]["refused"].is_string(), "{wrong}");
    assert_eq!(list(&scheduler, &job.0)["files"], 0);
    sent["parts"][0]["sha256"] = json!(ZEROS);
    for _ in 0..2 {
        let said = ask(&scheduler, &job, "/complete", &json!({ "files": [sent] })).expect(200).json();
        assert_eq!(said["files"][0], json!({}), "{said}");
    }
    let all = list(&scheduler, &job.0);
    assert_eq!((&all["bytes"], &all["artifacts"][0]["sha256"]), (&json!(PART + 5), &json!(BOTH)));
}

#[test]
fn files_of_the_working_directory_are_kept_by_patterns() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w1", 1));
    let directory = TempDir::with_prefix("muster-patterns-").unwrap();
    let command = "mkdir -p out/deep && echo a > out/a.pt && echo b > out/deep/b.pt && echo c > c.txt && \
                   ln -s /etc/passwd out/p.pt && echo own > \"$MUSTER_ARTIFACTS\"/own";
    let request = json!({
        "command": command, "working_dir": directory.path(), "artifacts": ["out/**/*.pt", "*.csv"],
    });
    let id = id_of(&scheduler.submit_job(&request));
    let ended = scheduler.await_status(&id, "done", BOUND);
    let all = list(&scheduler, &id);
    assert_eq!(names(&all), ["*.csv", "out/a.pt", "out/deep/b.pt", "out/p.pt", "own"], "{ended}");
    assert_eq!((&all["files"], &all["missing"]), (&json!(3), &json!(2)));
    assert_eq!(all["artifacts"][0]["missing"], "no file of the working directory matches");
    assert_eq!(all["artifacts"][3]["missing"], "it is a link that leads out of the directory");
    assert!(directory.path().join("out/a.pt").exists(), "the files stay where they are");
    for wrong in ["../*", "/etc/*", "a**"] {
        let refused =
            scheduler.http().post("/jobs", json!({"command": "true", "artifacts": [wrong]}).to_string());
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }
    let contained = json!({"command": "true", "image": "x", "artifacts": ["*"]}).to_string();
    let refused = scheduler.http().post("/jobs", &contained);
    assert!(refused.status == 400 && refused.text().contains("$MUSTER_ARTIFACTS"), "{}", refused.text());
}
