//! `POST /workers/{id}/sync`: reports, heartbeats, claims and stop orders in one request.

use std::thread;

use muster_tests::{Scheduler, for_each_store, lease_of};
use serde_json::{Value, json};

fn sync(scheduler: &Scheduler, body: &Value) -> Value {
    scheduler.http().post_json("/workers/w/sync", body).expect(200).json()
}

fn report(job: &Value, kind: &str) -> Value {
    json!({ "job_id": job["id"], "lease": job["lease"], "kind": kind })
}

for_each_store! {
    fn one_request_reports_beats_and_claims(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "slots": 4 }));
        for number in 0..4 {
            scheduler.submit(&format!("job {number}"));
        }
        let first = sync(&scheduler, &json!({ "max": 3 }));
        let jobs = first["jobs"].as_array().cloned().unwrap_or_default();
        assert_eq!(jobs.len(), 3, "{first}");
        assert!(first["lease_ttl_ms"].as_u64().is_some_and(|ttl| ttl > 0), "{first}");
        assert!(jobs.iter().all(|job| job["status"] == "running" && job["worker_id"] == "w"));
        let second = sync(&scheduler, &json!({
            "reports": [report(&jobs[0], "done"), report(&jobs[1], "released")],
            "heartbeats": [{ "job_id": jobs[2]["id"], "lease": jobs[2]["lease"] }, { "job_id": "job-nobody", "lease": 1 }],
            "max": 0,
        }));
        let statuses: Vec<&Value> = second["results"].as_array().into_iter().flatten().map(|result| &result["status"]).collect();
        assert_eq!(statuses, [&json!(200), &json!(200), &json!(200), &json!(404)], "{second}");
        let status = |job: &Value| scheduler.status(job["id"].as_str().unwrap_or_default());
        assert_eq!([status(&jobs[0]), status(&jobs[1]), status(&jobs[2])], ["done", "pending", "running"]);
    }

    fn a_report_under_a_lost_lease_is_refused_alone(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w" }));
        scheduler.submit("a");
        scheduler.submit("b");
        let jobs = sync(&scheduler, &json!({ "max": 2 }))["jobs"].clone();
        let stale = json!({ "job_id": jobs[0]["id"], "lease": lease_of(&jobs[0]) + 7, "kind": "done" });
        let answer = sync(&scheduler, &json!({ "reports": [stale, report(&jobs[1], "done")] }));
        assert_eq!((&answer["results"][0]["status"], &answer["results"][1]["status"]), (&json!(409), &json!(200)));
        let repeated = sync(&scheduler, &json!({ "reports": [report(&jobs[1], "done")] }));
        assert_eq!(repeated["results"][0]["status"], 200, "a repeated report is answered as the first");
    }

    fn a_parked_sync_is_woken_by_a_stop_order(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "slots": 1 }));
        let id = scheduler.submit("sleep 60");
        let jobs = sync(&scheduler, &json!({ "max": 1 }))["jobs"].clone();
        let http = scheduler.http();
        let request = json!({ "wait_ms": 60_000, "orders": true });
        let parked = thread::spawn(move || http.post_json("/workers/w/sync", &request));
        scheduler.await_parked(1);
        scheduler.report(&id, "cancel").expect(200);
        let order = parked.join().unwrap().expect(200).json()["stop"][0].clone();
        assert_eq!((&order["job_id"], &order["lease"]), (&json!(id), &jobs[0]["lease"]), "{order}");
        assert_eq!(order["preemption_epoch"], 1);
        sync(&scheduler, &json!({ "reports": [report(&jobs[0], "preempted")] }));
        assert_eq!(scheduler.status(&id), "cancelled");
    }

    fn an_unregistered_worker_is_told_so(store) {
        let scheduler = Scheduler::start(store);
        scheduler.http().post_json("/workers/nobody/sync", &json!({ "max": 1 })).expect_error(404, "worker not found");
    }
}
