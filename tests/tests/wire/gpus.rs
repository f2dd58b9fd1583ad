//! GPUs with real processes: a worker with made-up devices, and jobs that say which of them they see.

use std::time::Duration;

use muster_tests::{Backing, Scheduler, Settings, StoreKind, Worker, WorkerSettings, id_of, until};
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(60);

/// Says what it sees and stays until the file is there.
fn waiting(go: &TempDir, more: &Value) -> Value {
    let file = go.path().join("go");
    let command = format!(
        "printf '{{\"cuda\":\"%s\",\"share\":\"%s\"}}' \"$CUDA_VISIBLE_DEVICES\" \"$MUSTER_GPU_VRAM_MB\" > \
         \"$MUSTER_OUTPUT\"; while [ ! -e '{}' ]; do sleep 0.05; done",
        file.display()
    );
    let mut request = json!({ "command": command });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

fn devices(scheduler: &Scheduler, id: &str) -> Value {
    scheduler.job(id)["devices"].clone()
}

#[test]
fn jobs_see_their_own_gpus_and_a_restart_changes_nothing() {
    let backing = Backing::new(StoreKind::Sqlite);
    let mut scheduler = Scheduler::start_on(&backing, Settings::default());
    let settings = WorkerSettings::new("gpu", 8).set("gpus", "3x80g").set("labels", "rack=a");
    let _worker = Worker::start(&scheduler, settings);
    let go = TempDir::new().unwrap();
    let submit = |scheduler: &Scheduler, more: Value| id_of(&scheduler.submit_job(&waiting(&go, &more)));
    let whole = submit(&scheduler, json!({"resources": {"gpus": 1}}));
    scheduler.await_status(&whole, "running", BOUND);
    let shares: Vec<String> = (0..2)
        .map(|_| {
            let id = submit(&scheduler, json!({"resources": {"vram_mb": 20480}}));
            scheduler.await_status(&id, "running", BOUND);
            id
        })
        .collect();
    let none = submit(&scheduler, json!({}));
    scheduler.await_status(&none, "running", BOUND);
    assert_eq!(devices(&scheduler, &whole), json!([{"index": 0}]));
    for share in &shares {
        assert_eq!(devices(&scheduler, share), json!([{"index": 1, "vram_mb": 20480}]), "packed on one");
    }
    scheduler.restart();
    let third = submit(&scheduler, json!({"resources": {"gpus": 1}}));
    scheduler.await_status(&third, "running", BOUND);
    assert_eq!(devices(&scheduler, &third), json!([{"index": 2}]), "the others are still held");
    let alone = submit(&scheduler, json!({"exclusive": true}));
    let fourth = submit(&scheduler, json!({"resources": {"gpus": 1}}));
    let shown = scheduler.workers();
    assert_eq!((&shown[0]["labels"]["rack"], &shown[0]["gpus"][1]["used_mb"]), (&json!("a"), &json!(40960)));
    assert_eq!((scheduler.status(&alone), scheduler.status(&fourth)), ("pending".into(), "pending".into()));
    std::fs::write(go.path().join("go"), "").unwrap();
    for id in [&whole, &none, &third, &alone, &fourth].into_iter().chain(&shares) {
        scheduler.await_status(id, "done", BOUND);
    }
    let seen = |id: &str| scheduler.job(id)["outputs"].clone();
    assert_eq!(seen(&whole), json!({"cuda": "0", "share": ""}));
    assert_eq!(seen(&third), json!({"cuda": "2", "share": ""}));
    assert_eq!(seen(&shares[0]), json!({"cuda": "1", "share": "20480"}));
    assert_eq!(seen(&none), json!({"cuda": "", "share": ""}), "a job without GPUs sees none");
    until("all devices are idle", BOUND, || scheduler.workers()[0]["gpus"][1]["used_mb"] == 0);
}

#[test]
fn a_registration_that_only_counts_still_works() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let old = json!({"id": "old", "exec_addr": "", "resources": {"gpus": 2, "vram_mb": 100}});
    let known = scheduler.register(&old);
    assert_eq!((&known["resources"]["gpus"], &known["gpus"]), (&json!(2), &Value::Null));
    scheduler.submit_job(&json!({"command": "x", "resources": {"gpus": 1, "vram_mb": 60}}));
    let claimed = scheduler.claim(Some("old"));
    assert_eq!(claimed["devices"], Value::Null);
    scheduler.submit_job(&json!({"command": "x", "resources": {"vram_mb": 41}}));
    assert!(scheduler.try_claim(Some("old")).is_none(), "60 of 100 are taken");
}
