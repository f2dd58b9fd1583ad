//! Gangs: how they are submitted and placed, and who may claim their tasks.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use muster_tests::{Gang, Scheduler, Settings, for_each_store, id_of, until};
use serde_json::{Value, json};

fn workers_of(tasks: &[Value]) -> BTreeSet<String> {
    tasks.iter().map(|task| task["worker_id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Registers a worker with memory for tasks.
fn register_big(scheduler: &Scheduler, id: &str) {
    scheduler.register(&json!({ "id": id, "resources": { "vram_mb": 8000 } }));
}

fn needing(size: usize, vram: u64) -> Value {
    json!({ "command": "true", "gang_size": size, "resources": { "vram_mb": vram } })
}

/// Fails unless no worker has given away more than it has.
fn nothing_is_overcommitted(scheduler: &Scheduler) {
    for worker in scheduler.workers() {
        let of = |key: &str| worker[key]["vram_mb"].as_u64().unwrap_or(0);
        assert!(of("used") <= of("resources"), "{worker}");
    }
}

/// The gang that is placed once the one before it has gone; it takes all workers.
fn next_placed(scheduler: &Scheduler, gangs: &[Gang]) -> Gang {
    let placed = || gangs.iter().find(|gang| scheduler.gang_statuses(gang)[0] == "reserved");
    until("one more is placed", Duration::from_secs(60), || placed().is_some());
    let gang = placed().unwrap().clone();
    scheduler.http().post(&format!("/gangs/{}/cancel", gang.id), "").expect(200);
    gang
}

for_each_store! {
    fn t13_big_ones_first_then_by_priority_then_by_age(store) {
        let scheduler = Scheduler::start_with(store, Settings::default().set("policy", "largest-gang"));
        scheduler.register_many(4);
        let first = scheduler.submit_gang(4);
        scheduler.await_gang(&first, "reserved");
        let submit = |size: usize, priority: i64| {
            scheduler.submit_gang_with(&json!({ "command": "true", "gang_size": size, "priority": priority }))
        };
        let small = submit(2, 1);
        let older = submit(4, 1);
        let urgent = submit(4, 10);
        let younger = submit(4, 1);
        let waiting = [younger.clone(), small.clone(), urgent.clone(), older.clone()];
        scheduler.http().post(&format!("/gangs/{}/cancel", first.id), "").expect(200);
        let order = [(); 4].map(|()| next_placed(&scheduler, &waiting));
        assert_eq!(order, [urgent, older, younger, small]);
    }

    fn gangs_go_by_priority_and_age_whatever_their_size(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(4);
        let first = scheduler.submit_gang(4);
        scheduler.await_gang(&first, "reserved");
        let submit = |size: usize, priority: i64| {
            scheduler.submit_gang_with(&json!({ "command": "true", "gang_size": size, "priority": priority }))
        };
        let waiting = [submit(3, 1), submit(4, 1), submit(3, 10), submit(4, 1)];
        scheduler.http().post(&format!("/gangs/{}/cancel", first.id), "").expect(200);
        let order = [(); 4].map(|()| next_placed(&scheduler, &waiting));
        assert_eq!(order, [2, 0, 1, 3].map(|place: usize| waiting[place].clone()));
    }

    fn t13_every_task_of_a_gang_has_a_worker_of_its_own(store) {
        let scheduler = Scheduler::start(store);
        for number in 0..5 {
            scheduler.register(&json!({ "id": format!("roomy{number}"), "slots": 4 }));
        }
        let gangs = [(); 2].map(|()| scheduler.submit_gang(5));
        for gang in &gangs {
            assert_eq!(workers_of(&scheduler.await_gang(gang, "reserved")).len(), 5);
        }
        let request = json!({ "command": "true", "gang_size": 4, "tasks_per_worker": 2 });
        let shared = scheduler.submit_gang_with(&request);
        assert_eq!(workers_of(&scheduler.await_gang(&shared, "reserved")).len(), 2, "unless two may share one");
    }

    fn t14_a_gang_waits_until_there_is_room_for_all(store) {
        let scheduler = Scheduler::start(store);
        for id in ["a", "b", "c"] {
            register_big(&scheduler, id);
        }
        let four = scheduler.submit_gang_with(&needing(4, 8000));
        let why = scheduler.http().get(&format!("/gangs/{}/why", four.id)).expect(200).json();
        assert!(!why["reasons"].as_array().unwrap().is_empty(), "{why}");
        let three = scheduler.submit_gang_with(&needing(3, 8000));
        scheduler.await_gang(&three, "reserved");
        assert!(scheduler.gang_statuses(&four).iter().all(|status| status == "blocked"));
        scheduler.http().post(&format!("/gangs/{}/hold", four.id), "").expect(200);
        scheduler.http().post(&format!("/gangs/{}/cancel", three.id), "").expect(200);
        register_big(&scheduler, "d");
        let three = scheduler.submit_gang_with(&needing(3, 8001));
        scheduler.http().post(&format!("/gangs/{}/unhold", four.id), "").expect(200);
        assert_eq!(workers_of(&scheduler.await_gang(&four, "reserved")).len(), 4);
        assert!(scheduler.gang_statuses(&three).iter().all(|status| status == "blocked"), "no worker has that");
        nothing_is_overcommitted(&scheduler);
    }

    fn t14_running_reserved_and_stopping_jobs_take_room(store) {
        let scheduler = Scheduler::start(store);
        register_big(&scheduler, "a");
        register_big(&scheduler, "b");
        let single = scheduler.submit_job(&json!({ "command": "true", "resources": { "vram_mb": 5000 } }));
        assert_eq!(id_of(&scheduler.claim(Some("a"))), id_of(&single));
        let wide = scheduler.submit_gang_with(&needing(2, 4000));
        // The pass that places the narrow one has looked at the wide one first.
        let narrow = scheduler.submit_gang_with(&needing(2, 1000));
        scheduler.await_gang(&narrow, "reserved");
        assert_eq!(scheduler.gang_statuses(&wide), ["blocked", "blocked"], "a running job takes room");
        scheduler.report(&id_of(&single), "done").expect(200);
        scheduler.await_gang(&wide, "reserved");
        let other = scheduler.submit_gang_with(&needing(2, 5000));
        let witness = |why: &str| {
            let gang = scheduler.submit_gang_with(&needing(2, 100));
            scheduler.await_gang(&gang, "reserved");
            assert_eq!(scheduler.gang_statuses(&other), ["blocked", "blocked"], "{why}");
            nothing_is_overcommitted(&scheduler);
        };
        witness("a reserved task takes room");
        for worker in ["a", "b"] {
            while scheduler.job(&wide.tasks[usize::from(worker == "b")])["status"] == "reserved" {
                scheduler.claim(Some(worker));
            }
        }
        scheduler.report(&wide.tasks[0], "fail").expect(200);
        assert_eq!(scheduler.gang_statuses(&wide), ["preempting", "preempting"]);
        witness("a stopping task takes room");
        scheduler.http().post(&format!("/gangs/{}/cancel", wide.id), "").expect(200);
        for task in &wide.tasks {
            scheduler.report(task, "preempted?epoch=1").expect(200);
        }
        scheduler.await_gang(&other, "reserved");
        nothing_is_overcommitted(&scheduler);
    }

    fn t15_what_nobody_claims_in_time_is_taken_back_and_placed_again_at_once(store) {
        let scheduler = Scheduler::start_with(store, Settings::default().set("reservation-timeout", "300ms"));
        scheduler.register_many(2);
        let gang = scheduler.submit_gang(2);
        let tasks = scheduler.await_round(&gang, 3);
        assert!(tasks.iter().all(|task| task["attempts"] == 0 && task["reserved_at"].is_string()), "{tasks:?}");
        assert!(scheduler.count_of("muster_gang_reservations_lapsed_total") >= 2);
        let events = scheduler.http().get(&format!("/gangs/{}/events", gang.id)).expect(200).json();
        let times = |kind: &str| -> Vec<Value> {
            let of_kind = events.as_array().unwrap().iter().filter(|event| event["type"] == kind);
            of_kind.map(|event| event["at"].clone()).collect()
        };
        let (taken, placed) = (times("unreserved"), times("reserved"));
        assert!(taken.len() >= 4, "{events}");
        assert_eq!(taken, placed[2..2 + taken.len()], "in the same pass");
    }

    fn t16_a_task_that_nobody_claims_drains_its_siblings_at_no_cost(store) {
        let scheduler = Scheduler::start_with(store, Settings::default().set("reservation-timeout", "2s"));
        let parked: Vec<_> = ["w0", "w1"]
            .into_iter()
            .map(|worker| {
                let http = scheduler.http();
                thread::spawn(move || http.get(&format!("/jobs/next?worker_id={worker}&wait=50s")))
            })
            .collect();
        scheduler.await_parked(2);
        scheduler.register_many(3);
        let gang = scheduler.submit_gang(3);
        let claims: Vec<Value> =
            parked.into_iter().map(|claim| claim.join().unwrap().expect(200).json()).collect();
        scheduler.register(&json!({ "id": "w3", "slots": 1 }));
        until("its siblings are told to stop", Duration::from_secs(60), || {
            scheduler.gang_statuses(&gang) == ["preempting", "preempting", "blocked"]
        });
        assert_eq!(scheduler.gang_attempts(&gang), [0, 0, 0]);
        scheduler.acknowledge(&claims, 1);
        let tasks = scheduler.await_round(&gang, 2);
        assert_eq!(scheduler.gang_attempts(&gang), [0, 0, 0]);
        assert!(workers_of(&tasks).contains("w3"), "another worker than the one that did not claim: {tasks:?}");
        assert_eq!(scheduler.count_of("muster_gang_preemptions_force_drained_total"), 0);
    }

    fn a4_3_the_first_task_has_no_index(store) {
        let scheduler = Scheduler::start(store);
        let answer = scheduler.submit_job(&json!({ "command": "true", "gang_size": 3 }));
        let gang = Gang::of(&answer);
        assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["gang_id", "tasks"]);
        assert!(gang.id.starts_with("gang-") && gang.tasks.len() == 3);
        let tasks = scheduler.gang(&gang);
        assert_eq!(tasks.iter().map(id_of).collect::<Vec<_>>(), gang.tasks, "by index");
        for (index, task) in tasks.iter().enumerate() {
            assert_eq!(task.get("gang_index").and_then(Value::as_u64), (index > 0).then_some(index as u64));
            assert_eq!((&task["gang_id"], &task["gang_size"]), (&json!(gang.id), &json!(3)));
            assert_eq!((&task["status"], &task["attempts"]), (&json!("blocked"), &json!(0)));
            assert_eq!(task["max_retries"], 3);
            assert_eq!(&scheduler.job(&gang.tasks[index])["gang_id"], &json!(gang.id));
        }
        assert_eq!(scheduler.metric("muster_jobs_submitted_total"), Some(3));
        scheduler.http().get("/gangs/gang-00000000-0000-4000-8000-000000000000").expect_error(404, "gang not found");
    }

    fn a4_5_a_reserved_task_goes_to_its_worker_only_and_first(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(2);
        let single = scheduler.submit("true");
        let gang = scheduler.submit_gang(2);
        let placed = scheduler.await_gang(&gang, "reserved");
        assert_eq!(id_of(&scheduler.claim(Some("stranger"))), single, "not the reserved task");
        scheduler.http().get("/jobs/next?worker_id=stranger").expect(204);
        scheduler.http().get("/jobs/next").expect(204);
        let urgent = scheduler.submit_job(&json!({ "command": "true", "priority": 100 }));
        let own = placed[1]["worker_id"].as_str();
        let claim = scheduler.claim(own);
        assert_eq!(id_of(&claim), gang.tasks[1], "before any pending job");
        assert_eq!((&claim["status"], &claim["attempts"]), (&json!("running"), &json!(1)));
        assert_eq!(claim["env"]["GANG_INDEX"], "1");
        assert_eq!(claim["env"]["GANG_SIZE"], "2");
        assert_eq!(claim["env"]["GANG_ID"], gang.id.as_str());
        assert_eq!(claim["env"]["GANG_PEERS"], ",", "these workers told no address");
        assert_eq!(id_of(&scheduler.claim(None)), id_of(&urgent));
    }

    fn t12_gang_tasks_never_pend(store) {
        let scheduler = Scheduler::start(store);
        let gang = scheduler.submit_gang(2);
        let done = scheduler.submit("true");
        assert_eq!(id_of(&scheduler.claim(Some("anybody"))), done);
        scheduler.report(&done, "done").expect(200);
        scheduler.http().get("/jobs/next?worker_id=anybody").expect(204);
        for report in ["done", "fail", "heartbeat"] {
            scheduler.report(&gang.tasks[0], report).expect_error(409, "job is not running");
        }
        assert_eq!(scheduler.gang_statuses(&gang), ["blocked", "blocked"]);
    }

    fn peers_are_named_by_index(store) {
        let scheduler = Scheduler::start(store);
        for number in 0..3 {
            let address = format!("h{number}:9000");
            scheduler.register(&json!({ "id": format!("w{number}"), "slots": 1, "exec_addr": address }));
        }
        let gang = scheduler.submit_gang(3);
        let claims = scheduler.start_gang(&gang);
        let addresses: Vec<String> =
            claims.iter().map(|claim| claim["worker_id"].as_str().unwrap().replace('w', "h") + ":9000").collect();
        for claim in &claims {
            assert_eq!(claim["env"]["GANG_PEERS"], addresses.join(","));
            assert_eq!(claim["gang"]["round"], 1);
        }
    }

    fn a_gang_of_one_or_less_is_a_job(store) {
        let scheduler = Scheduler::start(store);
        for size in [0, 1, -1] {
            let job = scheduler.submit_job(&json!({ "command": "true", "gang_size": size }));
            assert_eq!(job["status"], "pending");
            assert!(job.get("gang_id").is_none() && job.get("gang_size").is_none(), "{job}");
        }
    }

    fn bad_gang_fields_are_named(store) {
        let scheduler = Scheduler::start(store);
        let refused = [
            (json!({ "gang_size": 1_000_000 }), "gang_size must be from 2 to "),
            (json!({ "gang_size": 4, "gang_min": 0 }), "gang_min must be from 1 to 4, not 0"),
            (json!({ "gang_size": 4, "gang_min": 5 }), "gang_min must be from 1 to 4, not 5"),
            (json!({ "gang_size": 4, "tasks_per_worker": 0 }), "tasks_per_worker must be from 1 to 4, not 0"),
            (json!({ "gang_size": 4, "gang_policy": "x" }), "gang_policy must be restart_all or keep_done"),
            (json!({ "gang_size": 4, "launch": "x" }), "launch must be per_node or per_rank"),
            (json!({ "gang_size": 4, "slurm_env": true, "launch": "per_node" }), "slurm_env needs the launch mode per_rank"),
            (json!({ "gang_size": 4, "signal_scope": "x" }), "signal_scope must be leader"),
            (json!({ "gang_size": 4, "on_preempt_exit0": "x" }), "on_preempt_exit0 must be requeue or success"),
            (json!({ "gang_size": "x" }), "invalid request body"),
        ];
        for (mut request, message) in refused {
            request["command"] = json!("true");
            let answer = scheduler.http().post_json("/jobs", &request);
            assert!(answer.expect(400).text().starts_with(message), "{request}: {}", answer.text());
        }
        assert_eq!(scheduler.jobs().len(), 0);
    }

    fn a_repeated_submit_names_the_same_gang(store) {
        let scheduler = Scheduler::start(store);
        let request = json!({ "command": "true", "gang_size": 3, "idempotency_key": "once" });
        let gang = scheduler.submit_gang_with(&request);
        let again = scheduler.http().post_json("/jobs", &request).expect(200).json();
        assert_eq!(Gang::of(&again), gang);
        assert_eq!(scheduler.jobs().len(), 3);
    }
}
