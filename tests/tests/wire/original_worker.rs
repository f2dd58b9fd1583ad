//! The worker of the original system, call by call: it knows no leases, sends no bodies, reads strictly.

use std::time::Duration;

use muster_tests::{Http, Response, Scheduler, Settings, StoreKind, for_each_store, id_of};
use serde_json::json;

/// Sends what that worker's HTTP library sends.
struct OriginalWorker {
    http: Http,
}

impl OriginalWorker {
    const ID: &str = "worker-1a2b3c4d";

    fn send(&self, method: &str, target: &str, body: Option<&str>) -> Response {
        let request = self.http.request(method, target);
        let request = request.header("User-Agent", "Go-http-client/1.1").header("Accept-Encoding", "gzip");
        match body {
            Some(body) => request.header("Content-Type", "application/json").body(body).send(),
            None if method == "POST" => request.header("Content-Length", "0").send(),
            None => request.send(),
        }
    }

    fn register(&self) {
        let body = format!(
            r#"{{"id":"{}","exec_addr":"","resources":{{}},"status":"","last_heartbeat":"0001-01-01T00:00:00Z","registered_at":"0001-01-01T00:00:00Z"}}"#,
            Self::ID
        );
        self.send("POST", "/workers/register", Some(&body)).expect(201);
    }

    fn claim(&self) -> Option<String> {
        let response = self.send("GET", &format!("/jobs/next?worker_id={}", Self::ID), None);
        (response.status == 200).then(|| {
            let job = response.json();
            assert_eq!(job["worker_id"], Self::ID);
            id_of(&job)
        })
    }

    fn report(&self, id: &str, report: &str) -> Response {
        self.send("POST", &format!("/jobs/{id}/{report}"), None)
    }
}

for_each_store! {
    fn a412_it_runs_retries_and_drains(store) {
        let scheduler = Scheduler::start(store);
        let worker = OriginalWorker { http: scheduler.http() };
        worker.register();
        worker.send("POST", &format!("/workers/{}/heartbeat", OriginalWorker::ID), None).expect_empty();
        assert_eq!(worker.claim(), None);
        let good = scheduler.submit("echo");
        assert_eq!(worker.claim(), Some(good.clone()));
        worker.report(&good, "heartbeat").expect_empty();
        worker.report(&good, "done").expect_empty();
        assert_eq!(scheduler.status(&good), "done");
        let bad = scheduler.submit("false");
        for _ in 0..3 {
            assert_eq!(worker.claim(), Some(bad.clone()));
            worker.report(&bad, "fail").expect_empty();
        }
        assert_eq!(scheduler.status(&bad), "failed");
        let stopped = scheduler.submit("sleep 60");
        assert_eq!(worker.claim(), Some(stopped.clone()));
        scheduler.report(&stopped, "cancel").expect(200);
        let action = worker.report(&stopped, "heartbeat").expect(200).json();
        assert_eq!(action, json!({ "action": "preempt", "preemption_epoch": 1, "preemptionEpoch": 1 }));
        worker.report(&stopped, "preempted?epoch=1").expect_empty();
        assert_eq!(scheduler.status(&stopped), "cancelled");
    }

    fn w05_after_a_reap_it_cannot_end_a_job_that_another_holds(store) {
        let settings = Settings::default().set("job-heartbeat-timeout", "400ms").set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        let worker = OriginalWorker { http: scheduler.http() };
        worker.register();
        let id = scheduler.submit("sleep 60");
        assert_eq!(worker.claim(), Some(id.clone()));
        scheduler.await_status(&id, "pending", Duration::from_secs(10));
        worker.report(&id, "heartbeat").expect_error(409, "job is not running");
        worker.report(&id, "done").expect_error(409, "job is not running");
        assert_eq!(scheduler.status(&id), "pending");
    }

    fn w05_its_late_report_does_not_end_what_a_worker_with_leases_took_over(store) {
        let settings = Settings::default().set("job-heartbeat-timeout", "2s").set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        let worker = OriginalWorker { http: scheduler.http() };
        worker.register();
        let id = scheduler.submit("sleep 60");
        let after = scheduler.submit_job(&json!({ "command": "true", "depends_on": [id] }));
        let after = id_of(&after);
        assert_eq!(worker.claim(), Some(id.clone()));
        scheduler.await_status(&id, "pending", Duration::from_secs(30));
        let taken = scheduler.claim(Some("other"));
        let lease = taken["lease"].as_u64().unwrap();
        assert_eq!(id_of(&taken), format!("{id}~{lease}"), "the name carries the lease");
        for report in ["done", "fail", "heartbeat"] {
            let refused = worker.report(&id, report).expect(409).text();
            assert!(refused.contains(&format!("?lease={lease}")), "{refused}");
        }
        assert_eq!(scheduler.status(&id), "running");
        assert_eq!(scheduler.status(&after), "blocked");
        scheduler.report(&format!("{id}~{}", lease - 1), "done").expect(409);
        scheduler.report(&id, &format!("done?lease={lease}")).expect_empty();
        scheduler.await_status(&after, "pending", Duration::from_secs(30));
    }

    fn w05_it_finishes_what_another_of_its_kind_lost(store) {
        let settings = Settings::default().set("job-heartbeat-timeout", "2s").set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        let worker = OriginalWorker { http: scheduler.http() };
        worker.register();
        let id = scheduler.submit("sleep 60");
        scheduler.claim(Some("other"));
        scheduler.await_status(&id, "pending", Duration::from_secs(30));
        let name = worker.claim().unwrap();
        assert!(name.starts_with(&format!("{id}~")), "{name}");
        worker.report(&name, "heartbeat").expect_empty();
        assert_eq!(scheduler.status(&name), "running");
        worker.report(&id, "done").expect(409);
        worker.report(&name, "done").expect_empty();
        worker.report(&name, "done").expect_empty();
        assert_eq!(scheduler.status(&id), "done");
    }

    fn w05_it_finishes_its_own_job_that_it_lost_and_took_again(store) {
        let settings = Settings::default().set("job-heartbeat-timeout", "2s").set("reaper-interval", "100ms");
        let scheduler = Scheduler::start_with(store, settings);
        let worker = OriginalWorker { http: scheduler.http() };
        worker.register();
        let id = scheduler.submit("sleep 60");
        assert_eq!(worker.claim(), Some(id.clone()));
        scheduler.await_status(&id, "pending", Duration::from_secs(30));
        assert_eq!(worker.claim(), Some(id.clone()));
        worker.report(&id, "heartbeat").expect_empty();
        worker.report(&id, "done").expect_empty();
        assert_eq!(scheduler.status(&id), "done");
    }
}

#[test]
fn it_is_known_again_after_a_restart_that_forgot_it() {
    let mut scheduler = Scheduler::start(StoreKind::Memory);
    let worker = OriginalWorker { http: scheduler.http() };
    worker.register();
    scheduler.restart();
    let worker = OriginalWorker { http: scheduler.http() };
    let beat = || worker.send("POST", &format!("/workers/{}/heartbeat", OriginalWorker::ID), None);
    beat().expect_error(404, "worker not found");
    assert_eq!(worker.claim(), None);
    beat().expect_empty();
    assert_eq!(scheduler.workers()[0]["id"], OriginalWorker::ID);
    let id = id_of(&scheduler.submit_job(&json!({ "command": "true", "resources": { "vram_mb": 100 } })));
    assert_eq!(worker.claim(), Some(id));
}
