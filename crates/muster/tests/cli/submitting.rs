//! `submit`, `wait`, `cancel`.

use serde_json::json;

use crate::harness::Up;

#[test]
fn submit_prints_the_id_and_wait_waits() {
    let up = Up::start();
    let id = up.submit(&["--name", "n", "--cpus", "1", "--memory", "16M", "--priority", "-3", "--", "true"]);
    let waited = up.run(&["wait", &id]).ok();
    assert_eq!(waited.stdout, format!("{id} done\n"));
    let job = up.show(&id);
    assert_eq!((&job["name"], &job["priority"]), (&json!("n"), &json!(-3)));
    assert_eq!(job["resources"], json!({"cpus": 1.0, "memory_mb": 16}));
    assert_eq!(job["argv"], json!(["true"]));
}

#[test]
fn wait_exits_with_the_code_of_the_first_failure() {
    let up = Up::start();
    let good = up.submit(&["--", "true"]);
    let bad = up.submit(&["--max-retries", "1", "--", "sh", "-c", "exit 5"]);
    let worse = up.submit(&["--max-retries", "1", "--", "sh", "-c", "exit 6"]);
    assert_eq!(up.run(&["wait", &good, &worse, &bad]).code(), 6);
    assert_eq!(up.run(&["wait", &bad, "--json"]).json()[0]["exit_code"], 5);
    let endless = up.submit(&["--", "sleep", "60"]);
    let late = up.run(&["wait", &endless, "--timeout", "50ms"]);
    assert_eq!(late.code(), 124, "{late:?}");
    up.run(&["cancel", &endless]).ok();
    assert_eq!(up.run(&["wait", &endless]).code(), 130);
}

#[test]
fn jobs_wait_for_those_before_them() {
    let up = Up::start();
    let first = up.submit(&["--", "sh", "-c", "echo first > order"]);
    let second = up.submit(&["--after", &first[..16], "--", "sh", "-c", "echo second >> order"]);
    up.run(&["wait", &second]).ok();
    assert_eq!(std::fs::read_to_string(up.directory.path().join("order")).unwrap(), "first\nsecond\n");
}

#[test]
fn a_file_of_jobs_is_submitted_with_its_references() {
    let up = Up::start();
    let lines = "{\"ref\":\"a\",\"command\":\"true\"}\n{\"argv\":[\"true\"],\"depends_on\":[\"a\"]}\n";
    std::fs::write(up.directory.path().join("jobs.jsonl"), lines).unwrap();
    let finished = up.run(&["submit", "jobs.jsonl"]).ok();
    let ids: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(ids.len(), 2);
    up.run(&["wait", ids[0], ids[1]]).ok();
    assert_eq!(up.show(ids[1])["depends_on"], json!([ids[0]]));
}

#[test]
fn a_batch_from_standard_input_says_what_was_refused() {
    let up = Up::start();
    let array = r#"[{"command":"true"},{"command":""}]"#;
    let partly = up.run_with_input(&["submit", "-"], array);
    assert_eq!((partly.code(), partly.stdout.lines().count()), (1, 1));
    assert!(partly.stderr.contains("job 2 of 2"), "{partly:?}");
    let none = up.run_with_input(&["submit", "--atomic", "-"], array);
    assert_eq!((none.code(), none.stdout.as_str()), (1, ""), "{none:?}");
    let json = up.run_with_input(&["submit", "--json", "-"], r#"{"command":"true"}"#).ok().json();
    assert!(json[0]["id"].as_str().unwrap().starts_with("job-"));
}

#[test]
fn cancel_goes_on_after_one_that_cannot_be_cancelled() {
    let up = Up::start();
    let done = up.submit(&["--", "true"]);
    up.run(&["wait", &done]).ok();
    let waiting = up.submit(&["--tag", "nowhere", "--", "true"]);
    let dependant = up.submit(&["--after", &waiting, "--", "true"]);
    let finished = up.run(&["cancel", &done, &waiting]);
    assert_eq!(finished.code(), 1);
    assert!(finished.stderr.contains(&done), "{finished:?}");
    assert!(finished.stdout.contains(&waiting) && finished.stdout.contains(&dependant), "{finished:?}");
    assert_eq!(up.show(&dependant)["status"], "cancelled");
}

#[test]
fn the_same_key_gives_the_same_job() {
    let up = Up::start();
    let submit = || up.submit(&["--idempotency-key", "once", "--", "true"]);
    assert_eq!(submit(), submit());
}
