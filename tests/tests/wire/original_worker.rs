//! The worker of the original system, call by call: it knows no leases, sends no bodies, reads strictly.

use std::time::Duration;

use muster_tests::{Http, Response, Scheduler, Settings, for_each_store, id_of};
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
}
