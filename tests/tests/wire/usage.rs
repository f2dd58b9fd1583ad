//! `GET /usage`, `GET /jobs/{id}/attempts` and `usage` of a job: what workers said that attempts used.

use muster_tests::{Scheduler, for_each_store};
use serde_json::{Value, json};

fn sync(scheduler: &Scheduler, body: &Value) -> Value {
    scheduler.http().post_json("/workers/w/sync", body).expect(200).json()
}

/// Takes a job and ends it so, with this CPU time.
fn attempt(scheduler: &Scheduler, kind: &str, cpu_ms: u64) {
    let job = sync(scheduler, &json!({ "max": 1 }))["jobs"][0].clone();
    let usage = json!({ "cpu_user_ms": cpu_ms, "peak_memory_bytes": 1 << 20 });
    let report =
        json!({ "job_id": job["id"], "lease": job["lease"], "kind": kind, "exit_code": 1, "usage": usage });
    let answer = sync(scheduler, &json!({ "reports": [report] }));
    assert_eq!(answer["results"][0]["status"], 200, "{answer}");
}

fn usage(scheduler: &Scheduler, query: &str) -> Value {
    scheduler.http().get(&format!("/usage?{query}")).expect(200).json()
}

for_each_store! {
    fn usage_is_shown_with_the_job_its_attempts_and_in_sums(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "resources": { "cpus": 4, "memory_mb": 1000 } }));
        let resources = json!({ "cpus": 2, "memory_mb": 4 });
        let body = json!({ "command": "x", "name": "n", "user": "ann", "queue_name": "q", "resources": resources });
        let id = scheduler.submit_job(&body)["id"].as_str().unwrap().to_owned();
        attempt(&scheduler, "failed", 5);
        attempt(&scheduler, "done", 7);
        let job = scheduler.http().get(&format!("/jobs/{id}")).expect(200).json();
        assert_eq!(job["usage"]["last"]["cpu_user_ms"], 7, "{job}");
        assert_eq!(job["usage"]["total"]["cpu_user_ms"], 12, "{job}");
        assert_eq!(job["usage"]["memory_efficiency"], 0.25, "{job}");

        let attempts = scheduler.http().get(&format!("/jobs/{id}/attempts")).expect(200).json();
        let shown = |at: usize| [&attempts[at]["outcome"], &attempts[at]["usage"]["cpu_user_ms"], &attempts[at]["worker_id"]];
        assert_eq!(shown(0), [&json!("failed"), &json!(5), &json!("w")], "{attempts}");
        assert_eq!(shown(1), [&json!("done"), &json!(7), &json!("w")], "{attempts}");
        assert_eq!(attempts[0]["requested"]["cpus"], 2.0, "{attempts}");
        scheduler.http().get("/jobs/job-nobody/attempts").expect(404);

        for (by, key, value) in
            [("user", "user", "ann"), ("queue", "queue_name", "q"), ("name", "name", "n"), ("job", "job_id", id.as_str())]
        {
            let report = usage(&scheduler, &format!("by={by}"));
            assert_eq!(report["rows"].as_array().map(Vec::len), Some(1), "{report}");
            assert_eq!(report["rows"][0][key], value, "{report}");
            assert_eq!(report["rows"][0]["attempts"], 2, "{report}");
            assert_eq!(report["total"]["cpu_seconds"], 0.012, "{report}");
            assert_eq!(report["complete"], true, "{report}");
        }
        assert!(usage(&scheduler, "by=day")["rows"][0]["day"].is_string());
        assert_eq!(usage(&scheduler, "user=bob")["rows"], json!([]));
        assert_eq!(usage(&scheduler, "since=2020-01-01T00:00:00Z&until=2021-01-01T00:00:00Z")["rows"], json!([]));
        for wrong in ["by=x", "since=yesterday", "since=1h&until=2h"] {
            scheduler.http().get(&format!("/usage?{wrong}")).expect(400);
        }
        let page = scheduler.http().get("/metrics").text();
        assert!(page.contains("muster_usage_attempts_total{queue=\"q\"} 2\n"), "{page}");
        assert!(page.contains("muster_usage_cpu_seconds_total{queue=\"q\"} 0.012\n"), "{page}");
    }
}
