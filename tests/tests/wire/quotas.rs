//! Queues that share: quotas, borrowing and lending, weights, limits on what runs and waits, and what is shown.

use std::time::Duration;

use muster_tests::{
    Backing, Scheduler, Settings, StoreKind, Worker, WorkerSettings, for_each_store, id_of, lease_of, until,
};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(60);

fn put(scheduler: &Scheduler, name: &str, update: &Value) -> muster_tests::Response {
    let request = scheduler.http().request("PUT", &format!("/queues/{name}"));
    request.header("Content-Type", "application/json").body(update.to_string()).send()
}

fn set(scheduler: &Scheduler, name: &str, update: &Value) -> Value {
    put(scheduler, name, update).expect(200).json()
}

/// Jobs of a queue that need one GPU each.
fn submit(scheduler: &Scheduler, queue: &str, count: usize, more: &Value) -> Vec<String> {
    let mut job = json!({"command": "x", "queue_name": queue, "resources": {"gpus": 1}});
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    (0..count).map(|_| id_of(&scheduler.submit_job(&job))).collect()
}

/// Everything that can be claimed now.
fn claim_all(scheduler: &Scheduler, worker: Option<&str>) -> Vec<Value> {
    std::iter::from_fn(|| scheduler.try_claim(worker)).collect()
}

fn done(scheduler: &Scheduler, job: &Value) {
    scheduler.report_under(lease_of(job), &id_of(job), "done").expect_empty();
}

fn why(scheduler: &Scheduler, id: &str) -> Value {
    scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json()["reasons"].clone()
}

fn reason(scheduler: &Scheduler, id: &str, code: &str) -> String {
    let reasons = why(scheduler, id);
    let found = reasons.as_array().unwrap().iter().find(|reason| reason["code"] == code);
    found.unwrap_or_else(|| panic!("{code} is not among {reasons}")).to_string()
}

fn count(jobs: &[Value], queue: &str) -> usize {
    jobs.iter().filter(|job| job["queue_name"] == queue).count()
}

for_each_store! {
    fn idle_quota_is_borrowed_and_the_owner_goes_first_when_it_comes_back(store) {
        let scheduler = Scheduler::start(store);
        let shown = set(&scheduler, "vision", &json!({"parent": "lab", "nominal": {"gpus": 2}}));
        assert_eq!((&shown["parent"], &shown["nominal"]["gpus"]), (&json!("lab"), &json!(2)));
        set(&scheduler, "speech", &json!({"parent": "lab", "nominal": {"gpus": 2}}));
        submit(&scheduler, "vision", 6, &json!({}));
        let borrowed = claim_all(&scheduler, None);
        assert_eq!(borrowed.len(), 4, "its own two and the other's");
        let vision = scheduler.http().get("/queues/vision").expect(200).json();
        assert_eq!((&vision["used"]["gpus"], &vision["borrowed"]["gpus"]), (&json!(4), &json!(2)));
        assert_eq!((&vision["running"], &vision["queued"]), (&json!(4), &json!(2)));
        let speech = scheduler.http().get("/queues/speech").expect(200).json();
        assert_eq!(speech["lent"]["gpus"], 2);

        let owner = submit(&scheduler, "speech", 2, &json!({}));
        assert!(scheduler.try_claim(None).is_none(), "nobody is thrown out");
        let text = reason(&scheduler, &owner[0], "quota");
        assert!(text.contains("vision borrows 2") && text.contains("4 of 4 in its tree"), "{text}");
        for job in &borrowed[..2] {
            done(&scheduler, job);
        }
        assert_eq!(count(&claim_all(&scheduler, None), "speech"), 2);
        let metrics = scheduler.http().get("/metrics").expect(200).text();
        assert!(metrics.contains(r#"muster_queue_usage{queue="lab",resource="gpus"} 4"#), "{metrics}");
    }

    fn an_owner_takes_back_what_it_lent_and_the_borrower_comes_back(store) {
        let settings = Settings::default().set("preempt-after", "0s").set("admission-interval", "300ms");
        let scheduler = Scheduler::start_with(store, settings);
        set(&scheduler, "owner", &json!({"parent": "lab", "nominal": {"cpus": 2}}));
        set(&scheduler, "guest", &json!({"parent": "lab", "nominal": {"cpus": 0}}));
        let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 8).set("cpus", "8"));
        let job = |queue: &str, command: &str| {
            let request = json!({"command": command, "queue_name": queue, "resources": {"cpus": 2}});
            id_of(&scheduler.submit_job(&request))
        };
        let guest = job("guest", "sleep 300");
        scheduler.await_status(&guest, "running", BOUND);
        // There is room for both, but all quota is lent.
        let owner = job("owner", "sleep 1");
        scheduler.await_status(&guest, "pending", BOUND);
        let events = scheduler.http().get(&format!("/jobs/{guest}/events")).expect(200).text();
        assert!(events.contains(&format!("makes room for {owner}: queue owner takes back what it lent")), "{events}");
        scheduler.await_status(&owner, "done", BOUND);
        let events = scheduler.http().get(&format!("/jobs/{owner}/events")).expect(200).json();
        let made = events.as_array().unwrap().iter().find(|event| event["type"] == "room_made").unwrap();
        assert_eq!(made["data"]["by"], json!([guest]));
        scheduler.await_status(&guest, "running", BOUND);
        assert_eq!(scheduler.job(&guest)["attempts"], 1, "the stop cost it nothing");
        assert_eq!(scheduler.metric(r#"muster_preempted_for_others_total{cause="quota"}"#), Some(1));
    }

    fn limits_on_borrowing_lending_and_work_that_stays(store) {
        let scheduler = Scheduler::start(store);
        set(&scheduler, "a", &json!({"parent": "lab", "nominal": {"gpus": 2}, "borrow": {"gpus": 1}}));
        set(&scheduler, "b", &json!({"parent": "lab", "nominal": {"gpus": 4}, "lend": {"gpus": 3}}));
        let fixed = submit(&scheduler, "a", 3, &json!({"preemptible": false}));
        assert_eq!(claim_all(&scheduler, None).len(), 2);
        assert!(reason(&scheduler, &fixed[2], "quota").contains("does not borrow"));
        submit(&scheduler, "a", 3, &json!({}));
        assert_eq!(claim_all(&scheduler, None).len(), 1, "one may be borrowed");
        set(&scheduler, "a", &json!({"borrow": null}));
        assert_eq!(claim_all(&scheduler, None).len(), 2, "no more than three are lent");
        assert_eq!(scheduler.job(&fixed[0])["preemptible"], false);
    }

    fn limits_on_what_runs_and_waits_in_all_and_of_a_user(store) {
        let scheduler = Scheduler::start(store);
        set(&scheduler, "q", &json!({"max_running": 3, "max_running_per_user": 2, "max_queued_per_user": 3}));
        let anns = submit(&scheduler, "q", 3, &json!({"user": "ann"}));
        let refused = scheduler.http().post_json("/jobs", &json!({"command": "x", "queue_name": "q", "user": "ann"}));
        refused.expect(429);
        assert!(refused.text().contains("ann") && refused.text().contains("at most 3"), "{}", refused.text());
        submit(&scheduler, "q", 2, &json!({"user": "bob"}));
        let running = claim_all(&scheduler, None);
        assert_eq!(running.len(), 3);
        assert_eq!(running.iter().filter(|job| job["user"] == "ann").count(), 2);
        assert!(reason(&scheduler, &anns[2], "user_limit").contains("2 jobs of user ann run"));
        assert!(reason(&scheduler, &anns[2], "queue_full").contains("at most 3"));
        done(&scheduler, &running[0]);
        assert_eq!(claim_all(&scheduler, None).len(), 1);
    }

    fn weights_share_starts(store) {
        let scheduler = Scheduler::start(store);
        set(&scheduler, "heavy", &json!({"weight": 2}));
        set(&scheduler, "light", &json!({"weight": 1}));
        scheduler.register(&json!({"id": "w", "resources": {"gpus": 9}}));
        let waiting = submit(&scheduler, "light", 12, &json!({}));
        submit(&scheduler, "heavy", 12, &json!({}));
        let mut running = claim_all(&scheduler, Some("w"));
        assert_eq!((count(&running, "heavy"), count(&running, "light")), (6, 3));
        let text = why(&scheduler, &waiting[11]).to_string();
        assert!(!text.contains("jobs go first"), "{text}");
        // As jobs end the room goes to whom it is due.
        let (mut heavy, mut light) = (0, 0);
        for _ in 0..9 {
            done(&scheduler, &running.remove(0));
            let next = scheduler.claim(Some("w"));
            if next["queue_name"] == "heavy" { heavy += 1 } else { light += 1 }
            running.push(next);
        }
        assert_eq!((heavy, light), (6, 3));
    }

    fn a_paused_queue_stays_paused_within_its_quota(store) {
        let scheduler = Scheduler::start(store);
        set(&scheduler, "a", &json!({"nominal": {"gpus": 2}, "paused": true}));
        let waiting = submit(&scheduler, "a", 1, &json!({}));
        assert!(scheduler.try_claim(None).is_none());
        reason(&scheduler, &waiting[0], "queue_paused");
        set(&scheduler, "a", &json!({"paused": false}));
        scheduler.claim(None);
    }

    fn what_makes_no_sense_is_refused(store) {
        let scheduler = Scheduler::start(store);
        set(&scheduler, "a", &json!({"parent": "b"}));
        let refused = put(&scheduler, "b", &json!({"parent": "a"}));
        refused.expect(409);
        assert!(refused.text().contains("b -> a -> b"), "{}", refused.text());
        put(&scheduler, "a", &json!({"weight": 0})).expect(400);
        put(&scheduler, "a", &json!({"nominal": {"cpus": -1}})).expect(400);
        put(&scheduler, "a", &json!({"max_running": -1})).expect(400);
        set(&scheduler, "a", &json!({"parent": null}));
        set(&scheduler, "b", &json!({"parent": "a"}));
    }

    fn a_gang_waits_for_its_quota_and_starts_when_there_is_some(store) {
        let settings = Settings::default().set("reaper-interval", "300ms");
        let scheduler = Scheduler::start_with(store, settings);
        set(&scheduler, "a", &json!({"nominal": {"gpus": 2}}));
        scheduler.register(&json!({"id": "w", "resources": {"gpus": 8}}));
        submit(&scheduler, "a", 1, &json!({}));
        let single = scheduler.claim(Some("w"));
        let gang = scheduler.submit_gang_with(&json!({
            "command": "x", "queue_name": "a", "gang_size": 2, "tasks_per_worker": 2, "resources": {"gpus": 1}
        }));
        let text = reason(&scheduler, &gang.tasks[0], "quota");
        assert!(text.contains("leaves 1 gpus, it needs 2"), "{text}");
        done(&scheduler, &single);
        scheduler.await_gang(&gang, "reserved");
    }
}

#[test]
fn real_workers_of_two_schedulers_keep_a_quota() {
    let backing = Backing::new(StoreKind::Postgres);
    let first = Scheduler::start_on(&backing, Settings::default());
    let second = Scheduler::start_on(&backing, Settings::default());
    set(&first, "a", &json!({"parent": "lab", "nominal": {"cpus": 2}}));
    set(&first, "b", &json!({"parent": "lab", "nominal": {"cpus": 1}}));
    let _workers: Vec<Worker> = (0..4)
        .map(|number| {
            let at = if number % 2 == 0 { &first } else { &second };
            let settings = WorkerSettings::new(&format!("w{number}"), 4).set("cpus", "4");
            Worker::start(at, settings)
        })
        .collect();
    let job = |queue: &str| json!({"command": "sleep 0.2", "queue_name": queue, "resources": {"cpus": 1}});
    for number in 0..30 {
        let (at, queue) = if number % 2 == 0 { (&first, "a") } else { (&second, "b") };
        at.submit_job(&job(queue));
    }
    let mut most = 0;
    until("all have run", BOUND, || {
        let jobs = first.jobs();
        let running = jobs.iter().filter(|job| job["status"] == "running").count();
        most = most.max(running);
        assert!(running <= 3, "{running} run at once");
        jobs.iter().all(|job| job["status"] == "done")
    });
    assert_eq!(most, 3, "what there is was used");
}
