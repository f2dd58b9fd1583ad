//! When a job may start, how long it may take, and when it is not started at all.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use muster_tests::{Scheduler, StoreKind, eventually, for_each_store, id_of};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);

fn sync(scheduler: &Scheduler, body: &Value) -> Value {
    scheduler.http().post_json("/workers/w/sync", body).expect(200).json()
}

fn why(scheduler: &Scheduler, id: &str) -> String {
    scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json()["reasons"].to_string()
}

/// A time of the API such that later times are greater texts.
fn moment(value: &Value) -> String {
    let text = value.as_str().unwrap_or_else(|| panic!("not a time: {value}"));
    let (seconds, fraction) =
        text.trim_end_matches('Z').split_once('.').unwrap_or((text.trim_end_matches('Z'), ""));
    format!("{seconds}.{fraction:0<9}")
}

/// Claims the job as soon as it may start, and shows that this was not too early.
fn claim_when_due(scheduler: &Scheduler, id: &str) -> Value {
    let due = moment(&scheduler.job(id)["not_before"]);
    let job = eventually("the job is due", BOUND, || scheduler.try_claim(None));
    assert_eq!(id_of(&job), id);
    assert!(moment(&job["started_at"]) >= due, "{job}");
    job
}

for_each_store! {
    fn what_was_asked_for_is_shown(store) {
        let scheduler = Scheduler::start(store);
        let asked = json!({
            "command": "x", "timeout_seconds": 1.5, "grace_seconds": 7, "not_before": "2100-01-01T00:00:00Z",
            "deadline": "2101-01-01T00:00:00Z", "stop_signal": "SIGINT",
            "retry": { "initial_seconds": 0.5, "factor": 3.0, "max_seconds": 60.0, "jitter": 0.25, "exit_codes": [1, 2],
                "signals": ["SIGKILL"], "lost": false, "timeout": false, "requeue_exit_codes": [75, 99] },
        });
        let id = id_of(&scheduler.submit_job(&asked));
        let shown = scheduler.job(&id);
        for (field, value) in asked.as_object().unwrap() {
            assert_eq!(&shown[field], value, "{field} of {shown}");
        }
        let spelled = scheduler.submit_job(&json!({ "command": "x", "stop_signal": "int", "hold": true }));
        assert_eq!(spelled["stop_signal"], "SIGINT");
        assert!(spelled["held"].is_string() && spelled["status"] == "pending", "{spelled}");
        let plain = scheduler.submit_job(&json!({ "command": "x", "timeout_seconds": 0, "stop_signal": "", "not_before": "" }));
        for field in ["timeout_seconds", "not_before", "deadline", "stop_signal", "held", "retry"] {
            assert!(plain[field].is_null(), "{field} of {plain}");
        }
    }

    fn a_delayed_job_is_not_handed_out_before_its_time(store) {
        let scheduler = Scheduler::start(store);
        let far = id_of(&scheduler.submit_job(&json!({ "command": "far", "not_before": "2100-01-01T00:00:00Z" })));
        let hour = id_of(&scheduler.submit_job(&json!({ "command": "hour", "delay_seconds": 3600 })));
        assert!(scheduler.job(&hour)["not_before"].is_string());
        assert_eq!(scheduler.try_claim(None), None);
        assert!(why(&scheduler, &far).contains("2100-01-01"), "{}", why(&scheduler, &far));
        let soon = id_of(&scheduler.submit_job(&json!({ "command": "soon", "delay_seconds": 0.3 })));
        claim_when_due(&scheduler, &soon);
        let past = id_of(&scheduler.submit_job(&json!({ "command": "past", "not_before": "2000-01-01T00:00:00Z" })));
        assert_eq!(id_of(&scheduler.claim(None)), past);
        assert_eq!(scheduler.try_claim(None), None);
    }

    fn a_parked_claim_gets_the_job_when_its_time_comes(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "slots": 1 }));
        let http = scheduler.http();
        let parked =
            thread::spawn(move || http.post_json("/workers/w/sync", &json!({ "max": 1, "wait_ms": 25_000 })));
        scheduler.await_parked(1);
        let id = id_of(&scheduler.submit_job(&json!({ "command": "x", "delay_seconds": 0.3 })));
        let due = moment(&scheduler.job(&id)["not_before"]);
        let jobs = parked.join().unwrap().expect(200).json()["jobs"].clone();
        assert_eq!(jobs[0]["id"], id.as_str(), "{jobs}");
        assert!(moment(&jobs[0]["started_at"]) >= due, "{jobs}");
    }

    fn a_delay_survives_a_restart(store) {
        if store == StoreKind::Memory {
            return;
        }
        let mut scheduler = Scheduler::start(store);
        let far = id_of(&scheduler.submit_job(&json!({ "command": "far", "delay_seconds": 3600 })));
        let soon = id_of(&scheduler.submit_job(&json!({ "command": "soon", "delay_seconds": 1 })));
        let due = scheduler.job(&far)["not_before"].clone();
        scheduler.kill9();
        scheduler.restart();
        assert_eq!(scheduler.job(&far)["not_before"], due);
        let job = eventually("the job is due", BOUND, || scheduler.try_claim(None));
        assert_eq!(id_of(&job), soon);
        assert_eq!(scheduler.try_claim(None), None);
    }

    fn delayed_and_held_jobs_are_pending(store) {
        let scheduler = Scheduler::start(store);
        let plain = scheduler.submit("x");
        let held = id_of(&scheduler.submit_job(&json!({ "command": "x", "hold": true })));
        let delayed = id_of(&scheduler.submit_job(&json!({ "command": "x", "delay_seconds": 3600 })));
        scheduler.submit_job(&json!({ "command": "x", "depends_on": [plain] }));
        let list = |query: &str| -> BTreeSet<String> {
            let jobs = scheduler.http().get(&format!("/jobs?{query}")).expect(200).json();
            jobs.as_array().into_iter().flatten().map(id_of).collect()
        };
        assert_eq!(list("status=pending"), BTreeSet::from([plain.clone(), held.clone(), delayed.clone()]));
        for id in [&held, &delayed] {
            assert_eq!(scheduler.status(id), "pending");
        }
        assert_eq!(id_of(&scheduler.claim(None)), plain);
        assert_eq!(scheduler.try_claim(None), None);
        scheduler.report(&held, "unhold").expect(200);
        assert_eq!(id_of(&scheduler.claim(None)), held);
    }

    fn a_job_that_waits_past_its_deadline_fails(store) {
        let scheduler = Scheduler::start(store);
        let soon = scheduler.submit_job(&json!({ "command": "x", "delay_seconds": 0.3 }))["not_before"].clone();
        let id = id_of(&scheduler.submit_job(&json!({ "command": "x", "hold": true, "deadline": soon })));
        let job = scheduler.await_status(&id, "failed", BOUND);
        assert!(job["reason"].as_str().is_some_and(|reason| reason.contains("deadline")), "{job}");
        assert_eq!(job["attempts"], 0);
        assert!(moment(&job["done_at"]) >= moment(&soon), "{job}");
    }

    fn a_running_job_is_stopped_at_its_deadline(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "slots": 1 }));
        let later = scheduler.submit_job(&json!({ "command": "x", "hold": true, "delay_seconds": 1 }))["not_before"].clone();
        let id = id_of(&scheduler.submit_job(&json!({ "command": "x", "deadline": later, "stop_signal": "SIGUSR1" })));
        let job = sync(&scheduler, &json!({ "max": 1 }))["jobs"][0].clone();
        assert_eq!(job["id"], id.as_str());
        let lease = json!({ "job_id": id, "lease": job["lease"] });
        let order = eventually("the order to stop", BOUND, || {
            let order = sync(&scheduler, &json!({ "heartbeats": [lease], "orders": true, "wait_ms": 100 }))["stop"][0].clone();
            order.is_object().then_some(order)
        });
        assert_eq!((&order["job_id"], &order["signal"]), (&json!(id), &json!(10)), "{order}");
        sync(&scheduler, &json!({ "reports": [{ "job_id": id, "lease": job["lease"], "kind": "preempted", "exit_code": 0 }] }));
        let ended = scheduler.job(&id);
        assert_eq!((&ended["status"], &ended["reason"]), (&json!("failed"), &json!("deadline passed")), "{ended}");
    }

    fn an_attempt_over_its_time_fails_whatever_is_reported(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "w", "slots": 1 }));
        let request = json!({ "command": "x", "timeout_seconds": 0.1, "max_retries": 1 });
        let id = id_of(&scheduler.submit_job(&request));
        let job = sync(&scheduler, &json!({ "max": 1 }))["jobs"][0].clone();
        assert_eq!(job["timeout_seconds"], 0.1, "the worker must know it: {job}");
        // A worker that does nothing about it is told to.
        let lease = json!({ "job_id": id, "lease": job["lease"] });
        eventually("the order to stop", BOUND, || {
            let order = sync(&scheduler, &json!({ "heartbeats": [lease], "orders": true, "wait_ms": 100 }))["stop"][0].clone();
            (order["reason"] == "timeout").then_some(())
        });
        sync(&scheduler, &json!({ "reports": [{ "job_id": id, "lease": job["lease"], "kind": "done", "exit_code": 0 }] }));
        let ended = scheduler.job(&id);
        assert_eq!((&ended["status"], &ended["reason"]), (&json!("failed"), &json!("timeout")), "{ended}");
    }

    fn wrong_times_are_refused_with_the_name_of_the_field(store) {
        let scheduler = Scheduler::start(store);
        let cases = [
            ("timeout_seconds", json!({ "timeout_seconds": -1 })),
            ("timeout_seconds", json!({ "timeout_seconds": 1e300 })),
            ("delay_seconds", json!({ "delay_seconds": -0.5 })),
            ("not_before", json!({ "not_before": "tomorrow" })),
            ("not_before", json!({ "not_before": "2026-13-45T00:00:00Z" })),
            ("deadline", json!({ "deadline": "soon" })),
            ("stop_signal", json!({ "stop_signal": "SIGNAL" })),
            ("stop_signal", json!({ "stop_signal": "99" })),
            ("initial_seconds", json!({ "retry": { "initial_seconds": -1 } })),
            ("max_seconds", json!({ "retry": { "max_seconds": -1 } })),
            ("factor", json!({ "retry": { "initial_seconds": 1, "factor": 0.5 } })),
            ("jitter", json!({ "retry": { "jitter": 1.5 } })),
            ("exit_codes", json!({ "retry": { "exit_codes": [256] } })),
            ("signals", json!({ "retry": { "signals": ["SIGNAL"] } })),
            ("requeue_exit_codes", json!({ "retry": { "requeue_exit_codes": [-1] } })),
        ];
        for (field, mut request) in cases {
            request["command"] = json!("x");
            let response = scheduler.http().post_json("/jobs", &request);
            assert!(response.expect(400).text().contains(field), "{request}: {}", response.text());
        }
        for wrong in [json!({ "hold": "yes" }), json!({ "timeout_seconds": "1s" }), json!({ "retry": [] })] {
            let mut request = wrong;
            request["command"] = json!("x");
            scheduler.http().post_json("/jobs", &request).expect(400);
        }
        assert!(scheduler.jobs().is_empty());
    }
}
