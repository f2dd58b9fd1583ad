//! Artifacts of needed jobs that a job finds when it starts: where they are, whose they may be, and what happens when they are not
//! there.

use std::fs;
use std::time::Duration;

use muster_tests::{Scheduler, Settings, StoreKind, Worker, WorkerSettings, for_each_store, id_of, until};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(90);

/// Submits a pipeline and waits until the step has ended; returns the job of that step.
fn ended(scheduler: &Scheduler, text: &str, step: &str) -> Value {
    let pipeline = id_of(&scheduler.http().post("/pipelines", text).expect(201).json());
    let job = move || {
        let jobs = scheduler.jobs();
        let own = jobs.into_iter().find(|job| job["pipeline_id"] == pipeline.as_str() && job["step"] == step);
        own.unwrap_or_else(|| panic!("no step {step}"))
    };
    until("the step has ended", BOUND, || {
        matches!(job()["status"].as_str(), Some("done" | "failed" | "cancelled"))
    });
    scheduler.job(&id_of(&job()))
}

fn output(scheduler: &Scheduler, job: &Value) -> String {
    scheduler.http().get(&format!("/jobs/{}/logs", id_of(job))).expect(200).text()
}

fn reason(job: &Value) -> &str {
    job["reason"].as_str().unwrap_or_default()
}

for_each_store! {
    fn a_step_finds_what_those_that_it_needs_left(kind) {
        let scheduler = Scheduler::start(kind);
        let worker = Worker::start(&scheduler, WorkerSettings::new("w", 4));
        let text = "steps:\n\
            - name: extract\n  max_retries: 2\n  run: |\n    cd $MUSTER_ARTIFACTS; mkdir -p parts/x\n\
            \x20   test $MUSTER_ATTEMPT = 2 || { echo old > raw.csv; exit 1; }\n\
            \x20   echo raw > raw.csv; echo 1 > parts/1; echo 2 > parts/x/2; echo no > other\n\
            - {name: fit, run: 'echo fit $MUSTER_ARRAY_INDEX > $MUSTER_ARTIFACTS/m', array: '3,5'}\n\
            - {name: ranks, gang: {size: 2, tasks_per_worker: 2}, run: 'echo rank $GANG_INDEX > $MUSTER_ARTIFACTS/r'}\n\
            - name: use\n  needs: [extract, fit, ranks]\n  inputs:\n\
            \x20 - {from: extract, path: raw.csv}\n\
            \x20 - {from: extract, path: raw.csv, to: data/again.csv}\n\
            \x20 - {from: extract, path: 'parts/*', to: flat}\n\
            \x20 - {from: extract, path: parts/, to: deep}\n\
            \x20 - {from: fit, path: m}\n\
            \x20 - {from: ranks, to: gang}\n\
            \x20 run: 'cd $MUSTER_INPUTS && find . -type f | sort | xargs grep -H .'\n\
            - {name: all, needs: extract, inputs: [extract], run: 'cd $MUSTER_INPUTS && find . -type f | sort'}\n";
        let used = ended(&scheduler, text, "use");
        assert_eq!(used["status"], "done", "{used}");
        assert_eq!(output(&scheduler, &used), "./data/again.csv:raw\n./deep/1:1\n./deep/x/2:2\n./fit/3/m:fit 3\n\
            ./fit/5/m:fit 5\n./flat/1:1\n./gang/0/r:rank 0\n./gang/1/r:rank 1\n./raw.csv:raw\n");
        assert_eq!(used["inputs"][1], json!({"from": "extract", "path": "raw.csv", "to": "data/again.csv"}));
        let all = scheduler.jobs().into_iter().find(|job| job["step"] == "all").unwrap();
        let all = scheduler.await_status(&id_of(&all), "done", BOUND);
        assert_eq!(output(&scheduler, &all), "./other\n./parts/1\n./parts/x/2\n./raw.csv\n");
        let rooms = worker.directory().join("rooms");
        until("nothing is left", BOUND, || fs::read_dir(&rooms).unwrap().next().is_none());
    }

    fn what_is_not_there_fails_the_job_once_and_is_named(kind) {
        let scheduler = Scheduler::start(kind);
        let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 4));
        let with = |input: &str| format!("steps:\n\
            - {{name: a, run: 'cd $MUSTER_ARTIFACTS; echo x > x; mkdir y; echo z > y/z; ln -s /etc out'}}\n\
            - {{name: b, needs: a, inputs: [{input}], run: 'echo ran'}}\n");
        for (input, words) in [
            ("{from: a, path: none.csv}", "left no artifact \"none.csv\""),
            ("{from: a, path: '*.csv'}", "no artifact of a fits \"*.csv\""),
            ("{from: a, path: out}", "link"),
            ("a, {from: a, path: x}", "two inputs of the job would be \"x\""),
            ("{from: a, path: x, to: y}, {from: a, path: y}", "\"y/z\""),
        ] {
            let failed = ended(&scheduler, &with(input), "b");
            assert_eq!((&failed["status"], &failed["attempts"]), (&json!("failed"), &json!(1)), "{failed}");
            assert!(reason(&failed).contains(words), "{failed}");
            assert_eq!(output(&scheduler, &failed), "");
        }
    }

    fn inputs_are_of_needed_jobs_only(kind) {
        let scheduler = Scheduler::start(kind);
        let refused = |body: &Value| scheduler.http().post_json("/jobs", body).expect(400).text();
        let first = scheduler.submit("true");
        let asked = json!({"command": "x", "inputs": [{"from": first}]});
        assert!(refused(&asked).contains("does not depend on"));
        let asked = json!({"command": "x", "depends_on": [first], "inputs": [{"from": first, "path": "../x"}]});
        assert!(refused(&asked).contains("leads out"));
        let asked = json!({"command": "x", "depends_on": [first], "inputs": [{"from": first, "as": "x"}]});
        assert!(refused(&asked).contains("as"));
        let with = |inputs: &str| {
            let text = format!("steps:\n- {{name: a, run: x}}\n- {{name: b, run: x, needs: a}}\n- name: c\n  run: x\n  \
                needs: b\n  inputs:\n{inputs}");
            scheduler.http().post("/pipelines", text).expect(400).text()
        };
        let said = with("    - {from: a, path: x}\n    - {from: b, path: /x}\n");
        for words in ["8:14: the step takes inputs from \"a\", which it does not need", "9:23: path is \"/x\""] {
            assert!(said.contains(words), "{said}");
        }
        let said = with("    - {path: x}\n");
        assert!(said.contains("8:7: an input needs the step"), "{said}");
    }

    fn a_job_of_the_api_gets_artifacts_and_only_its_own(kind) {
        let scheduler = Scheduler::start(kind);
        let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 2));
        let first = scheduler.submit("echo one > $MUSTER_ARTIFACTS/a; echo two > $MUSTER_ARTIFACTS/b");
        let other = scheduler.submit("echo other > $MUSTER_ARTIFACTS/a");
        let body = json!({"command": "cat $MUSTER_INPUTS/in/a; ls $MUSTER_INPUTS", "depends_on": [first, other],
            "inputs": [{"from": first, "path": "a", "to": "in/"}], "idempotency_key": "once"});
        let id = id_of(&scheduler.submit_job(&body));
        assert_eq!(id_of(&scheduler.http().post_json("/jobs", &body).json()), id, "the same is asked for again");
        let shown = scheduler.await_status(&id, "done", BOUND);
        assert_eq!(output(&scheduler, &shown), "one\nin\n");
        let files = scheduler.http().get(&format!("/jobs/{id}/inputs")).expect(200).json()["files"].clone();
        assert_eq!((files.as_array().unwrap().len(), &files[0]["path"]), (1, &json!("in/a")));
        let read = |name: &str, from: &str| scheduler.http().get(&format!("/jobs/{id}/inputs/{name}?from={from}"));
        assert_eq!(read("a", &first).expect(200).text(), "one\n");
        for (name, from) in [("b", &first), ("a", &other)] {
            read(name, from).expect(410);
        }
        read("a", "").expect(400);
    }
}

#[test]
fn in_the_copy_of_an_upload_artifacts_lie_where_the_job_runs() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 2));
    let first = scheduler.submit("cd $MUSTER_ARTIFACTS; echo new > raw.csv; echo x > more");
    let upload = crate::uploads::sent_file(&scheduler, "src/raw.csv", "stale");
    let body = |inputs: &Value| {
        json!({"command": "cat raw.csv; test $MUSTER_INPUTS = $PWD", "upload": upload, "working_dir": "src",
            "depends_on": [first], "inputs": inputs})
    };
    let id = id_of(&scheduler.submit_job(&body(&json!([{"from": first, "path": "raw.csv"}]))));
    let shown = scheduler.await_status(&id, "done", BOUND);
    assert_eq!(output(&scheduler, &shown), "new\n", "what was sent along gives way");
    let taken = json!([{"from": first, "path": "more", "to": "raw.csv/more"}]);
    let id = id_of(&scheduler.submit_job(&body(&taken)));
    let failed = scheduler.await_status(&id, "failed", BOUND);
    assert!(reason(&failed).contains("there is a file or a link already"), "{failed}");
}

#[test]
fn a_pipeline_that_is_run_again_takes_what_the_new_attempt_left() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let worker = Worker::start(&scheduler, WorkerSettings::new("w", 2));
    let mark = worker.directory().join("mark");
    fs::write(&mark, "first").unwrap();
    let text = format!(
        "defaults: {{max_retries: 1}}\nsteps:\n\
         - {{name: a, run: 'cp {0} $MUSTER_ARTIFACTS/x; grep -q second {0}'}}\n\
         - {{name: look, needs: a, rule: all_failed, inputs: [a], run: 'cat $MUSTER_INPUTS/x'}}\n\
         - {{name: b, needs: a, inputs: [a], run: 'cat $MUSTER_INPUTS/x'}}\n",
        mark.display()
    );
    let look = ended(&scheduler, &text, "look");
    assert_eq!(output(&scheduler, &look), "first", "of a step that failed, its last attempt counts");
    fs::write(&mark, "second").unwrap();
    let pipeline = look["pipeline_id"].as_str().unwrap();
    scheduler.http().post(&format!("/pipelines/{pipeline}/retry?from=a"), "").expect(200);
    let b = scheduler.jobs().into_iter().find(|job| job["step"] == "b").unwrap();
    let done = scheduler.await_status(&id_of(&b), "done", BOUND);
    assert_eq!(output(&scheduler, &done), "second");
}

#[test]
fn a_job_whose_parent_is_gone_fails_and_says_so() {
    let settings = Settings::default();
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
    let first = scheduler.submit("true");
    let claimed = scheduler.claim(None);
    scheduler.report_under(muster_tests::lease_of(&claimed), &first, "done").expect(200);
    let body = json!({"command": "true", "depends_on": [first], "inputs": [{"from": first}]});
    let id = id_of(&scheduler.submit_job(&body));
    scheduler.http().request("DELETE", &format!("/jobs/{first}")).send().expect(204);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let failed = scheduler.await_status(&id, "failed", BOUND);
    assert!(reason(&failed).contains("is gone"), "{failed}");
}

#[test]
fn a_worker_of_an_older_version_gets_no_job_that_needs_artifacts() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let first = scheduler.submit("true");
    let claimed = scheduler.claim(None);
    scheduler.report_under(muster_tests::lease_of(&claimed), &first, "done").expect(200);
    let body = json!({"command": "x", "depends_on": [first], "inputs": [{"from": first}], "max_retries": 1});
    let id = id_of(&scheduler.submit_job(&body));
    scheduler.register(&json!({"id": "old", "slots": 1}));
    let polled = scheduler.http().post_json("/workers/old/sync", &json!({"max": 1, "takes_inputs": true}));
    assert_eq!(polled.expect(200).json()["jobs"], json!([]));
    assert!(reason(&scheduler.job(&id)).contains("cannot fetch"));
}
