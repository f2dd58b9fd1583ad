//! Artifacts: handed in by the holder of the lease, listed, read, linked, and gone with their job; on a directory and on a
//! real S3.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_s3_testkit::{ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed};
use muster_tests::{
    Http, Response, Scheduler, Settings, StoreKind, Worker, WorkerSettings, for_each_store, id_of, lease_of,
    until,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(60);
/// Of `muster`.
const DIGEST: &str = "a1f8a82ebd0fb3a3d4e6eaec2e1d2b1fb0e8dcb9c4fe4c9ec33a6d2f9f1f5a1c";

/// Settings of a scheduler that keeps its blobs in S3, below a prefix of its own.
pub(crate) fn on_s3(server: &Seaweed, directory: &Path) -> Settings {
    let credentials = directory.join("credentials");
    let lines = format!("AWS_ACCESS_KEY_ID={ACCESS_KEY}\nAWS_SECRET_ACCESS_KEY={SECRET_KEY}\n");
    fs::write(&credentials, lines).unwrap();
    let place =
        format!("s3://{BUCKET}/{}", directory.file_name().unwrap().to_string_lossy().replace('.', "x"));
    Settings::default()
        .set("blob-store", &place)
        .set("s3-endpoint", &server.endpoint())
        .set("s3-credentials-file", &credentials.display().to_string())
}

/// A job that is held, with its lease.
pub(crate) fn claimed(scheduler: &Scheduler) -> (String, u64) {
    scheduler.submit("true");
    let job = scheduler.claim(None);
    (id_of(&job), lease_of(&job))
}

pub(crate) fn put(
    scheduler: &Scheduler,
    (id, lease): &(String, u64),
    name: &str,
    content: &[u8],
) -> Response {
    let target = format!("/jobs/{id}/artifacts/{name}?lease={lease}");
    scheduler.http().request("PUT", &target).body(content).send()
}

/// A job without artifacts has an empty list, under a status of its own.
pub(crate) fn list(scheduler: &Scheduler, id: &str) -> Value {
    let answer = scheduler.http().get(&format!("/jobs/{id}/artifacts"));
    let list = answer.json();
    let is_empty = list["artifacts"].as_array().is_some_and(Vec::is_empty);
    answer.expect(if is_empty { 404 } else { 200 });
    list
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let all = list["artifacts"].as_array().unwrap();
    all.iter().map(|artifact| artifact["name"].as_str().unwrap()).collect()
}

for_each_store! {
    fn what_is_handed_in_is_listed_and_read(store) {
        let scheduler = Scheduler::start(store);
        let job = claimed(&scheduler);
        let id = &job.0;
        let none = list(&scheduler, id);
        assert_eq!((&none["artifacts"], &none["error"]), (&json!([]), &json!("no artifacts for this job")));
        let kept = put(&scheduler, &job, "out%2Fa%20b.csv", b"x,y\n").expect(200).json();
        assert_eq!(kept["size"], 4);
        put(&scheduler, &job, "empty", b"").expect(200);
        let all = list(&scheduler, id);
        assert_eq!(names(&all), ["empty", "out/a b.csv"]);
        assert_eq!((&all["files"], &all["bytes"], &all["missing"], &all["attempt"]), (&json!(2), &json!(4), &json!(0), &json!(1)));
        let csv = &all["artifacts"][1];
        assert_eq!((&csv["size"], &csv["content_type"]), (&json!(4), &json!("text/csv; charset=utf-8")));
        assert_eq!(csv["sha256"], kept["sha256"]);
        // As clients know it that count on one artifact for each job.
        assert!(all["object_key"].as_str().is_some_and(|key| key.starts_with("artifacts/")), "{all}");
        assert_eq!(all["expires_in"], "1h");
        let url = all["download_url"].as_str().unwrap();
        assert_eq!(scheduler.http().get(&url[url.find("/artifact-links/").unwrap()..]).expect(200).text(), "");
        let read = scheduler.http().get(&format!("/jobs/{id}/artifacts/out%2Fa%20b.csv"));
        read.expect(200);
        assert_eq!(read.text(), "x,y\n");
        assert!(read.header("content-disposition").unwrap().starts_with("attachment"));
        let part = scheduler.http().request("GET", &format!("/jobs/{id}/artifacts/out%2Fa%20b.csv"));
        let part = part.header("range", "bytes=2-").send();
        assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "y\n", Some("bytes 2-3/4")));
        let beyond = scheduler.http().request("GET", &format!("/jobs/{id}/artifacts/out%2Fa%20b.csv"));
        assert_eq!(beyond.header("range", "bytes=4-").send().status, 416);
        assert_eq!(scheduler.http().get(&format!("/jobs/{id}/artifacts/none")).status, 404);
        put(&scheduler, &job, "empty", b"no longer").expect(200);
        assert_eq!(list(&scheduler, id)["bytes"], 13);
        scheduler.report_under(job.1, id, "done").expect_empty();
        assert_eq!(names(&list(&scheduler, id)).len(), 2, "they outlive the attempt");
    }

    fn pages_go_on_behind_the_last_name(store) {
        let scheduler = Scheduler::start(store);
        let job = claimed(&scheduler);
        for name in ["c", "a", "b"] {
            put(&scheduler, &job, name, name.as_bytes()).expect(200);
        }
        let page = |query: &str| scheduler.http().get(&format!("/jobs/{}/artifacts?limit=2{query}", job.0)).expect(200).json();
        let first = page("");
        assert_eq!((names(&first), &first["next"], &first["files"]), (vec!["a", "b"], &json!("b"), &json!(3)));
        let second = page("&after=b");
        assert_eq!((names(&second), &second["next"]), (vec!["c"], &Value::Null));
    }

    fn only_the_holder_hands_in_and_only_good_names(store) {
        let scheduler = Scheduler::start(store);
        let job = claimed(&scheduler);
        let (id, lease) = &job;
        let other = (id.clone(), lease + 1);
        assert_eq!(put(&scheduler, &other, "a", b"x").status, 409);
        let unproven = scheduler.http().request("PUT", &format!("/jobs/{id}/artifacts/a")).body("x").send();
        unproven.expect_error(400, "an artifact belongs to an attempt: give its lease, or show the token of the job");
        for wrong in ["..%2Fx", "%2Fetc%2Fpasswd", "a%2F..%2F..%2Fx", "a%00b", "a%0Ab", "a%2F%2Fb"] {
            assert_eq!(put(&scheduler, &job, wrong, b"x").status, 400, "{wrong}");
        }
        let long = "x".repeat(300);
        assert_eq!(put(&scheduler, &job, &long, b"x").status, 400);
        let target = format!("/jobs/{id}/artifacts/a?lease={lease}");
        let short = scheduler.http().request("PUT", &format!("{target}&size=3")).body("four").send();
        assert_eq!(short.status, 400, "{}", short.text());
        let wrong = scheduler.http().request("PUT", &format!("{target}&sha256={DIGEST}")).body("other").send();
        assert!(wrong.status == 400 && wrong.text().contains("SHA-256"), "{}", wrong.text());
        assert_eq!(list(&scheduler, id)["files"], 0);
        scheduler.report_under(*lease, id, "done").expect_empty();
        assert_eq!(put(&scheduler, &job, "late", b"x").status, 409);
    }

    fn a_file_that_is_missing_is_listed_with_the_reason(store) {
        let scheduler = Scheduler::start(store);
        let job = claimed(&scheduler);
        let target = format!("/jobs/{}/artifacts/pipe?lease={}&missing=it%20is%20a%20pipe", job.0, job.1);
        scheduler.http().request("PUT", &target).send().expect(200);
        let all = list(&scheduler, &job.0);
        assert_eq!((&all["missing"], &all["artifacts"][0]["missing"]), (&json!(1), &json!("it is a pipe")));
        let read = scheduler.http().get(&format!("/jobs/{}/artifacts/pipe", job.0));
        read.expect_error(404, "the artifact could not be kept: it is a pipe");
    }

    fn quotas_refuse_with_what_is_used(store) {
        let settings = Settings::default().set("artifact-bytes-per-job", "10").set("artifact-files", "2").set("artifact-limit", "8");
        let scheduler = Scheduler::start_with(store, settings);
        let job = claimed(&scheduler);
        put(&scheduler, &job, "a", b"12345678").expect(200);
        let full = put(&scheduler, &job, "b", b"123");
        full.expect_error(507, "the job has 8 bytes of artifacts and may have 10: there is no room for 3 more");
        assert_eq!(put(&scheduler, &job, "b", b"123456789").status, 413);
        put(&scheduler, &job, "b", b"12").expect(200);
        assert_eq!(put(&scheduler, &job, "c", b"").status, 409);
        put(&scheduler, &job, "a", b"1").expect(200);
    }

    fn links_work_alone_until_they_expire(store) {
        let scheduler = Scheduler::start(store);
        let job = claimed(&scheduler);
        put(&scheduler, &job, "dir%2Fa.txt", b"hello").expect(200);
        let made = scheduler.http().post(&format!("/jobs/{}/artifacts/dir%2Fa.txt/url?expires=5m", job.0), "").expect(200).json();
        let url = made["url"].as_str().unwrap();
        let path = &url[url.find("/artifact-links/").unwrap()..];
        assert!(path.ends_with("/a.txt"), "{url}");
        assert_eq!(scheduler.http().get(path).expect(200).text(), "hello");
        let broken = path.replacen("/artifact-links/", "/artifact-links/x", 1);
        assert_eq!(scheduler.http().get(&broken).status, 403);
        let short = scheduler.http().post(&format!("/jobs/{}/artifacts/dir%2Fa.txt/url?expires=1s", job.0), "").expect(200).json();
        let url = short["url"].as_str().unwrap();
        let path = &url[url.find("/artifact-links/").unwrap()..];
        until("the link expires", BOUND, || scheduler.http().get(path).status == 403);
        let long = scheduler.http().post(&format!("/jobs/{}/artifacts/dir%2Fa.txt/url?expires=30d", job.0), "");
        assert_eq!(long.status, 400);
    }

    fn old_artifacts_go_while_their_jobs_stay(store) {
        let settings = Settings::default().set("artifact-retention", "1s").set("retention-interval", "50ms");
        let scheduler = Scheduler::start_with(store, settings);
        let job = claimed(&scheduler);
        put(&scheduler, &job, "a", b"12345678").expect(200);
        let target = format!("/jobs/{}/artifacts/a", job.0);
        until("the artifact is removed", BOUND, || scheduler.http().get(&target).status == 410);
        assert!(scheduler.http().get(&target).text().contains("--artifact-retention"));
        let all = list(&scheduler, &job.0);
        assert_eq!((&all["bytes"], &all["files"], &all["missing"]), (&json!(0), &json!(0), &json!(0)));
        assert!(all["artifacts"][0]["removed_at"].is_string(), "{all}");
        assert_eq!(all["download_url"], Value::Null);
        scheduler.report_under(job.1, &job.0, "done").expect_empty();
    }

    fn what_nothing_names_is_swept_and_bytes_that_are_gone_are_told(store) {
        let directory = TempDir::with_prefix("muster-blobs-").unwrap();
        let place = directory.path().display().to_string();
        let settings = Settings::default().set("blob-store", &place).set("retention-interval", "50ms").set("blob-sweep-after", "5s");
        let scheduler = Scheduler::start_with(store, settings);
        let job = claimed(&scheduler);
        put(&scheduler, &job, "a", b"kept").expect(200);
        let stray = directory.path().join("artifacts/0000/1");
        fs::create_dir_all(&stray).unwrap();
        fs::write(stray.join("stray"), "x").unwrap();
        fs::write(directory.path().join("~unfinished/half"), "x").unwrap();
        until("the stray object is swept", BOUND, || !stray.exists() && !directory.path().join("~unfinished/half").exists());
        let target = format!("/jobs/{}/artifacts/a", job.0);
        assert_eq!(scheduler.http().get(&target).expect(200).text(), "kept");
        scheduler.report_under(job.1, &job.0, "done").expect_empty();
        let http = scheduler.http();
        http.request("DELETE", &format!("/jobs/{}", job.0)).send().expect(204);
        assert_eq!(http.get(&target).status, 404);
        let folder = directory.path().join("artifacts");
        until("the bytes go with the job", BOUND, || fs::read_dir(&folder).map_or(0, Iterator::count) == 0);
        let other = claimed(&scheduler);
        put(&scheduler, &other, "b", b"lost").expect(200);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(http.get(&format!("/jobs/{}/artifacts/b", other.0)).status, 410);
    }
}

#[test]
fn a_worker_keeps_what_a_job_leaves_also_of_one_that_fails() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let worker = Worker::start(&scheduler, WorkerSettings::new("w1", 2));
    let script = "cd \"$MUSTER_ARTIFACTS\" && mkdir -p sub && echo one > sub/one.txt && : > empty && ln -s /etc/passwd out && mkfifo pipe && ln -s sub/one.txt in && exit 3";
    let job = scheduler.submit_job(&json!({ "command": script }));
    let id = id_of(&job);
    let ended = scheduler.await_status(&id, "failed", BOUND);
    let all = list(&scheduler, &id);
    assert_eq!(names(&all), ["empty", "in", "out", "pipe", "sub/one.txt"], "{ended}");
    assert_eq!((&all["files"], &all["missing"], &all["bytes"]), (&json!(3), &json!(2), &json!(8)));
    assert_eq!(all["artifacts"][2]["missing"], "it is a link that leads out of the directory");
    let read = scheduler.http().get(&format!("/jobs/{id}/artifacts/sub%2Fone.txt"));
    assert_eq!(read.expect(200).text(), "one\n");
    // A job that leaves nothing finds an empty directory and costs no files.
    let quiet =
        scheduler.submit("test -d \"$MUSTER_ARTIFACTS\" && test -z \"$(ls -A \"$MUSTER_ARTIFACTS\")\"");
    scheduler.await_status(&quiet, "done", BOUND);
    assert_eq!(list(&scheduler, &quiet)["attempts"], json!([]));
    let left = || fs::read_dir(worker.directory().join("artifacts")).unwrap().flatten();
    let full =
        || left().any(|entry| fs::read_dir(entry.path()).is_ok_and(|mut files| files.next().is_some()));
    assert!(!full(), "what was kept is gone from the worker");
}

#[test]
fn many_artifacts_of_one_job_are_all_kept() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w1", 1));
    // Two more than may be kept.
    let script = "cd \"$MUSTER_ARTIFACTS\" && for i in $(seq 10002); do echo $i > f$i; done";
    let id = scheduler.submit(script);
    scheduler.await_status(&id, "done", Duration::from_secs(300));
    let (mut count, mut query, mut told) = (0, String::new(), Vec::new());
    loop {
        let page = scheduler.http().get(&format!("/jobs/{id}/artifacts{query}")).expect(200).json();
        assert_eq!((&page["files"], &page["missing"]), (&json!(10_000), &json!(1)));
        count += names(&page).len();
        let whole =
            page["artifacts"].as_array().unwrap().iter().find(|one| one["name"] == "MUSTER_ARTIFACTS");
        told.extend(whole.map(|one| one["missing"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => query = format!("?after={next}"),
            None => break,
        }
    }
    assert_eq!(count, 10_001);
    assert_eq!(told, ["2 more files are not kept: an attempt has at most 10000 artifacts"]);
}

/// Larger than what S3 takes in one request, with a hole instead of bytes.
#[test]
fn an_artifact_of_five_gigabytes_is_kept_and_read() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w1", 1));
    let bytes = 5 * (1_u64 << 30) + 9;
    let id = scheduler.submit(&format!("truncate -s {bytes} \"$MUSTER_ARTIFACTS/large\""));
    scheduler.await_status(&id, "done", Duration::from_secs(500));
    let all = list(&scheduler, &id);
    assert_eq!((&all["bytes"], &all["missing"]), (&json!(bytes), &json!(0)), "{all}");
    let target = format!("/jobs/{id}/artifacts/large");
    let last = scheduler.http().request("GET", &target).header("Range", "bytes=-12").send();
    assert_eq!((last.status, last.body), (206, vec![0; 12]));
}

#[test]
fn with_s3_readers_are_led_there_and_links_are_those_of_s3() {
    let server = Seaweed::shared();
    let directory = TempDir::with_prefix("muster-s3-").unwrap();
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, on_s3(server, directory.path()));
    let job = claimed(&scheduler);
    put(&scheduler, &job, "a.txt", b"hello").expect(200);
    let led = scheduler.http().get(&format!("/jobs/{}/artifacts/a.txt", job.0));
    led.expect(307);
    let made = scheduler.http().post(&format!("/jobs/{}/artifacts/a.txt/url", job.0), "").expect(200).json();
    for url in [led.header("location").unwrap(), made["url"].as_str().unwrap()] {
        let rest = url.strip_prefix(&server.endpoint()).unwrap_or_else(|| panic!("{url}"));
        let port: u16 = server.endpoint().rsplit(':').next().unwrap().parse().unwrap();
        let read = Http::new(port).get(rest);
        assert_eq!((read.status, read.text().as_str()), (200, "hello"));
        assert!(read.header("content-disposition").is_some_and(|said| said.contains("a.txt")), "{read:?}");
        let forged = rest.replacen("X-Amz-Signature=", "X-Amz-Signature=0", 1);
        assert_eq!(Http::new(port).get(&forged).status, 403);
    }
    assert_eq!(scheduler.http().get("/readyz").text(), "ok\n");
    let metric = |series: &str| scheduler.metric(series);
    assert_eq!(metric("muster_blob_store_up"), Some(1));
    assert!(
        metric("muster_blob_operations_total{operation=\"put\",result=\"ok\"}").is_some_and(|puts| puts >= 2)
    );
}

#[test]
fn an_s3_that_goes_away_is_told_and_nothing_half_is_listed() {
    let server = Seaweed::start();
    let directory = TempDir::with_prefix("muster-s3-").unwrap();
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, on_s3(&server, directory.path()));
    let job = claimed(&scheduler);
    server.kill();
    let refused = put(&scheduler, &job, "a.txt", b"hello");
    refused.expect_error(503, "the blob store is out of reach");
    assert_eq!(list(&scheduler, &job.0)["files"], 0);
    server.launch();
    until("S3 takes it again", BOUND, || put(&scheduler, &job, "a.txt", b"hello").status == 200);
    assert_eq!(list(&scheduler, &job.0)["files"], 1);
}
