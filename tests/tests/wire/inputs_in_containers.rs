//! What a job in a container finds: the copy of an upload, its standard input, artifacts of needed jobs.

use std::fs;
use std::time::Duration;

use muster_tests::{ContainerEngine, IMAGE, Scheduler, StoreKind, Worker, WorkerSettings, id_of, until};
use muster_upload::Digest;
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(90);

fn worker(scheduler: &Scheduler) -> Worker {
    let socket = ContainerEngine::shared().socket().to_string_lossy().into_owned();
    let settings = WorkerSettings::new("w", 2).set("containers", "docker").set("container-socket", &socket);
    Worker::start(scheduler, settings)
}

/// Runs a job in a container to its end, and returns what it wrote.
fn output(scheduler: &Scheduler, command: &str, fields: &Value) -> String {
    let mut body = json!({"command": command, "image": IMAGE, "max_retries": 1});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let id = id_of(&scheduler.submit_job(&body));
    scheduler.await_status(&id, "done", BOUND);
    scheduler.http().get(&format!("/jobs/{id}/logs")).expect(200).text()
}

#[test]
fn a_container_finds_all_that_a_process_finds() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let worker = worker(&scheduler);
    let read = |command: &str, fields: Value| output(&scheduler, command, &fields);
    assert_eq!(read("cat; echo over", json!({"stdin": "one\ntwo"})), "one\ntwoover\n");
    let long = "\0\u{e4}\n".repeat(450_000);
    let sent = crate::uploads::sent_file(&scheduler, "stdin", &long);
    let digest = format!("{}  -\n", Digest::of(long.as_bytes()));
    assert_eq!(read("sha256sum", json!({"stdin_upload": sent})), digest, "all bytes come, and their end");
    assert_eq!(
        read("head -c 2 | wc -c", json!({"stdin_upload": sent})).trim(),
        "2",
        "what is not read holds nothing up"
    );
    let first =
        id_of(&scheduler.submit_job(&json!({"command": "echo raw > /output/raw.csv", "image": IMAGE})));
    let inputs = json!({"depends_on": [first], "inputs": [{"from": first, "path": "raw.csv"}]});
    assert_eq!(read("echo $MUSTER_INPUTS; cat /inputs/raw.csv", inputs), "/inputs\nraw\n");
    let upload = crate::uploads::sent_file(&scheduler, "src/run.sh", "cat raw.csv; pwd");
    let both = json!({"depends_on": [first], "inputs": [{"from": first, "path": "raw.csv"}], "upload": upload,
        "working_dir": "src", "container": {"user": "1234", "read_only": true}});
    let command = "echo $MUSTER_INPUTS; sh run.sh; mkdir made; echo x > made/by-root; echo y >> run.sh; ls";
    assert_eq!(read(command, both), "/workspace/src\nraw\n/workspace/src\nmade\nraw.csv\nrun.sh\n");
    let patterns = json!({"upload": upload, "working_dir": "src", "artifacts": ["*.txt", "made/**"]});
    let command = "echo kept > a.txt; mkdir made; echo too > made/b; ln -s /etc/passwd out.txt; ln -s a.txt link.txt; echo not > c";
    let mut body = json!({"command": command, "image": IMAGE});
    body.as_object_mut().unwrap().extend(patterns.as_object().unwrap().clone());
    let id = id_of(&scheduler.submit_job(&body));
    scheduler.await_status(&id, "done", BOUND);
    let listed = scheduler.http().get(&format!("/jobs/{id}/artifacts")).expect(200).json();
    let artifacts = listed["artifacts"].as_array().unwrap().iter();
    let (missing, kept): (Vec<_>, Vec<_>) = artifacts.partition(|artifact| artifact["missing"].is_string());
    let names =
        |artifacts: &[&Value]| artifacts.iter().map(|artifact| artifact["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&kept), ["a.txt", "link.txt", "made/b"], "{listed}");
    assert_eq!(names(&missing), ["out.txt"], "what leads out is not kept: {listed}");
    let rooms = worker.directory().join("rooms");
    until("nothing is left", BOUND, || fs::read_dir(&rooms).unwrap().next().is_none());
    let attempts = || fs::read_dir(worker.directory().join("attempts")).unwrap().count();
    until("no file of an attempt is left", BOUND, || attempts() == 0);
}
