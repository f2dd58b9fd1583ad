//! What people do to jobs and queues: hold, change, retry, delete, in ones and in bulk; pauses, rates, bounds, keys.

use muster_tests::{Scheduler, Settings, for_each_store, id_of, lease_of};
use serde_json::{Value, json};

fn bulk(scheduler: &Scheduler, verb: &str, filter: &Value) -> Value {
    scheduler.http().post_json(&format!("/jobs/bulk/{verb}"), filter).expect(200).json()
}

fn codes(scheduler: &Scheduler, id: &str) -> Vec<String> {
    let why = scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json();
    let reasons = why["reasons"].as_array().unwrap();
    assert!(!reasons.is_empty(), "never an empty answer: {why}");
    reasons.iter().filter_map(|reason| reason["code"].as_str().map(str::to_owned)).collect()
}

fn set_queue(scheduler: &Scheduler, name: &str, update: &Value) -> Value {
    let request = scheduler.http().request("PUT", &format!("/queues/{name}"));
    request.header("Content-Type", "application/json").body(update.to_string()).send().expect(200).json()
}

for_each_store! {
    fn a_held_job_waits_and_says_why(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("x");
        let held = scheduler.http().post(&format!("/jobs/{id}/hold?message=data"), "").expect(200).json();
        assert_eq!((&held["status"], &held["held"]), (&json!("pending"), &json!("held: data")));
        assert!(scheduler.try_claim(None).is_none());
        assert_eq!(codes(&scheduler, &id), ["held"]);
        let let_go = scheduler.http().post(&format!("/jobs/{id}/unhold"), "").expect(200).json();
        assert!(let_go["held"].is_null());
        assert_eq!(id_of(&scheduler.claim(None)), id);
        scheduler.http().post(&format!("/jobs/{id}/hold"), "").expect(409);
    }

    fn a_waiting_job_is_changed(store) {
        let scheduler = Scheduler::start(store);
        let (first, second) = (scheduler.submit("a"), scheduler.submit("b"));
        let patch = |id: &str, body: &Value| {
            scheduler.http().request("PATCH", &format!("/jobs/{id}")).body(body.to_string()).send()
        };
        let edited = patch(&second, &json!({"priority": 7, "resources": {"cpus": 1}, "timeout_seconds": 5})).expect(200).json();
        assert_eq!((&edited["priority"], &edited["timeout_seconds"]), (&json!(7), &json!(5.0)));
        assert_eq!(id_of(&scheduler.claim(None)), second, "the change decides the order");
        patch(&second, &json!({"priority": 1})).expect(409);
        patch(&first, &json!({"max_retries": 0})).expect(400);
    }

    fn retry_and_delete_are_for_ended_jobs(store) {
        let scheduler = Scheduler::start(store);
        let id = id_of(&scheduler.submit_job(&json!({"command": "x", "max_retries": 1})));
        scheduler.http().post(&format!("/jobs/{id}/retry"), "").expect(409);
        scheduler.http().request("DELETE", &format!("/jobs/{id}")).send().expect(409);
        let job = scheduler.claim(None);
        scheduler.report_under(lease_of(&job), &id, "fail?exit_code=3").expect(200);
        assert_eq!(scheduler.status(&id), "failed");
        scheduler.http().post(&format!("/jobs/{id}/retry"), "").expect(200);
        let again = scheduler.claim(None);
        assert!(lease_of(&again) > lease_of(&job));
        scheduler.report_under(lease_of(&again), &id, "done").expect(200);
        scheduler.http().request("DELETE", &format!("/jobs/{id}")).send().expect(204);
        scheduler.http().get(&format!("/jobs/{id}")).expect(404);
    }

    fn many_jobs_are_changed_by_a_filter(store) {
        let scheduler = Scheduler::start(store);
        for queue in ["a", "a", "b"] {
            scheduler.submit_job(&json!({"command": "x", "queue_name": queue, "max_retries": 1}));
        }
        let dry = bulk(&scheduler, "hold", &json!({"queue": "a", "dry_run": true}));
        assert_eq!((dry["changed"].as_array().unwrap().len(), &dry["dry_run"]), (2, &json!(true)));
        assert_eq!(bulk(&scheduler, "hold", &json!({"queue": "a"}))["changed"].as_array().unwrap().len(), 2);
        assert_eq!(scheduler.claim(None)["queue_name"], "b");
        assert!(scheduler.try_claim(None).is_none());
        assert_eq!(bulk(&scheduler, "release", &json!({"queue": "a"}))["changed"].as_array().unwrap().len(), 2);
        assert_eq!(bulk(&scheduler, "cancel", &json!({"status": ["pending"]}))["changed"].as_array().unwrap().len(), 2);
        assert_eq!(bulk(&scheduler, "retry", &json!({"status": ["cancelled"]}))["changed"].as_array().unwrap().len(), 2);
        let ids: Vec<String> = scheduler.jobs().iter().map(id_of).collect();
        let mixed = bulk(&scheduler, "delete", &json!({"ids": ids}));
        assert_eq!(mixed["refused"].as_object().unwrap().len(), 3, "{mixed}");
        scheduler.http().post_json("/jobs/bulk/cancel", &json!({})).expect(400);
        scheduler.http().post_json("/jobs/bulk/explode", &json!({"queue": "a"})).expect(404);
    }

    fn a_cancel_can_be_tried_first(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("x");
        let second = id_of(&scheduler.submit_job(&json!({"command": "y", "depends_on": [first]})));
        let dry = scheduler.http().post(&format!("/jobs/{first}/cancel?dry_run=true"), "").expect(200).json();
        assert_eq!(dry, json!({"cancelled": [first, second], "stopping": []}));
        assert_eq!(scheduler.status(&first), "pending");
    }

    fn a_paused_queue_starts_nothing_until_it_is_resumed(store) {
        let scheduler = Scheduler::start(store);
        let paused = set_queue(&scheduler, "night", &json!({"paused": true}));
        assert_eq!((&paused["name"], &paused["paused"]), (&json!("night"), &json!(true)));
        let id = id_of(&scheduler.submit_job(&json!({"command": "x", "queue_name": "night"})));
        let other = scheduler.submit("y");
        assert_eq!(id_of(&scheduler.claim(None)), other);
        assert!(scheduler.try_claim(None).is_none());
        assert!(codes(&scheduler, &id).contains(&"queue_paused".to_owned()));
        let queues = scheduler.http().get("/queues").expect(200).json();
        let night = queues.as_array().unwrap().iter().find(|queue| queue["name"] == "night").unwrap();
        assert_eq!((&night["queued"], &night["running"]), (&json!(1), &json!(0)));
        set_queue(&scheduler, "night", &json!({"paused": false}));
        assert_eq!(id_of(&scheduler.claim(None)), id);
    }

    fn a_rate_lets_so_many_start(store) {
        let scheduler = Scheduler::start(store);
        set_queue(&scheduler, "slow", &json!({"rate": {"starts": 2, "seconds": 3600}}));
        for _ in 0..3 {
            scheduler.submit_job(&json!({"command": "x", "queue_name": "slow"}));
        }
        scheduler.claim(None);
        scheduler.claim(None);
        assert!(scheduler.try_claim(None).is_none());
        let waiting = scheduler.jobs().into_iter().find(|job| job["status"] == "pending").unwrap();
        assert!(codes(&scheduler, &id_of(&waiting)).contains(&"rate_limited".to_owned()));
        set_queue(&scheduler, "slow", &json!({"rate": null}));
        scheduler.claim(None);
    }

    fn a_full_queue_turns_submits_away_with_the_numbers(store) {
        let scheduler = Scheduler::start(store);
        set_queue(&scheduler, "small", &json!({"max_queued": 2}));
        let submit = |count: usize| {
            let jobs = vec![json!({"command": "x", "queue_name": "small"}); count];
            scheduler.http().post_json("/jobs/batch", &json!(jobs))
        };
        submit(2).expect(201);
        let refused = scheduler.http().post_json("/jobs", &json!({"command": "x", "queue_name": "small"}));
        refused.expect(429);
        assert!(refused.header("retry-after").is_some());
        assert!(refused.text().contains("small") && refused.text().contains("2 jobs wait"), "{}", refused.text());
        scheduler.submit("another queue");
        scheduler.claim(None);
        // The room that was made is seen at the next count, which is not far away.
        muster_tests::until("the queue takes another job", std::time::Duration::from_secs(20), || {
            submit(1).status == 201
        });
        submit(1).expect(429);
    }

    fn all_queues_together_are_bounded(store) {
        let scheduler = Scheduler::start_with(store, Settings::default().set("max-queued", "3"));
        scheduler.http().post_json("/arrays", &json!({"command": "x", "indices": "0-9"})).expect(429);
        scheduler.http().post_json("/arrays", &json!({"command": "x", "indices": "0-2"})).expect(201);
        let refused = scheduler.http().post_json("/jobs", &json!({"command": "x"}));
        assert!(refused.expect(429).text().contains("at most 3"), "{}", refused.text());
    }

    fn a_unique_key_has_one_unfinished_job(store) {
        let scheduler = Scheduler::start(store);
        let body = json!({"command": "x", "unique": {"key": "nightly"}});
        let first = scheduler.http().post_json("/jobs", &body).expect(201).json();
        let second = scheduler.http().post_json("/jobs", &body).expect(200).json();
        assert_eq!(id_of(&first), id_of(&second));
        let replacing = json!({"command": "z", "unique": {"key": "nightly", "on_conflict": "replace"}});
        let third = scheduler.http().post_json("/jobs", &replacing).expect(201).json();
        assert_eq!(scheduler.status(&id_of(&first)), "cancelled");
        assert_eq!(id_of(&scheduler.claim(None)), id_of(&third));
        let wrong = json!({"command": "x", "unique": {"key": "k", "on_conflict": "explode"}});
        scheduler.http().post_json("/jobs", &wrong).expect(400);
    }

    fn a_quarantined_worker_is_shown_and_released(store) {
        let scheduler = Scheduler::start(store);
        for worker in ["good", "bad"] {
            scheduler.register(&json!({"id": worker, "exec_addr": "x:1"}));
        }
        let run = |worker: &str, report: Value| {
            scheduler.submit_job(&json!({"command": "x", "max_retries": 1}));
            let job = scheduler.claim(Some(worker));
            let mut report = report;
            report["job_id"] = json!(id_of(&job));
            report["lease"] = json!(lease_of(&job));
            let sync = json!({"reports": [report], "max": 0, "wait_ms": 0});
            scheduler.http().post_json(&format!("/workers/{worker}/sync"), &sync).expect(200);
        };
        run("good", json!({"kind": "done", "exit_code": 0}));
        for _ in 0..5 {
            run("bad", json!({"kind": "failed", "exit_code": 127, "message": "no such file"}));
        }
        let shown = scheduler.workers().into_iter().find(|worker| worker["id"] == "bad").unwrap();
        let evidence = shown["quarantine"]["evidence"].as_array().unwrap();
        assert_eq!(evidence.len(), 5);
        assert!(evidence[0].as_str().unwrap().contains("no such file"), "{shown}");
        let id = scheduler.submit("x");
        assert!(scheduler.try_claim(Some("bad")).is_none());
        assert!(codes(&scheduler, &id).contains(&"quarantine".to_owned()));
        scheduler.http().post("/workers/bad/release", "").expect(200);
        assert_eq!(id_of(&scheduler.claim(Some("bad"))), id);
        scheduler.http().post("/workers/nobody/release", "").expect(404);
    }
}
