//! Arrays, and everything that changes jobs and queues which are there.

use muster_tests::until;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{BOUND, Up};

fn written(up: &Up, name: &str) -> Option<String> {
    std::fs::read_to_string(up.directory.path().join(name)).ok()
}

#[test]
fn an_array_runs_each_index_and_names_what_failed() {
    let up = Up::start();
    let script = "echo $MUSTER_ARRAY_INDEX > index-$MUSTER_ARRAY_INDEX; test $MUSTER_ARRAY_INDEX != 12";
    let id = up.submit(&["--array", "10-13%2", "--max-retries", "1", "--", "sh", "-c", script]);
    assert_eq!(up.run(&["wait", &id]).code(), 1);
    for index in 10..14 {
        assert_eq!(written(&up, &format!("index-{index}")), Some(format!("{index}\n")));
    }
    let shown = up.run(&["show", &id]).ok().stdout;
    assert!(shown.contains("3 done, 1 failed") && shown.contains("failed:     12"), "{shown}");
    assert_eq!(up.run(&["ls", &id, "--json"]).ok().json().as_array().unwrap().len(), 4);
    let list = up.run(&["arrays", "--json"]).ok().json();
    assert_eq!((&list[0]["size"], &list[0]["max_parallel"]), (&json!(4), &json!(2)));
}

#[test]
fn lines_and_elements_become_jobs() {
    let up = Up::start();
    std::fs::write(up.directory.path().join("lines"), "one\n\ntwo words\n").unwrap();
    let script = "echo \"$MUSTER_ARRAY_ITEM\" > line-$MUSTER_ARRAY_INDEX";
    up.run(&["submit", "--each-line", "lines", "--wait", "--", "sh", "-c", script]).ok();
    assert_eq!(
        (written(&up, "line-0"), written(&up, "line-1")),
        (Some("one\n".into()), Some("two words\n".into()))
    );
    let elements = r#"[{"NAME": "a", "SIZE": 5}, {"NAME": "b", "SIZE": 7}]"#;
    up.run_with_input(
        &["submit", "--each-json", "-", "--wait", "--", "sh", "-c", "echo $SIZE > size-$NAME"],
        elements,
    )
    .ok();
    assert_eq!((written(&up, "size-a"), written(&up, "size-b")), (Some("5\n".into()), Some("7\n".into())));
}

#[test]
fn a_held_job_starts_when_it_is_released() {
    let up = Up::start();
    let id = up.submit(&["--hold", "--", "true"]);
    assert!(up.show(&id)["held"].is_string(), "{}", up.show(&id));
    up.run(&["release", &id]).ok();
    up.run(&["wait", &id]).ok();
}

#[test]
fn a_job_that_waits_is_changed_and_one_that_ended_deleted() {
    let up = Up::start();
    let id = up.submit(&["--tag", "nowhere", "--cpus", "1", "--memory", "64M", "--", "true"]);
    up.run(&["edit", &id, "--priority", "7", "--cpus", "2", "--max-retries", "5", "--timeout", "1m"]).ok();
    let job = up.show(&id);
    assert_eq!(job["resources"], json!({"cpus": 2.0, "memory_mb": 64}));
    assert_eq!(
        (&job["priority"], &job["max_retries"], &job["timeout_seconds"]),
        (&json!(7), &json!(5), &json!(60.0))
    );
    let refused = up.run(&["delete", &id]);
    assert_eq!(refused.code(), 1, "{refused:?}");
    let would = up.run(&["cancel", "--dry-run", &id]).ok();
    assert_eq!(would.stdout, format!("{id} would be cancelled\n"));
    up.run(&["cancel", &id]).ok();
    assert_eq!(up.run(&["delete", &id]).ok().stdout, format!("{id} deleted\n"));
    assert_eq!(up.run(&["show", &id]).code(), 1);
}

#[test]
fn filters_choose_many_jobs() {
    let up = Up::start();
    let submit = |queue: &str| up.submit(&["--queue", queue, "--tag", "nowhere", "--", "true"]);
    let (one, two, other) = (submit("q"), submit("q"), submit("other"));
    let would = up.run(&["hold", "--queue", "q", "--dry-run", "--json"]).ok().json();
    assert_eq!((would["changed"].as_array().unwrap().len(), &would["dry_run"]), (2, &json!(true)));
    up.run(&["hold", "--queue", "q"]).ok();
    assert!(up.show(&one)["held"].is_string() && up.show(&other)["held"].is_null());
    up.run(&["cancel", "--queue", "q", "--status", "waiting", "--yes"]).ok();
    assert_eq!(
        (&up.show(&two)["status"], &up.show(&other)["status"]),
        (&json!("cancelled"), &json!("pending"))
    );
    let nothing = up.run(&["release", "--queue", "nobody"]).ok();
    assert!(nothing.stderr.contains("no job matches"), "{nothing:?}");
}

#[test]
fn failed_jobs_run_again() {
    let up = Up::start();
    let id = up.submit(&["--max-retries", "1", "--", "test", "-e", "ready"]);
    assert_eq!(up.run(&["wait", &id]).code(), 1);
    std::fs::write(up.directory.path().join("ready"), "").unwrap();
    up.run(&["retry", &id]).ok();
    up.run(&["wait", &id]).ok();
}

#[test]
fn a_paused_queue_starts_nothing() {
    let up = Up::start();
    let paused = up.run(&["queue", "pause", "q", "--json"]).ok().json();
    assert_eq!(paused["paused"], true);
    let id = up.submit(&["--queue", "q", "--", "true"]);
    let why = up.run(&["why", &id]).ok().stdout;
    assert!(why.contains("paused"), "{why}");
    let listed = up.run(&["queue", "ls"]).ok().stdout;
    assert!(listed.lines().any(|line| line.starts_with("q ") && line.contains("paused")), "{listed}");
    up.run(&["queue", "resume", "q"]).ok();
    up.run(&["wait", &id]).ok();
    let set = up.run(&["queue", "set", "q", "--max-queued", "5", "--rate", "10/1m", "--json"]).ok().json();
    assert_eq!((&set["max_queued"], &set["rate"]["seconds"]), (&json!(5), &json!(60.0)));
    let cleared =
        up.run(&["queue", "set", "q", "--max-queued", "none", "--rate", "none", "--json"]).ok().json();
    assert!(cleared["max_queued"].is_null() && cleared["rate"].is_null(), "{cleared}");
}

#[test]
fn a_full_queue_refuses_with_the_numbers_and_the_next_step() {
    let up = Up::start();
    up.run(&["queue", "set", "small", "--max-queued", "1"]).ok();
    up.submit(&["--queue", "small", "--tag", "nowhere", "--", "true"]);
    for arguments in [&["--", "true"][..], &["--array", "0-9", "--", "true"]] {
        let words: Vec<&str> = ["submit", "--queue", "small"].iter().chain(arguments).copied().collect();
        let refused = up.run(&words);
        assert_eq!(refused.code(), 1, "{refused:?}");
        assert!(
            refused.stderr.contains("at most 1 may") && refused.stderr.contains("queue ls"),
            "{refused:?}"
        );
    }
}

#[test]
fn conditions_reach_the_job() {
    let up = Up::start();
    let gone = up.submit(&["--timeout", "200ms", "--max-retries", "1", "--", "sleep", "60"]);
    assert_eq!(up.run(&["wait", &gone]).code(), 124);
    assert!(up.show(&gone)["reason"].as_str().unwrap().contains("timeout"));
    let after = up.submit(&["--needs", &format!("{gone}:all_failed"), "--", "true"]);
    up.run(&["wait", &after]).ok();
    let later = up.submit(&[
        "--delay",
        "1h",
        "--deadline",
        "2h",
        "--concurrency",
        "db=2",
        "--unique",
        "k",
        "--signal",
        "int",
        "--backoff",
        "1s:3",
        "--retry-on",
        "exit=4",
        "--",
        "true",
    ]);
    let job = up.show(&later);
    assert!(job["not_before"].is_string() && job["deadline"].is_string(), "{job}");
    assert_eq!(job["concurrency"], json!({"key": "db", "limit": 2}));
    assert_eq!((&job["stop_signal"], &job["retry"]["exit_codes"]), (&json!("SIGINT"), &json!([4])));
    assert_eq!(up.submit(&["--unique", "k", "--", "true"]), later);
    let replacement = up.submit(&["--unique", "k", "--replace", "--", "true"]);
    assert_ne!(replacement, later);
    up.run(&["wait", &replacement]).ok();
}

#[test]
fn run_waits_for_an_array_and_names_what_failed() {
    let up = Up::start();
    let done = up.run(&["run", "--array", "0-3", "--", "true"]).ok();
    assert!(done.stdout.contains("done (4 done)"), "{done:?}");
    let failed = up.run(&["run", "--array", "5-8", "--", "sh", "-c", "test $MUSTER_ARRAY_INDEX -lt 7"]);
    assert_eq!(failed.code(), 1, "{failed:?}");
    assert!(failed.stderr.contains("failed: 7-8"), "{failed:?}");
}

#[test]
fn a_signal_cancels_the_rest_of_an_array_that_runs() {
    let up = Up::start();
    let run = up.start_command(&["run", "--array", "0-9", "--", "sh", "-c", "touch started; sleep 600"]);
    until("an element runs", BOUND, || written(&up, "started").is_some());
    run.signal(Signal::SIGINT);
    let finished = run.finish();
    assert_eq!(finished.code(), 130, "{finished:?}");
    let jobs = up.run(&["ls", "--json"]).ok().json();
    assert!(jobs.as_array().unwrap().iter().all(|job| job["status"] == "cancelled"), "{jobs}");
}

#[test]
fn private_work_and_who_did_it_are_shown() {
    let up = Up::start();
    let id = up.submit(&["--private", "--hold", "--", "true"]);
    assert_eq!(up.show(&id)["private"], json!(true));
    assert!(up.run(&["show", &id]).ok().stdout.contains("only its owner and operators see it"));
    let array = up.submit(&["--private", "--hold", "--array", "0-1", "--", "true"]);
    let elements = up.run(&["ls", &array, "--json"]).ok().json();
    assert!(elements.as_array().unwrap().iter().all(|job| job["private"] == json!(true)), "{elements}");
    up.run(&["release", &id]).ok();
    up.run(&["wait", &id]).ok();
    let events = up.run(&["events", &id]).ok().stdout;
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!(lines.len(), 4, "{events}");
    for (line, by) in lines.iter().zip(["by local", "by local", "attempt 1 on ", "by worker "]) {
        assert!(line.contains(by), "{events}");
    }
    let told = up.run(&["events", &id, "--json"]).ok().json();
    assert_eq!(told[0]["by"], json!("local"));
    assert!(told[2]["by"].as_str().unwrap().starts_with("worker "), "{told}");
}

#[test]
fn a_queue_shows_the_users_that_it_names() {
    let up = Up::start();
    let lists = ["--submitters", "ann,bob", "--admins", "carl", "--viewers", "vera"];
    let shown = up.run(&[&["queue", "set", "team"], lists.as_slice()].concat()).ok().stdout;
    for line in ["submit:     ann, bob", "admins:     carl", "viewers:    vera"] {
        assert!(shown.contains(line), "{shown}");
    }
    up.run(&["queue", "set", "team", "--submitters", "none"]).ok();
    let shown = up.run(&["queue", "show", "team", "--json"]).ok().json();
    assert_eq!((shown.get("submitters"), &shown["admins"]), (None, &json!(["carl"])));
    let wrong = up.run(&["queue", "set", "team", "--viewers", "ann,,bob"]);
    assert!(wrong.code() == 2 && wrong.stderr.contains("ann,bob or none"), "{wrong:?}");
}
