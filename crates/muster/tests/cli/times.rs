//! Jobs that take too long, and values that a job hands on to the next.

use muster_tests::Http;
use serde_json::{Value, json};

use crate::harness::Up;

fn post(up: &Up, target: &str, body: &Value) -> Value {
    let port = up.url.rsplit(':').next().unwrap().parse().unwrap();
    Http::new(port).post_json(target, body).json()
}

#[test]
fn a_run_that_takes_too_long_exits_like_timeout() {
    let up = Up::start();
    let finished = up.run(&["run", "--timeout", "1s", "--", "sleep", "60"]);
    assert_eq!(finished.code(), 124, "{finished:?}");
    assert!(finished.stderr.contains("timeout"), "{finished:?}");
    let job = up.show(&up.only_job());
    assert_eq!(
        (&job["status"], &job["reason"], &job["attempts"]),
        (&json!("failed"), &json!("timeout"), &json!(1))
    );
}

#[test]
fn a_timeout_costs_an_attempt_and_is_never_a_success() {
    let up = Up::start();
    let script = "trap 'exit 0' INT; echo attempt; while :; do sleep 0.02; done";
    let request =
        json!({ "command": script, "timeout_seconds": 0.5, "max_retries": 2, "stop_signal": "SIGINT" });
    let id = post(&up, "/jobs", &request)["id"].as_str().unwrap().to_owned();
    let waited = up.run(&["wait", &id]);
    assert_eq!(waited.code(), 124, "{waited:?}");
    assert!(waited.stdout.contains("(timeout)") || waited.stderr.contains("(timeout)"), "{waited:?}");
    let job = up.show(&id);
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("timeout")));
    assert_eq!((&job["attempts"], &job["exit_code"]), (&json!(2), &json!(0)));
}

#[test]
fn outputs_reach_the_environment_of_those_that_need_them() {
    let up = Up::start();
    let batch = json!([
        { "ref": "load", "name": "load-data", "command": "echo rows=5 >> $MUSTER_OUTPUT; echo path=/a b >> $MUSTER_OUTPUT" },
        { "ref": "fit", "name": "fit", "command": "echo '{\"loss\": 0.25, \"best\": {\"epoch\": 3}}' > $MUSTER_OUTPUT" },
        { "command": "echo $MUSTER_NEEDS_LOAD_DATA_ROWS:$MUSTER_NEEDS_LOAD_DATA_PATH; \
            echo $MUSTER_NEEDS_FIT_LOSS:$MUSTER_NEEDS_FIT_BEST", "depends_on": ["load", "fit"] },
    ]);
    let answer = post(&up, "/jobs/batch", &batch);
    let id = |index: usize| answer[index]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    up.run(&["wait", &id(2)]).ok();
    assert_eq!(up.run(&["logs", &id(2)]).ok().stdout, "5:/a b\n0.25:{\"epoch\":3}\n");
    assert_eq!(up.show(&id(0))["outputs"], json!({ "rows": "5", "path": "/a b" }));
    assert_eq!(up.show(&id(1))["outputs"], json!({ "loss": 0.25, "best": { "epoch": 3 } }));
}

#[test]
fn outputs_that_are_none_are_explained_where_people_look() {
    let up = Up::start();
    let finished = up.run(&["run", "--", "sh", "-c", "echo just words > $MUSTER_OUTPUT"]).ok();
    assert!(finished.stderr.contains("MUSTER_OUTPUT") && finished.stderr.contains("line 1"), "{finished:?}");
    assert_eq!(up.show(&up.only_job())["outputs"], Value::Null);
}
