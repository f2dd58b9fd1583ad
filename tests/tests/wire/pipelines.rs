//! Pipelines over HTTP: taken whole or refused with the place, drawn, extended, cancelled, run again.

use muster_tests::{Scheduler, for_each_store, id_of, lease_of};
use serde_json::{Value, json};

const NIGHTLY: &str = "name: nightly\n\
    params: {DATE: today}\n\
    steps:\n\
    - {name: extract, run: 'echo $DATE'}\n\
    - {name: fit, run: x, needs: extract, matrix: {LR: [1, 2]}, max_parallel: 1, max_retries: 1}\n\
    - {name: report, run: x, needs: fit}\n\
    - {name: cleanup, run: x, needs: [{step: fit, rule: all_done}]}\n\
    - {name: alert, run: x, needs: fit, rule: one_failed}\n";

fn submit(scheduler: &Scheduler, text: &str) -> Value {
    scheduler.http().post("/pipelines", text).expect(201).json()
}

fn step<'p>(pipeline: &'p Value, name: &str) -> &'p Value {
    let steps = pipeline["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step {name}: {pipeline}"))
}

fn show(scheduler: &Scheduler, id: &str) -> Value {
    scheduler.http().get(&format!("/pipelines/{id}")).expect(200).json()
}

/// Claims the next job and ends it; returns its step.
fn run(scheduler: &Scheduler, end: &str) -> String {
    let job = scheduler.claim(None);
    scheduler.report_under(lease_of(&job), &id_of(&job), end).expect(200);
    job["step"].as_str().unwrap().to_owned()
}

for_each_store! {
    fn a_pipeline_runs_in_its_order_and_is_drawn(store) {
        let scheduler = Scheduler::start(store);
        let pipeline = submit(&scheduler, NIGHTLY);
        let id = id_of(&pipeline);
        assert!(id.starts_with("set-"), "{id}");
        assert_eq!((&pipeline["size"], &pipeline["status"]), (&json!(6), &json!("pending")));
        assert_eq!(step(&pipeline, "fit")["size"], 2);
        assert_eq!(step(&pipeline, "alert")["needs"], json!([{"step": "fit", "rule": "one_failed"}]));
        let first = scheduler.claim(None);
        assert_eq!((&first["step"], &first["env"]["DATE"]), (&json!("extract"), &json!("today")));
        assert_eq!(first["env"]["MUSTER_PIPELINE_ID"], json!(id));
        scheduler.report_under(lease_of(&first), &id_of(&first), "done").expect(200);
        let fit = scheduler.claim(None);
        assert_eq!((&fit["step"], &fit["array_index"], &fit["env"]["LR"]), (&json!("fit"), &json!(0), &json!("1")));
        assert!(scheduler.try_claim(None).is_none(), "one at a time");
        scheduler.report_under(lease_of(&fit), &id_of(&fit), "done").expect(200);
        assert_eq!(run(&scheduler, "done"), "fit");
        let drawn = show(&scheduler, &id);
        assert_eq!(step(&drawn, "fit")["counts"], json!({"done": 2}));
        assert_eq!(step(&drawn, "fit")["status"], "done");
        assert!(step(&drawn, "fit")["started_at"].is_string() && step(&drawn, "fit")["done_at"].is_string());
        assert_eq!(step(&drawn, "alert")["status"], "cancelled");
        assert!(step(&drawn, "alert")["reason"].as_str().unwrap().starts_with("skipped"), "{drawn}");
        assert_eq!([run(&scheduler, "done"), run(&scheduler, "done")], ["report", "cleanup"]);
        let ended = show(&scheduler, &id);
        assert_eq!((&ended["status"], &ended["counts"]), (&json!("done"), &json!({"done": 5, "cancelled": 1})));
        assert!(ended["done_at"].is_string());
        let listed = scheduler.http().get("/pipelines").expect(200).json();
        assert_eq!((listed[0]["id"].as_str(), listed[0]["name"].as_str()), (Some(id.as_str()), Some("nightly")));
        let jobs = scheduler.http().get(&format!("/jobs?pipeline={id}&step=fit")).expect(200).json();
        assert_eq!(jobs.as_array().unwrap().len(), 2);
    }

    fn a_failed_step_does_what_the_file_says_and_is_run_again(store) {
        let scheduler = Scheduler::start(store);
        let id = id_of(&submit(&scheduler, NIGHTLY));
        run(&scheduler, "done");
        assert_eq!([run(&scheduler, "fail"), run(&scheduler, "done")], ["fit", "fit"]);
        let drawn = show(&scheduler, &id);
        assert_eq!(step(&drawn, "fit")["status"], "failed");
        assert_eq!(step(&drawn, "report")["status"], "failed");
        let mut next = [run(&scheduler, "done"), run(&scheduler, "done")];
        next.sort();
        assert_eq!(next, ["alert", "cleanup"]);
        assert_eq!(show(&scheduler, &id)["status"], "failed");
        let unknown = scheduler.http().post(&format!("/pipelines/{id}/retry?from=nobody"), "");
        assert!(unknown.expect(400).text().contains("its steps are extract, fit"), "{}", unknown.text());
        let again = scheduler.http().post(&format!("/pipelines/{id}/retry?from=fit"), "").expect(200).json();
        assert_eq!(again["changed"].as_array().unwrap().len(), 1, "{again}");
        let drawn = show(&scheduler, &id);
        assert_eq!((&step(&drawn, "report")["status"], &drawn["status"]), (&json!("blocked"), &json!("running")));
        assert_eq!([run(&scheduler, "done"), run(&scheduler, "done")], ["fit", "report"]);
        assert_eq!(show(&scheduler, &id)["status"], "done");
    }

    fn a_pipeline_is_cancelled_and_retried_whole(store) {
        let scheduler = Scheduler::start(store);
        let id = id_of(&submit(&scheduler, NIGHTLY));
        let running = scheduler.claim(Some("w"));
        let dry = scheduler.http().post(&format!("/pipelines/{id}/cancel?dry_run=true"), "").expect(200).json();
        assert_eq!((&dry["dry_run"], dry["stopping"].as_array().unwrap().len()), (&json!(true), 1), "{dry}");
        assert_eq!(show(&scheduler, &id)["status"], "running");
        scheduler.http().post(&format!("/pipelines/{id}/cancel?message=enough"), "").expect(200);
        scheduler.report_under(lease_of(&running), &id_of(&running), "preempted?epoch=1").expect_empty();
        let ended = show(&scheduler, &id);
        assert_eq!((&ended["status"], &ended["counts"]), (&json!("cancelled"), &json!({"cancelled": 6})));
        let again = scheduler.http().post(&format!("/pipelines/{id}/retry"), "").expect(200).json();
        assert_eq!(again["changed"].as_array().unwrap().len(), 6, "{again}");
        let drawn = show(&scheduler, &id);
        assert_eq!(drawn["counts"], json!({"pending": 1, "blocked": 5}), "{drawn}");
    }

    fn steps_are_added_while_it_runs(store) {
        let scheduler = Scheduler::start(store);
        let id = id_of(&submit(&scheduler, "steps:\n- {name: a, run: x}\n"));
        let path = format!("/pipelines/{id}/steps");
        let more = "steps:\n- {name: b, run: x, needs: a}\n- {name: c, run: x, needs: b}\n";
        let grown = scheduler.http().post(&path, more).expect(201).json();
        assert_eq!((&grown["size"], grown["steps"].as_array().unwrap().len()), (&json!(3), 3));
        assert_eq!([run(&scheduler, "done"), run(&scheduler, "done"), run(&scheduler, "done")], ["a", "b", "c"]);
        let again = scheduler.http().post(&path, more);
        assert!(matches!(again.status, 400 | 409), "{}", again.text());
        let wrong = scheduler.http().post(&path, "steps:\n- {name: d, run: x, needs: nobody}\n");
        assert!(wrong.expect(400).text().contains("nobody"), "{}", wrong.text());
        scheduler.http().post("/pipelines/set-67e55044-10b1-426f-9247-bb680e5fe0c8/steps", more).expect(404);
    }

    fn mistakes_are_named_by_their_place(store) {
        let scheduler = Scheduler::start(store);
        for (text, place, word) in [
            ("steps:\n- {name: a, run: x, needs: b}\n- {name: b, run: x, needs: a}\n", "3:", "a -> b -> a"),
            ("steps:\n- {name: a, run: x}\n- {name: a, run: y}\n", "3:", "a"),
            ("steps:\n- {name: a, run: x, needs: bb}\n", "2:", "bb"),
            ("steps:\n- {name: a, rum: x}\n", "2:", "rum"),
            ("steps:\n- {name: a, run: x, timeout: soon}\n", "2:", "soon"),
            ("steps: [\n", "", ""),
        ] {
            let refused = scheduler.http().post("/pipelines", text);
            let message = refused.expect(400).text();
            assert!(message.contains(place) && message.contains(word), "{text}: {message}");
        }
        let missing = "params: {DATE: }\nsteps:\n- {name: a, run: x}\n";
        assert!(scheduler.http().post("/pipelines", missing).expect(400).text().contains("DATE"));
        scheduler.http().post("/pipelines?param=DATE%3D1", missing).expect(201);
        assert_eq!(scheduler.jobs().len(), 1);
    }

    fn a_repeated_submit_returns_the_first_pipeline(store) {
        let scheduler = Scheduler::start(store);
        let post = || {
            let request = scheduler.http().request("POST", "/pipelines").header("Idempotency-Key", "night-1");
            request.body("steps:\n- {name: a, run: x}\n").send()
        };
        let (first, second) = (post(), post());
        assert_eq!((first.status, second.status), (201, 200));
        assert_eq!(id_of(&first.json()), id_of(&second.json()));
        assert_eq!(scheduler.jobs().len(), 1);
    }
}
