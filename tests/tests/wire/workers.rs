//! Registration and heartbeats of workers.

use std::time::Duration;

use muster_tests::{Scheduler, Settings, for_each_store, until};
use serde_json::json;

for_each_store! {
    fn t04_registering_twice_keeps_the_first_time(store) {
        let scheduler = Scheduler::start(store);
        // Exactly what the original worker sends, zero times and empty status included.
        let body = r#"{"id":"worker-1a2b3c4d","exec_addr":"","resources":{},"status":"","last_heartbeat":"0001-01-01T00:00:00Z","registered_at":"0001-01-01T00:00:00Z"}"#;
        let first = scheduler.http().post("/workers/register", body).expect(201).json();
        assert_eq!(first["id"], "worker-1a2b3c4d");
        assert_eq!(first["exec_addr"], "");
        assert_eq!(first["status"], "active");
        assert_eq!(first["resources"], json!({}));
        assert!(first.get("tags").is_none());
        assert!(!first["registered_at"].as_str().unwrap_or_default().starts_with("0001"), "{first}");
        let request = json!({
            "id": "worker-1a2b3c4d",
            "exec_addr": "host:9000",
            "resources": { "vram_mb": 100, "memory_mb": 200 },
            "tags": ["gpu"],
        });
        let second = scheduler.register(&request);
        assert_eq!(second["registered_at"], first["registered_at"]);
        assert_eq!(second["exec_addr"], "host:9000");
        assert_eq!(second["resources"], json!({ "vram_mb": 100, "memory_mb": 200 }));
        assert_eq!(second["tags"], json!(["gpu"]));
        let workers = scheduler.workers();
        assert_eq!(workers.len(), 1);
        assert_eq!(workers[0]["exec_addr"], "host:9000");
        assert!(workers[0]["last_heartbeat"].is_string(), "one word on a worker: {}", workers[0]);
    }

    fn a_silent_worker_goes_offline_and_a_heartbeat_brings_it_back(store) {
        let settings = Settings::default().set("worker-stale-timeout", "300ms").set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        scheduler.register(&json!({ "id": "quiet" }));
        let status = || scheduler.workers()[0]["status"].as_str().unwrap_or_default().to_owned();
        until("the worker is offline", Duration::from_secs(10), || status() == "offline");
        scheduler.http().post("/workers/quiet/heartbeat", "").expect_empty();
        assert_eq!(status(), "active");
    }

    fn no_worker_is_ever_over_committed(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "small", "resources": { "memory_mb": 100, "vram_mb": 50 } }));
        for _ in 0..4 {
            scheduler.submit_job(&json!({ "command": "true", "resources": { "memory_mb": 40 } }));
        }
        let first = scheduler.claim(Some("small"));
        assert_eq!(first["worker_id"], "small");
        scheduler.claim(Some("small"));
        assert!(scheduler.try_claim(Some("small")).is_none(), "two jobs of 40 MB leave no room for a third in 100");
        scheduler.report(first["id"].as_str().unwrap_or_default(), "done").expect_empty();
        scheduler.claim(Some("small"));
        assert!(scheduler.try_claim(Some("small")).is_none());
    }

    fn work_that_cannot_fit_never_hides_work_that_can(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "big", "resources": { "memory_mb": 1000 } }));
        scheduler.register(&json!({ "id": "small", "resources": { "memory_mb": 100 } }));
        for _ in 0..50 {
            let large = json!({ "command": "large", "priority": 5, "resources": { "memory_mb": 900 } });
            scheduler.submit_job(&large);
        }
        let tagged = json!({ "command": "tagged", "priority": 5, "tags": ["gpu"] });
        scheduler.submit_job(&tagged);
        scheduler.submit_job(&json!({ "command": "fits", "resources": { "memory_mb": 100 } }));
        assert_eq!(scheduler.claim(Some("small"))["command"], "fits");
        assert_eq!(scheduler.claim(Some("big"))["command"], "large");
    }
}
