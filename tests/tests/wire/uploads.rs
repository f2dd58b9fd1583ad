//! Uploads on the wire: what may be said, whose they are, what a break leaves, and when they go.

use std::path::Path;
use std::time::Duration;

use muster_protocol::{UploadChunk, UploadEntry, UploadManifest};
use muster_tests::{
    Response, Scheduler, Settings, StoreKind, Worker, WorkerSettings, for_each_store, id_of, until,
};
use muster_upload::{Digest, encode_frame, manifest_id};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(60);

/// An upload of one file.
fn one_file(path: &str, text: &str) -> UploadManifest {
    let entry = UploadEntry { path: path.into(), size: text.len() as u64, ..UploadEntry::default() };
    let chunk = UploadChunk { sha256: Digest::of(text.as_bytes()).to_string(), size: text.len() as u32 };
    UploadManifest { entries: vec![entry], chunks: vec![chunk] }
}

fn declare(scheduler: &Scheduler, manifest: &UploadManifest) -> Response {
    scheduler.http().post_json("/uploads", &serde_json::to_value(manifest).unwrap())
}

fn send(scheduler: &Scheduler, id: &str, text: &str) -> Response {
    let mut body = Vec::new();
    encode_frame(&Digest::of(text.as_bytes()), text.as_bytes(), &mut body);
    scheduler.http().post(&format!("/uploads/{id}/chunks"), body)
}

fn complete(scheduler: &Scheduler, id: &str) -> Response {
    scheduler.http().post(&format!("/uploads/{id}/complete"), "")
}

/// Sends one file and returns the id of the upload.
pub(crate) fn sent_file(scheduler: &Scheduler, path: &str, text: &str) -> String {
    sent(scheduler, &one_file(path, text), text)
}

fn sent(scheduler: &Scheduler, manifest: &UploadManifest, text: &str) -> String {
    let answer: Value = declare(scheduler, manifest).expect(200).json();
    let id = answer["id"].as_str().unwrap().to_owned();
    send(scheduler, &id, text).expect(204);
    assert_eq!(complete(scheduler, &id).expect(200).json()["complete"], true);
    id
}

fn missing(answer: &Value) -> usize {
    answer["missing"].as_array().map_or(0, Vec::len)
}

for_each_store! {
    fn an_upload_that_broke_off_goes_on_where_it_was(kind) {
        let mut scheduler = Scheduler::start(kind);
        let mut manifest = one_file("a", "first");
        manifest.entries.extend(one_file("b", "second").entries);
        manifest.chunks.extend(one_file("b", "second").chunks);
        let answer: Value = declare(&scheduler, &manifest).expect(200).json();
        let id = answer["id"].as_str().unwrap().to_owned();
        assert_eq!(id, manifest_id(&manifest).to_string());
        assert_eq!((missing(&answer), &answer["complete"]), (2, &json!(false)));
        send(&scheduler, &id, "second").expect(204);
        let job = json!({"command": "cat a b", "upload": id});
        let refused = scheduler.http().post_json("/jobs", &job).expect(409).text();
        assert!(refused.contains("is not complete"), "{refused}");
        if kind != StoreKind::Memory {
            scheduler.restart();
        }
        let answer: Value = declare(&scheduler, &manifest).expect(200).json();
        assert_eq!(answer["missing"], json!([0]), "{answer}");
        assert_eq!(complete(&scheduler, &id).expect(200).json()["missing"], json!([0]));
        send(&scheduler, &id, "first").expect(204);
        assert_eq!(complete(&scheduler, &id).expect(200).json()["complete"], true);
        assert_eq!(missing(&declare(&scheduler, &manifest).expect(200).json()), 0);
        let shown = scheduler.submit_job(&job);
        assert_eq!(shown["upload"], id);
    }
}

#[test]
fn what_leads_elsewhere_or_is_damaged_is_refused() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    for path in ["../x", "/etc/passwd", "a/../../x", "a//b", ""] {
        declare(&scheduler, &one_file(path, "x")).expect(400);
    }
    let mut link = one_file("l", "x");
    link.chunks.clear();
    link.entries[0] =
        serde_json::from_value(json!({"path": "l", "kind": "link", "target": "../../etc"})).unwrap();
    declare(&scheduler, &link).expect(400);
    let unknown = json!({"entries": [], "chunks": [], "owner": "me"});
    scheduler.http().post_json("/uploads", &unknown).expect(400);
    let id =
        declare(&scheduler, &one_file("a", "right")).expect(200).json()["id"].as_str().unwrap().to_owned();
    let mut body = Vec::new();
    encode_frame(&Digest::of(b"right"), b"wrong", &mut body);
    scheduler.http().post(&format!("/uploads/{id}/chunks"), &body).expect(400);
    scheduler.http().post(&format!("/uploads/{id}/chunks"), &body[..20]).expect(400);
    let nobodys = Digest::of(b"nobody's").to_string();
    send(&scheduler, &nobodys, "x").expect(404);
    complete(&scheduler, &nobodys).expect(404);
    for (field, value) in [("upload", nobodys.as_str()), ("stdin_upload", &nobodys)] {
        scheduler.http().post_json("/jobs", &json!({"command": "x", field: value})).expect(404);
    }
    scheduler.http().post_json("/jobs", &json!({"command": "x", "upload": "latest"})).expect(400);
    let absolute = json!({"command": "x", "upload": nobodys, "working_dir": "/tmp"});
    let refused = scheduler.http().post_json("/jobs", &absolute).expect(400).text();
    assert!(refused.contains("working_dir"), "{refused}");
}

#[test]
fn limits_are_said_and_kept() {
    let settings = Settings::default().set("upload-limit", "10").set("upload-files", "2");
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings.set("stdin-limit", "4"));
    let limits = scheduler.http().get("/uploads/limits").expect(200).json();
    assert_eq!(limits, json!({"bytes": 10, "entries": 2, "stdin_bytes": 4}));
    let refused = declare(&scheduler, &one_file("a", "eleven chars")).expect(413).text();
    assert!(refused.contains("at most 10"), "{refused}");
    let mut many = UploadManifest::default();
    for path in ["a", "b", "c"] {
        many.entries.push(UploadEntry { path: path.into(), ..UploadEntry::default() });
    }
    declare(&scheduler, &many).expect(413);
    scheduler.http().post_json("/jobs", &json!({"command": "cat", "stdin": "12345"})).expect(400);
    let long = sent(&scheduler, &one_file("stdin", "12345"), "12345");
    scheduler.http().post_json("/jobs", &json!({"command": "cat", "stdin_upload": long})).expect(400);
}

for_each_store! {
    fn a_text_is_the_standard_input_of_each_attempt(kind) {
        let scheduler = Scheduler::start(kind);
        let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 2));
        let job = json!({"command": "cat; exit 1", "stdin": "hello\n", "max_retries": 2});
        let id = id_of(&scheduler.submit_job(&job));
        scheduler.await_status(&id, "failed", BOUND);
        for attempt in [1, 2] {
            let output = scheduler.http().get(&format!("/jobs/{id}/logs?attempt={attempt}"));
            assert_eq!(output.expect(200).text(), "hello\n");
        }
        assert_eq!(scheduler.job(&id)["stdin"], Value::Null, "the text is not kept with the job");
    }
}

#[test]
fn a_worker_that_cannot_fetch_gets_no_job_with_inputs() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let job = json!({"command": "cat", "stdin": "hello", "max_retries": 1});
    let id = id_of(&scheduler.submit_job(&job));
    scheduler.http().get("/jobs/next?worker_id=old").expect(204);
    let shown = scheduler.job(&id);
    assert_eq!(shown["status"], "failed");
    assert!(shown["reason"].as_str().unwrap().contains("cannot fetch"), "{shown}");
}

#[test]
fn what_nothing_names_is_removed_and_what_a_job_names_stays() {
    let settings = Settings::default().set("upload-keep", "1s").set("upload-sweep-interval", "200ms");
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
    let kept = sent(&scheduler, &one_file("a", "named by a job"), "named by a job");
    let id = id_of(&scheduler.submit_job(&json!({"command": "cat a", "upload": kept, "hold": true})));
    let gone = sent(&scheduler, &one_file("b", "named by nothing"), "named by nothing");
    // Whoever asked for it would use it.
    let blobs = scheduler.backing().directory().join("data/blobs/uploads/shared");
    until("the chunk of what nothing names is gone", BOUND, || chunks(&blobs) == 1);
    complete(&scheduler, &gone).expect(404);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    scheduler.http().post(&format!("/jobs/{id}/unhold"), "").expect(200);
    scheduler.await_status(&id, "done", BOUND);
    assert_eq!(scheduler.http().get(&format!("/jobs/{id}/logs")).expect(200).text(), "named by a job");
    scheduler.http().request("DELETE", &format!("/jobs/{id}")).send().expect(204);
    until("all is gone", BOUND, || chunks(&blobs) == 0);
}

fn chunks(folder: &Path) -> usize {
    let folders = std::fs::read_dir(folder.join("chunks")).into_iter().flatten().flatten();
    folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten()).count()
}
