//! Whoever is killed while files travel with jobs: nothing that was acknowledged is lost, nothing is left behind, no job runs twice.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_protocol::{UploadChunk, UploadEntry, UploadManifest};
use muster_s3_testkit::Seaweed;
use muster_tests::{
    Scheduler, Settings, StoreKind, Valve, Worker, WorkerSettings, binary, id_of, lease_of, until,
};
use muster_upload::{Digest, encode_frame, manifest_id};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::artifacts::on_s3;

const BOUND: Duration = Duration::from_secs(120);
const CHUNK: usize = 1 << 20;

/// Bytes of which no two pieces are the same.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Sends a file of several chunks and returns the id of the upload.
fn upload(scheduler: &Scheduler, bytes: &[u8]) -> String {
    let chunks = bytes.chunks(CHUNK);
    let entry = UploadEntry { path: "big".into(), size: bytes.len() as u64, ..UploadEntry::default() };
    let named =
        |chunk: &[u8]| UploadChunk { sha256: Digest::of(chunk).to_string(), size: chunk.len() as u32 };
    let manifest = UploadManifest { entries: vec![entry], chunks: chunks.clone().map(named).collect() };
    scheduler.http().post_json("/uploads", &serde_json::to_value(&manifest).unwrap()).expect(200);
    let id = manifest_id(&manifest).to_string();
    for chunk in chunks {
        let mut body = Vec::new();
        encode_frame(&Digest::of(chunk), chunk, &mut body);
        scheduler.http().post(&format!("/uploads/{id}/chunks"), body).expect(204);
    }
    scheduler.http().post(&format!("/uploads/{id}/complete"), "").expect(200);
    id
}

/// A job that is done and has left the bytes as an artifact.
fn artifact(scheduler: &Scheduler, bytes: &[u8]) -> String {
    let id = scheduler.submit("true");
    let lease = lease_of(&scheduler.claim(None));
    let target = format!("/jobs/{id}/artifacts/big?lease={lease}");
    scheduler.http().request("PUT", &target).body(bytes).send().expect(200);
    scheduler.report_under(lease, &id, "done").expect(200);
    id
}

/// Two jobs that are being prepared: one fetches an upload, the other an artifact, and neither gets on.
struct Scene {
    scheduler: Scheduler,
    worker: Worker,
    valve: Valve,
    jobs: [String; 2],
    digest: String,
}

impl Scene {
    fn prepare(settings: Settings) -> Self {
        let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
        let bytes = noise(6 * CHUNK);
        let digest = format!("{}\n", Digest::of(&bytes));
        let (upload, parent) = (upload(&scheduler, &bytes), artifact(&scheduler, &bytes));
        let sum = "sha256sum ${MUSTER_INPUTS:-.}/big | cut -d' ' -f1";
        let jobs = [
            json!({"command": sum, "upload": upload}),
            json!({"command": sum, "depends_on": [parent], "inputs": [{"from": parent}]}),
        ];
        let jobs = jobs.map(|job| id_of(&scheduler.submit_job(&job)));
        let valve = Valve::to(scheduler.port());
        let worker = Worker::start_by(&scheduler, &valve.url(), WorkerSettings::new("w", 2));
        valve.await_stops(2);
        Self { scheduler, worker, valve, jobs, digest }
    }

    /// All jobs end well, with the right bytes and nothing left. Returns them.
    fn goes_on(mut self) -> Vec<Value> {
        self.valve.open();
        let (scheduler, worker) = (&self.scheduler, &mut self.worker);
        until("the jobs are done", BOUND, || {
            if !worker.process().is_alive() {
                worker.restart();
            }
            self.jobs.iter().all(|id| scheduler.status(id) == "done")
        });
        for id in &self.jobs {
            let output = scheduler.http().get(&format!("/jobs/{id}/logs")).expect(200).text();
            assert_eq!(output, self.digest);
        }
        for folder in ["rooms", "attempts"] {
            let folder = worker.directory().join(folder);
            until("nothing is left", BOUND, || fs::read_dir(&folder).unwrap().next().is_none());
        }
        self.jobs.iter().map(|id| scheduler.job(id)).collect()
    }
}

fn short_leases() -> Settings {
    Settings::default().set("job-heartbeat-timeout", "4s").set("worker-heartbeat-timeout", "4s")
}

#[test]
fn an_agent_that_is_killed_leaves_no_half_of_anything() {
    let mut scene = Scene::prepare(short_leases());
    let half = fs::read_dir(scene.worker.directory().join("rooms")).unwrap().count();
    assert_eq!(half, 2, "both have begun");
    scene.worker.kill9();
    scene.worker.restart();
    scene.goes_on();
}

#[test]
fn a_keeper_that_is_killed_costs_no_file() {
    let scene = Scene::prepare(short_leases());
    assert!(scene.worker.kill9_keeper());
    scene.goes_on();
}

#[test]
fn a_scheduler_that_is_killed_is_waited_for_at_no_cost() {
    let mut scene = Scene::prepare(Settings::default());
    scene.scheduler.kill9();
    scene.valve.open();
    scene.scheduler.restart();
    for job in scene.goes_on() {
        assert_eq!(job["attempts"], 1, "{job}");
    }
}

#[test]
fn an_s3_that_is_killed_is_waited_for_at_no_cost() {
    let (server, directory) = (Seaweed::start(), TempDir::with_prefix("muster-s3-").unwrap());
    let scene = Scene::prepare(on_s3(&server, directory.path()));
    server.kill();
    scene.valve.open();
    // What is refused now is asked for again.
    let refused = || scene.scheduler.http().get(&format!("/jobs/{}/inputs/big", scene.jobs[1])).status;
    assert_ne!(refused(), 200);
    server.launch();
    for job in scene.goes_on() {
        assert_eq!(job["attempts"], 1, "{job}");
    }
}

/// A client that sends a directory and comes to a stop in the middle.
fn client(url: &str, directory: &Path) -> Child {
    let mut command = Command::new(binary("muster"));
    command.args(["submit", "--upload", "app", "--", "sh", "-c", "sha256sum big | cut -d' ' -f1"]);
    command.current_dir(directory).env("MUSTER_URL", url).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What it printed, which is the id of its job.
fn id_from(client: Child) -> String {
    let ended = client.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{told}");
    String::from_utf8(ended.stdout).unwrap().trim().to_owned()
}

fn directory() -> (TempDir, String) {
    let directory = TempDir::with_prefix("muster-app-").unwrap();
    let bytes = noise(12 * CHUNK);
    fs::create_dir(directory.path().join("app")).unwrap();
    fs::write(directory.path().join("app/big"), &bytes).unwrap();
    (directory, format!("{}\n", Digest::of(&bytes)))
}

fn runs_once(scheduler: &Scheduler, id: &str, digest: &str) {
    let _worker = Worker::start(scheduler, WorkerSettings::new("w", 1));
    scheduler.await_status(id, "done", BOUND);
    assert_eq!(scheduler.http().get(&format!("/jobs/{id}/logs")).expect(200).text(), digest);
    assert_eq!(scheduler.jobs().len(), 1, "it was submitted once");
}

#[test]
fn a_client_that_is_killed_goes_on_where_it_was() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let (directory, digest) = directory();
    let valve = Valve::to(scheduler.port());
    let mut first = client(&valve.url(), directory.path());
    valve.await_stops(1);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(scheduler.jobs().is_empty(), "nothing runs without all of its files");
    let id = id_from(client(&scheduler.url(), directory.path()));
    runs_once(&scheduler, &id, &digest);
}

#[test]
fn a_scheduler_that_is_killed_during_an_upload_is_waited_for() {
    let mut scheduler = Scheduler::start(StoreKind::Sqlite);
    let (directory, digest) = directory();
    let valve = Valve::to(scheduler.port());
    let sending = client(&valve.url(), directory.path());
    valve.await_stops(1);
    scheduler.kill9();
    valve.open();
    scheduler.restart();
    runs_once(&scheduler, &id_from(sending), &digest);
}

#[test]
fn an_s3_that_is_killed_during_an_upload_is_waited_for() {
    let (server, place) = (Seaweed::start(), TempDir::with_prefix("muster-s3-").unwrap());
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, on_s3(&server, place.path()));
    let (directory, digest) = directory();
    let valve = Valve::to(scheduler.port());
    let sending = client(&valve.url(), directory.path());
    valve.await_stops(1);
    server.kill();
    valve.open();
    until("the scheduler has seen it", BOUND, || {
        scheduler
            .metric("muster_blob_operations_total{operation=\"put\",result=\"failed\"}")
            .is_some_and(|count| count > 0)
    });
    server.launch();
    runs_once(&scheduler, &id_from(sending), &digest);
}
