//! Gangs as a whole: listed, stopped, run again, held, explained; and as part of dependencies.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_tests::{Gang, Response, Scheduler, for_each_store, id_of, lease_of, until};
use serde_json::{Value, json};

fn change(scheduler: &Scheduler, gang: &Gang, verb: &str) -> Response {
    scheduler.http().post(&format!("/gangs/{}/{verb}", gang.id), "")
}

fn finish(scheduler: &Scheduler, claims: &[Value]) {
    for claim in claims {
        scheduler.report_under(lease_of(claim), &id_of(claim), "done").expect_empty();
    }
}

/// The ids of listed gangs, and where the next page begins.
fn listed(scheduler: &Scheduler, query: &str) -> (Vec<String>, Option<String>) {
    let response = scheduler.http().get(&format!("/gangs{query}"));
    let gangs = response.expect(200).json().as_array().unwrap().iter().map(id_of).collect();
    (gangs, response.header("x-next-cursor").map(str::to_owned))
}

fn event_types(scheduler: &Scheduler, gang: &Gang) -> BTreeSet<String> {
    let events = scheduler.http().get(&format!("/gangs/{}/events", gang.id)).expect(200).json();
    let types = events.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned());
    types.collect()
}

for_each_store! {
    fn gangs_are_listed_newest_first_page_by_page(store) {
        let scheduler = Scheduler::start(store);
        scheduler.submit("true");
        let gangs: Vec<Gang> = (0..5).map(|_| scheduler.submit_gang(2)).collect();
        let newest_first: Vec<String> = gangs.iter().rev().map(|gang| gang.id.clone()).collect();
        assert_eq!(listed(&scheduler, ""), (newest_first.clone(), None));
        for query in ["?limit=2", "?limit=2&state=waiting"] {
            let mut found = Vec::new();
            let mut target = query.to_owned();
            loop {
                let (page, cursor) = listed(&scheduler, &target);
                assert!(page.len() <= 2);
                found.extend(page);
                let Some(cursor) = cursor else { break };
                target = format!("{query}&cursor={cursor}");
            }
            assert_eq!(found, newest_first);
        }
        change(&scheduler, &gangs[1], "cancel").expect(200);
        assert_eq!(listed(&scheduler, "?state=cancelled"), (vec![gangs[1].id.clone()], None));
        assert_eq!(listed(&scheduler, "?state=running"), (Vec::new(), None));
    }

    fn a_summary_follows_the_gang(store) {
        let scheduler = Scheduler::start(store);
        let request = json!({ "command": "work", "gang_size": 2, "name": "pair", "priority": 7 });
        let gang = scheduler.submit_gang_with(&request);
        let summary = || scheduler.http().get("/gangs").expect(200).json()[0].clone();
        let state = || summary()["state"].as_str().unwrap().to_owned();
        assert_eq!((state().as_str(), &summary()["rounds"]), ("waiting", &json!(0)));
        assert_eq!((&summary()["size"], &summary()["name"]), (&json!(2), &json!("pair")));
        assert_eq!((&summary()["priority"], &summary()["command"]), (&json!(7), &json!("work")));
        scheduler.register_many(2);
        scheduler.await_gang(&gang, "reserved");
        assert_eq!((state().as_str(), &summary()["rounds"]), ("starting", &json!(1)));
        let claims = scheduler.start_gang(&gang);
        assert_eq!((state().as_str(), &summary()["tasks"]), ("running", &json!({ "running": 2 })));
        change(&scheduler, &gang, "preempt").expect(200);
        assert_eq!((state().as_str(), &summary()["preemption_epoch"]), ("draining", &json!(1)));
        scheduler.acknowledge(&claims, 1);
        finish(&scheduler, &scheduler.start_gang(&gang));
        assert_eq!((state().as_str(), &summary()["rounds"]), ("done", &json!(2)));
        let types = event_types(&scheduler, &gang);
        for kind in ["submitted", "reserved", "claimed", "stop_requested", "drained", "requeued", "done"] {
            assert!(types.contains(kind), "{kind} is missing among {types:?}");
        }
    }

    fn a_cancelled_gang_stops_as_one_and_can_run_again(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(2);
        let gang = scheduler.submit_gang(2);
        let claims = scheduler.start_gang(&gang);
        change(&scheduler, &gang, "retry").expect(409);
        let answer = change(&scheduler, &gang, "cancel?message=enough").expect(200).json();
        assert_eq!(answer["stopping"], json!(gang.tasks), "{answer}");
        change(&scheduler, &gang, "cancel").expect(200);
        scheduler.acknowledge(&claims, 1);
        let tasks = scheduler.await_gang(&gang, "cancelled");
        assert!(tasks[0]["reason"].as_str().unwrap().contains("enough"), "{tasks:?}");
        change(&scheduler, &gang, "retry").expect(200);
        finish(&scheduler, &scheduler.start_gang(&gang));
        assert_eq!(scheduler.gang_statuses(&gang), ["done", "done"]);
        change(&scheduler, &gang, "retry").expect(409);
        change(&scheduler, &gang, "preempt").expect(409);
    }

    fn cancelling_one_task_cancels_all(store) {
        let scheduler = Scheduler::start(store);
        let gang = scheduler.submit_gang(3);
        scheduler.report(&gang.tasks[2], "cancel").expect(200);
        assert_eq!(scheduler.gang_statuses(&gang), ["cancelled"; 3]);
    }

    fn a_held_gang_is_not_placed(store) {
        let scheduler = Scheduler::start(store);
        let held = scheduler.submit_gang(2);
        change(&scheduler, &held, "hold?message=later").expect(200);
        let why = scheduler.http().get(&format!("/gangs/{}/why", held.id)).expect(200).json();
        assert_eq!((&why["id"], &why["reasons"][0]["code"]), (&json!(held.id), &json!("held")));
        scheduler.register_many(2);
        let other = scheduler.submit_gang(2);
        let claims = scheduler.start_gang(&other);
        finish(&scheduler, &claims);
        assert_eq!(scheduler.gang_statuses(&held), ["blocked"; 2]);
        change(&scheduler, &held, "unhold").expect(200);
        scheduler.await_gang(&held, "reserved");
    }

    fn a_gang_nobody_knows_is_404(store) {
        let scheduler = Scheduler::start(store);
        let nobody = Gang { id: "gang-00000000-0000-4000-8000-000000000000".to_owned(), tasks: Vec::new() };
        for verb in ["cancel", "retry", "hold", "unhold", "preempt"] {
            change(&scheduler, &nobody, verb).expect_error(404, "gang not found");
        }
        for part in ["", "/why", "/events"] {
            let target = format!("/gangs/{}{part}", nobody.id);
            scheduler.http().get(&target).expect_error(404, "gang not found");
        }
    }

    fn a_gang_waits_for_what_it_depends_on_and_others_wait_for_all_of_it(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(2);
        let before = scheduler.submit("before");
        let gang = scheduler.submit_gang_with(&json!({
            "command": "middle", "gang_size": 2, "depends_on": [before],
        }));
        let by_gang = scheduler.submit_job(&json!({ "command": "after", "depends_on": [gang.id] }));
        let by_task = scheduler.submit_job(&json!({ "command": "after", "depends_on": [gang.tasks[1]] }));
        assert_eq!(id_of(&scheduler.claim(Some("w0"))), before);
        assert_eq!(scheduler.gang_statuses(&gang), ["blocked"; 2]);
        scheduler.report(&before, "done").expect_empty();
        let claims = scheduler.start_gang(&gang);
        finish(&scheduler, &claims[1..]);
        assert_eq!((scheduler.status(&id_of(&by_gang)), scheduler.status(&id_of(&by_task))), ("blocked".into(), "blocked".into()));
        finish(&scheduler, &claims[..1]);
        for after in [by_gang, by_task] {
            assert_eq!(scheduler.status(&id_of(&after)), "pending");
        }
    }

    fn what_depends_on_a_gang_that_fails_ends_with_it(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(2);
        let request = json!({ "command": "x", "gang_size": 2, "max_retries": 1 });
        let gang = scheduler.submit_gang_with(&request);
        let after = scheduler.submit_gang_with(&json!({ "command": "y", "gang_size": 2, "depends_on": [gang.id] }));
        let claims = scheduler.start_gang(&gang);
        scheduler.report_under(lease_of(&claims[1]), &gang.tasks[1], "fail").expect_empty();
        scheduler.acknowledge(&claims[..1], 1);
        assert_eq!(scheduler.gang_statuses(&gang), ["failed"; 2]);
        until("what follows has ended", Duration::from_secs(60), || {
            scheduler.gang_statuses(&after).iter().all(|status| status != "blocked")
        });
        assert_eq!(scheduler.gang_statuses(&after), ["failed"; 2]);
    }

    fn a_step_of_a_pipeline_may_be_a_gang(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(2);
        let text = "name: nightly\nsteps:\n\
            - {name: prepare, run: x}\n\
            - {name: train, run: x, needs: prepare, gang: 2}\n\
            - {name: report, run: x, needs: train}\n";
        scheduler.http().post("/pipelines", text).expect(201);
        let prepare = scheduler.claim(Some("w0"));
        assert_eq!((&prepare["step"], scheduler.try_claim(None)), (&json!("prepare"), None));
        finish(&scheduler, &[prepare]);
        let gangs = scheduler.http().get("/gangs").expect(200).json();
        let tasks = scheduler.http().get(&format!("/gangs/{}", id_of(&gangs[0]))).expect(200).json();
        let tasks = tasks.as_array().unwrap().iter().map(id_of).collect();
        let gang = Gang { id: id_of(&gangs[0]), tasks };
        let claims = scheduler.start_gang(&gang);
        assert!(claims.iter().all(|claim| claim["step"] == "train"), "{claims:?}");
        finish(&scheduler, &claims[..1]);
        assert!(scheduler.try_claim(None).is_none(), "not before all of it is done");
        finish(&scheduler, &claims[1..]);
        assert_eq!(scheduler.claim(None)["step"], "report");
    }

    fn a_gang_may_start_with_fewer(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register_many(2);
        let gang = scheduler.submit_gang_with(&json!({ "command": "x", "gang_size": 4, "gang_min": 2 }));
        until("the first two are placed", Duration::from_secs(60), || {
            scheduler.gang_statuses(&gang) == ["reserved", "reserved", "blocked", "blocked"]
        });
        let claims: Vec<Value> =
            scheduler.gang(&gang)[..2].iter().map(|task| scheduler.claim(task["worker_id"].as_str())).collect();
        assert!(claims.iter().all(|claim| claim["env"]["GANG_SIZE"] == "2"));
        finish(&scheduler, &claims);
        assert_eq!(scheduler.gang_statuses(&gang), ["done", "done", "cancelled", "cancelled"]);
        assert_eq!(listed(&scheduler, "?state=done").0, [gang.id], "the others were not needed");
    }
}
