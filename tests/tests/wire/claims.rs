//! `GET /jobs/next`: who gets what, when, and never twice.

use std::collections::BTreeSet;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use muster_tests::{Scheduler, for_each_store, id_of, lease_of};
use serde_json::{Value, json};

fn is_absent_or(job: &Value, key: &str, check: fn(&Value) -> bool) {
    assert!(job.get(key).is_none_or(check), "{key} has the wrong type: {job}");
}

for_each_store! {
    fn t05_an_empty_queue_is_204_and_a_claim_starts_the_job(store) {
        let scheduler = Scheduler::start(store);
        let nothing = scheduler.http().get("/jobs/next");
        assert_eq!((nothing.status, nothing.text()), (204, String::new()));
        scheduler.http().get("/jobs/next?worker_id=somebody").expect(204);
        let id = scheduler.submit("true");
        let response = scheduler.http().get("/jobs/next?worker_id=somebody");
        let job = response.expect(200).json();
        assert_eq!(job["id"], id.as_str());
        assert_eq!(job["status"], "running");
        assert_eq!(job["attempts"], 1);
        assert_eq!(job["worker_id"], "somebody");
        assert!(job["started_at"].is_string());
        assert!(lease_of(&job) > 0);
        assert_eq!(response.header("x-muster-lease"), Some(lease_of(&job).to_string().as_str()));
        let stored = scheduler.job(&id);
        assert_eq!((&stored["status"], &stored["attempts"]), (&json!("running"), &json!(1)));
        scheduler.http().get("/jobs/next").expect(204);
    }

    fn t05_a_claim_decodes_strictly_by_type(store) {
        let scheduler = Scheduler::start(store);
        scheduler.submit_job(&json!({ "command": "true", "resources": { "memory_mb": 1 }, "priority": 1 }));
        let job = scheduler.claim(None);
        for key in ["id", "command", "status", "created_at", "started_at"] {
            assert!(job[key].is_string(), "{key}: {job}");
        }
        for key in ["max_retries", "attempts"] {
            assert!(job[key].is_u64(), "{key}: {job}");
        }
        for key in ["gang_size", "gang_index", "reservation_epoch", "preemption_epoch", "priority"] {
            is_absent_or(&job, key, Value::is_i64);
        }
        for key in ["worker_id", "queue_name", "gang_id", "reserved_at", "done_at", "last_heart_beat"] {
            is_absent_or(&job, key, Value::is_string);
        }
        is_absent_or(&job, "depends_on", Value::is_array);
        is_absent_or(&job, "resources", Value::is_object);
        is_absent_or(&job, "env", |env| env.as_object().is_some_and(|map| map.values().all(Value::is_string)));
    }

    fn t08_thirty_claimers_share_twenty_jobs(store) {
        let scheduler = Scheduler::start(store);
        let submitted: BTreeSet<String> = (0..20).map(|_| scheduler.submit("true")).collect();
        let http = scheduler.http();
        let claimers: Vec<_> = (0..30)
            .map(|number| thread::spawn(move || http.get(&format!("/jobs/next?worker_id=w{number}"))))
            .collect();
        let mut claimed = Vec::new();
        for claimer in claimers {
            let response = claimer.join().unwrap();
            if response.status != 204 {
                claimed.push(id_of(&response.expect(200).json()));
            }
        }
        assert_eq!(claimed.len(), 20, "every job is handed out once");
        assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), submitted);
    }

    fn order_is_priority_then_age(store) {
        let scheduler = Scheduler::start(store);
        for (command, priority) in [("third", 0), ("last", -1), ("first", 10), ("second", 1), ("fourth", 0)] {
            scheduler.submit_job(&json!({ "command": command, "priority": priority }));
        }
        let order: Vec<Value> = (0..5).map(|_| scheduler.claim(None)["command"].clone()).collect();
        assert_eq!(order, ["first", "second", "third", "fourth", "last"]);
    }

    fn a_parked_claim_is_answered_by_the_submit(store) {
        let scheduler = Scheduler::start(store);
        let http = scheduler.http();
        let parked = thread::spawn(move || http.get("/jobs/next?worker_id=patient&wait=60s"));
        scheduler.await_parked(1);
        let id = scheduler.submit("true");
        assert_eq!(parked.join().unwrap().expect(200).json()["id"], id.as_str());
    }

    fn a_parked_claim_ends_empty_when_its_time_is_up(store) {
        let scheduler = Scheduler::start(store);
        let started = Instant::now();
        scheduler.http().get("/jobs/next?worker_id=patient&wait=300ms").expect(204);
        assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
    }

    fn a_claim_with_max_is_answered_with_an_array(store) {
        let scheduler = Scheduler::start(store);
        let submitted: BTreeSet<String> = (0..5).map(|_| scheduler.submit("true")).collect();
        let mut claimed = BTreeSet::new();
        for expected in [3, 2] {
            let answer = scheduler.http().get("/jobs/next?worker_id=greedy&max=3").expect(200).json();
            let jobs = answer.as_array().unwrap_or_else(|| panic!("not an array: {answer}"));
            assert_eq!(jobs.len(), expected);
            claimed.extend(jobs.iter().map(id_of));
        }
        assert_eq!(claimed, submitted);
    }

    fn a_claim_whose_client_has_left_is_handed_nothing(store) {
        let scheduler = Scheduler::start(store);
        let mut gone = scheduler.http().connect().unwrap();
        let request = scheduler.http().request("GET", "/jobs/next?worker_id=gone&wait=20s").bytes();
        gone.write_all(&request).unwrap();
        scheduler.await_parked(1);
        drop(gone);
        scheduler.await_parked(0);
        let id = scheduler.submit("true");
        assert_eq!(scheduler.claim(Some("here"))["id"], id.as_str());
    }

    fn one_job_wakes_one_of_many_parked_claims(store) {
        let scheduler = Scheduler::start(store);
        let http = scheduler.http();
        let parked: Vec<_> = (0..10)
            .map(|number| thread::spawn(move || http.get(&format!("/jobs/next?worker_id=w{number}&wait=20s"))))
            .collect();
        scheduler.await_parked(10);
        let first = scheduler.submit("true");
        scheduler.await_parked(9);
        let rest: BTreeSet<String> = (0..9).map(|_| scheduler.submit("true")).chain([first]).collect();
        let claimed = parked.into_iter().map(|claim| id_of(&claim.join().unwrap().expect(200).json()));
        assert_eq!(claimed.collect::<BTreeSet<_>>(), rest);
    }
}
