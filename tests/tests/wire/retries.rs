//! What follows a failed attempt: another one, a free one, a later one, or the end.

use std::time::Duration;

use muster_tests::{Scheduler, eventually, for_each_store, id_of};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);

/// Claims the one job there is and reports how its attempt ended.
fn attempt(scheduler: &Scheduler, report: &Value) -> Value {
    let claimed = sync(scheduler, &json!({ "max": 1 }));
    let job = &claimed["jobs"][0];
    assert!(job["id"].is_string(), "nothing to claim: {claimed}");
    let mut report = report.clone();
    (report["job_id"], report["lease"]) = (job["id"].clone(), job["lease"].clone());
    let answer = sync(scheduler, &json!({ "reports": [report] }));
    assert_eq!(answer["results"][0]["status"], 200, "{answer}");
    scheduler.job(&id_of(job))
}

fn sync(scheduler: &Scheduler, body: &Value) -> Value {
    scheduler.http().post_json("/workers/w/sync", body).expect(200).json()
}

fn exit(code: i32) -> Value {
    json!({ "kind": "failed", "exit_code": code })
}

fn signal(number: i32) -> Value {
    json!({ "kind": "failed", "signal": number })
}

/// A scheduler with a worker and one job.
fn with_job(store: muster_tests::StoreKind, request: &Value) -> Scheduler {
    let scheduler = Scheduler::start(store);
    scheduler.register(&json!({ "id": "w", "slots": 1 }));
    let mut request = request.clone();
    request["command"] = json!("x");
    scheduler.submit_job(&request);
    scheduler
}

for_each_store! {
    fn exit_code_75_asks_for_another_attempt_that_is_not_counted(store) {
        let scheduler = with_job(store, &json!({ "max_retries": 1 }));
        for _ in 0..4 {
            let job = attempt(&scheduler, &exit(75));
            assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(0)), "{job}");
        }
        let job = attempt(&scheduler, &exit(76));
        assert_eq!((&job["status"], &job["attempts"], &job["reason"]), (&json!("failed"), &json!(1), &json!("exit code 76")));
    }

    fn the_codes_that_ask_for_it_can_be_chosen(store) {
        let scheduler = with_job(store, &json!({ "max_retries": 1, "retry": { "requeue_exit_codes": [3] } }));
        assert_eq!(attempt(&scheduler, &exit(3))["status"], "pending");
        assert_eq!(attempt(&scheduler, &exit(75))["status"], "failed");
    }

    fn only_the_listed_causes_are_worth_another_attempt(store) {
        let retry = json!({ "exit_codes": [7], "signals": ["SIGKILL"], "timeout": false });
        let request = json!({ "max_retries": 5, "retry": retry });
        for ending in [exit(8), signal(15), json!({ "kind": "timed_out", "signal": 9 })] {
            let scheduler = with_job(store, &request);
            for worth in [exit(7), signal(9)] {
                assert_eq!(attempt(&scheduler, &worth)["status"], "pending", "{worth}");
            }
            let job = attempt(&scheduler, &ending);
            assert_eq!((&job["status"], &job["attempts"]), (&json!("failed"), &json!(3)), "{ending}: {job}");
        }
    }

    fn a_timeout_is_retried_like_a_failure_and_ends_with_its_reason(store) {
        let scheduler = with_job(store, &json!({ "max_retries": 2, "timeout_seconds": 60 }));
        let timed_out = json!({ "kind": "timed_out", "exit_code": 0 });
        assert_eq!(attempt(&scheduler, &timed_out)["status"], "pending");
        let job = attempt(&scheduler, &timed_out);
        assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("timeout")), "{job}");
    }

    fn a_back_off_holds_the_next_attempt_back(store) {
        let scheduler = with_job(store, &json!({ "retry": { "initial_seconds": 3600 } }));
        let job = attempt(&scheduler, &exit(1));
        assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(1)));
        assert!(job["not_before"].is_string(), "{job}");
        let id = id_of(&job);
        assert_eq!(scheduler.try_claim(None), None);
        let why = scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json();
        assert!(!why["reasons"].as_array().unwrap().is_empty(), "{why}");
        scheduler.report(&id, "cancel").expect(200);
        assert_eq!(scheduler.status(&id), "cancelled");
    }

    fn the_next_attempt_comes_when_the_back_off_is_over(store) {
        let retry = json!({ "initial_seconds": 0.2, "factor": 2.0, "max_seconds": 0.3 });
        let scheduler = with_job(store, &json!({ "max_retries": 3, "retry": retry }));
        let mut job = attempt(&scheduler, &exit(1));
        for _ in 0..2 {
            let id = id_of(&job);
            let claimed = eventually("the back-off is over", BOUND, || {
                let jobs = sync(&scheduler, &json!({ "max": 1 }))["jobs"].clone();
                jobs[0].is_object().then(|| jobs[0].clone())
            });
            assert_eq!(id_of(&claimed), id);
            let report = json!({ "job_id": id, "lease": claimed["lease"], "kind": "failed", "exit_code": 1 });
            sync(&scheduler, &json!({ "reports": [report] }));
            job = scheduler.job(&id);
        }
        assert_eq!((&job["status"], &job["attempts"]), (&json!("failed"), &json!(3)), "{job}");
    }

    fn stops_made_by_the_scheduler_cost_no_attempt(store) {
        let scheduler = with_job(store, &json!({ "max_retries": 1 }));
        for _ in 0..3 {
            let job = attempt(&scheduler, &json!({ "kind": "released" }));
            assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(0)), "{job}");
        }
        assert_eq!(attempt(&scheduler, &json!({ "kind": "done", "exit_code": 0 }))["status"], "done");
    }

    fn outputs_are_kept_and_handed_on(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "slots": 1 }));
        let batch = json!([{ "ref": "load", "name": "load-data", "command": "x" }, { "command": "y", "depends_on": ["load"] }]);
        scheduler.http().post_json("/jobs/batch", &batch).expect(201);
        let outputs = json!({ "rows": "5", "best": { "epoch": 3 }, "odd": "a\u{0}b" });
        let first = attempt(&scheduler, &json!({ "kind": "done", "exit_code": 0, "outputs": outputs }));
        assert_eq!(first["outputs"], outputs);
        let claimed = sync(&scheduler, &json!({ "max": 1 }))["jobs"][0].clone();
        let env = &claimed["env"];
        assert_eq!(env["MUSTER_NEEDS_LOAD_DATA_ROWS"], "5", "{claimed}");
        assert_eq!(env["MUSTER_NEEDS_LOAD_DATA_BEST"], "{\"epoch\":3}");
        assert!(env["MUSTER_NEEDS_LOAD_DATA_ODD"].is_null(), "no variable can hold a NUL");
    }

    fn outputs_that_are_too_large_or_no_object_are_left_out(store) {
        for outputs in [json!("text"), json!([1]), json!({ "x": "y".repeat(70_000) })] {
            let scheduler = with_job(store, &json!({}));
            let job = attempt(&scheduler, &json!({ "kind": "done", "exit_code": 0, "outputs": outputs }));
            assert_eq!((&job["status"], &job["outputs"]), (&json!("done"), &Value::Null));
        }
    }
}
