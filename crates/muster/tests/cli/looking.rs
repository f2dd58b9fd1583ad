//! `ls`, `show`, `logs`, `why`, `workers`, `events`, `version`.

use muster_tests::until;

use crate::harness::{BOUND, Up};

#[test]
fn ls_filters_and_pages() {
    let up = Up::start();
    for number in 0..5 {
        up.submit(&["--queue", "q", "--name", &format!("n{number}"), "--tag", "nowhere", "--", "true"]);
    }
    let done = up.submit(&["--", "true"]);
    up.run(&["wait", &done]).ok();
    let count = |arguments: &[&str]| up.run(arguments).ok().json().as_array().unwrap().len();
    assert_eq!(count(&["ls", "--json"]), 6);
    assert_eq!(count(&["ls", "--json", "--status", "pending,running"]), 5);
    assert_eq!(count(&["ls", "--json", "--queue", "q", "--name", "n3"]), 1);
    assert_eq!(count(&["ls", "--json", "--tag", "nowhere", "--limit", "2"]), 2);
    assert_eq!(count(&["ls", "--json", "--since", "1h"]), 6);
    assert_eq!(count(&["ls", "--json", "--since", "2200-01-01"]), 0);
    assert_eq!(count(&["ls", "--json", "--all"]), 6);
    let limited = up.run(&["ls", "--limit", "2"]).ok();
    assert_eq!(limited.stdout.lines().count(), 3, "{limited:?}");
    assert!(limited.stderr.contains("--all"), "{limited:?}");
    let quiet = up.run(&["ls", "--quiet", "--status", "done"]).ok();
    assert_eq!(quiet.line(), done);
}

#[test]
fn ls_shows_the_columns_that_were_asked_for_in_order() {
    let up = Up::start();
    for (name, priority) in [("low", "1"), ("high", "9"), ("middle", "5")] {
        up.submit(&["--name", name, "--priority", priority, "--tag", "nowhere", "--", "true"]);
    }
    let done = up.submit(&["--name", "done", "--", "true"]);
    up.run(&["wait", &done]).ok();
    let waiting = &["ls", "-s", "waiting", "--columns", "name,priority", "--sort", "priority"];
    let text = up.run(waiting).ok().stdout;
    assert_eq!(text, "NAME    PRIORITY\nhigh           9\nmiddle         5\nlow            1\n");
    let worker = up.run(&["workers", "--json"]).ok().json()[0]["id"].as_str().unwrap().to_owned();
    let there = up.run(&["ls", "--worker", &worker, "-c", "name,status", "--no-header"]).ok().stdout;
    assert_eq!(there, "done  done\n");
    let refused = up.run(&["ls", "--all", "--sort", "ran"]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("--limit"), "{refused:?}");
}

#[test]
fn a_long_table_keeps_its_columns_from_page_to_page() {
    let up = Up::start();
    let job = |n: u32| format!("{{\"command\":\"true\",\"name\":\"n{n:04}\",\"tags\":[\"nowhere\"]}}");
    let lines: Vec<String> = (0..2500).map(job).collect();
    up.run_with_input(&["submit", "-"], &lines.join("\n")).ok();
    let text = up.run(&["ls", "--all", "--columns", "name,status,command"]).ok().stdout;
    assert_eq!(text.lines().count(), 2501);
    assert!(text.lines().skip(1).all(|line| line.ends_with("  pending  true") && line.len() == 20), "{text}");
}

#[test]
fn tables_are_whole_when_piped_and_fit_when_a_width_is_given() {
    let up = Up::start();
    let long = "x".repeat(200);
    let id = up.submit(&["--tag", "nowhere", "--", "echo", &long]);
    let piped = up.run(&["ls"]).ok().stdout;
    assert!(piped.contains(&id) && piped.contains(&long) && !piped.contains('\u{1b}'), "{piped}");
    let mut narrow = up.command(&["ls", "--color", "always"]);
    narrow.env("COLUMNS", "80");
    let narrow = crate::harness::Started::spawn(narrow).finish().ok().stdout;
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains('…') && narrow.contains(&id[..12]) && !narrow.contains(&id), "{narrow}");
}

#[test]
fn show_has_the_fields_and_the_history() {
    let up = Up::start();
    let id = up.submit(&["--max-retries", "2", "--", "sh", "-c", "exit 4"]);
    assert_eq!(up.run(&["wait", &id]).code(), 4);
    let text = up.run(&["show", &id[..20]]).ok().stdout;
    for expected in [&id, "failed", "exit code 4", "2 of 2", "submitted", "requeued", "attempt 2"] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let kinds: Vec<String> =
        up.show(&id)["events"].as_array().unwrap().iter().map(|event| event["type"].to_string()).collect();
    assert_eq!(kinds, ["\"submitted\"", "\"claimed\"", "\"requeued\"", "\"claimed\"", "\"failed\""]);
}

#[test]
fn usage_is_shown_for_a_job_and_summed_up() {
    let up = Up::start();
    // What a process needs at the most is known where it is more than its keeper has.
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 100000000 /dev/zero | tail -c 100000000 | wc -c";
    let id = up.submit(&[
        "--cpus", "1", "--memory", "512M", "--queue", "q", "--name", "spin", "--", "sh", "-c", spin,
    ]);
    up.run(&["wait", &id]).ok();
    let shown = up.run(&["show", &id]).ok().stdout;
    let used: Vec<&str> = shown.lines().filter(|line| line.starts_with("used:")).collect();
    assert!(used.iter().any(|line| line.contains("of CPU time, ") && line.contains("of 1 cpu")), "{shown}");
    assert!(
        used.iter().any(|line| line.contains("of memory at the most, ") && line.contains("of 512M")),
        "{shown}"
    );
    let attempts = up.run(&["usage", &id]).ok().stdout;
    assert_eq!(attempts.lines().count(), 2, "{attempts}");
    assert!(attempts.contains("done") && attempts.contains("512M"), "{attempts}");
    let sums = up.run(&["usage", "--by", "queue", "--json"]).ok().json();
    let row = &sums["rows"][0];
    assert_eq!((row["queue_name"].as_str(), row["jobs"].as_u64()), (Some("q"), Some(1)), "{sums}");
    assert!(row["cpu_seconds"].as_f64().unwrap() > 0.0 && row["cpu_efficiency"].as_f64().is_some(), "{sums}");
    let table = up.run(&["usage", "--by", "job", "--since", "1h"]).ok().stdout;
    assert!(table.lines().nth(1).unwrap().starts_with(&id), "{table}");
    let nothing = up.run(&["usage", "--user", "nobody"]).ok();
    assert!(nothing.stderr.contains("no attempt ended"), "{nothing:?}");
}

#[test]
fn logs_by_stream_and_attempt() {
    let up = Up::start();
    let script = "echo out $MUSTER_ATTEMPT; echo err $MUSTER_ATTEMPT >&2; exit 1";
    let id = up.submit(&["--max-retries", "2", "--", "sh", "-c", script]);
    up.run(&["wait", &id]);
    let both = up.run(&["logs", &id]).ok();
    assert_eq!((both.stdout.as_str(), both.stderr.as_str()), ("out 2\n", "err 2\n"));
    let errors = up.run(&["logs", &id, "--stderr", "--attempt", "1"]).ok();
    assert_eq!((errors.stdout.as_str(), errors.stderr.as_str()), ("err 1\n", ""));
    let missing = up.run(&["logs", &id, "--attempt", "7"]);
    assert_eq!(missing.code(), 1);
    assert!(missing.stderr.contains("attempt 7"), "{missing:?}");
}

#[test]
fn logs_are_followed_to_the_end_of_the_job() {
    let up = Up::start();
    let gate = up.directory.path().join("gate");
    let id = up.submit(&["--", "sh", "-c", "echo one; while [ ! -e gate ]; do sleep 0.01; done; echo two"]);
    up.await_status(&id, "running");
    let follow = up.start_command(&["logs", "-f", &id]);
    until("the first line is kept", BOUND, || up.run(&["logs", &id]).ok().stdout == "one\n");
    std::fs::write(gate, "").unwrap();
    assert_eq!(follow.finish().ok().stdout, "one\ntwo\n");
}

#[test]
fn why_gives_reasons() {
    let up = Up::start();
    let id = up.submit(&["--tag", "a100", "--", "true"]);
    let text = up.run(&["why", &id]).ok().stdout;
    assert!(text.contains("pending") && text.contains("a100"), "{text}");
    assert_eq!(up.run(&["why", &id, "--json"]).ok().json()["reasons"][0]["code"], "tags");
}

#[test]
fn why_says_what_would_help_and_explain_how_the_cluster_stands() {
    let up = Up::start();
    let id = up.submit(&["--tag", "a100", "--", "true"]);
    let text = up.run(&["why", &id]).ok().stdout;
    let expected = format!(
        "{id} is pending
  - no active worker carries the tag a100
workers
  - 1 worker with 2 slots: without the tag a100
what would help
  - without the tag a100 it would start now on "
    );
    assert!(text.starts_with(&expected), "{text}");
    let text = up.run(&["explain"]).ok().stdout;
    assert!(text.starts_with("1 job and 0 gangs wait\n  - free: "), "{text}");
    let line = format!("  - tags: 1 job, such as {id}: no active worker carries the tag a100\n");
    assert!(text.contains(&line) && text.contains("  - fits nothing that waits: "), "{text}");
    let found = up.run(&["explain", "--json"]).ok().json();
    assert_eq!((&found["waiting"][0]["code"], &found["line"][0]["id"]), (&"tags".into(), &id.into()));
}

#[test]
fn workers_are_listed_with_what_they_hold() {
    let up = Up::start();
    let workers = up.run(&["workers", "--json"]).ok().json();
    assert_eq!((workers.as_array().unwrap().len(), &workers[0]["slots"]), (1, &serde_json::json!(2)));
    let text = up.run(&["workers"]).ok().stdout;
    assert!(text.contains("active") && text.contains("0/2"), "{text}");
}

#[test]
fn events_of_a_job_and_of_all() {
    let up = Up::start();
    let id = up.submit(&["--", "true"]);
    up.run(&["wait", &id]).ok();
    let text = up.run(&["events", &id]).ok().stdout;
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.lines().all(|line| line.contains(&id)), "{text}");
    let json = up.run(&["events", &id, "--json"]).ok().json();
    assert_eq!(json[2]["type"], "done");
}

#[test]
fn events_are_followed_as_they_come() {
    let up = Up::start();
    let seen = up.directory.path().join("seen");
    let mut command = up.command(&["events", "--follow", "--json"]);
    command.stdout(std::fs::File::create(&seen).unwrap());
    let mut child = command.spawn().unwrap();
    // The stream shows what comes after it was opened, so that something has to come until it is.
    until("an event is there", BOUND, || {
        up.submit(&["--tag", "nowhere", "--", "true"]);
        std::fs::read_to_string(&seen).unwrap().contains("\"submitted\"")
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn versions_of_both_ends() {
    let up = Up::start();
    let text = up.run(&["version"]).ok().stdout;
    assert!(text.starts_with(&format!("muster {}", env!("CARGO_PKG_VERSION"))), "{text}");
    assert_eq!(up.run(&["version", "--json"]).ok().json()["scheduler"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_reader_that_leaves_a_list_is_no_error() {
    let up = Up::start();
    let lines: String = (0..3000).map(|_| "{\"command\":\"true\",\"tags\":[\"nowhere\"]}\n").collect();
    up.run_with_input(&["submit", "-"], &lines).ok();
    let mut command = std::process::Command::new("bash");
    let line = format!("{} ls --all | head -n 1; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_muster"));
    command.args(["-c", &line]).env("MUSTER_URL", &up.url);
    let finished = crate::harness::Started::spawn(command).finish();
    assert_eq!(finished.stderr, "");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines[0].starts_with("ID"));
    assert_eq!(lines[1], "0");
}

#[test]
fn bash_completes_the_ids_of_jobs_and_options() {
    let up = Up::start();
    let id = up.submit(&["--tag", "nowhere", "--", "true"]);
    let complete = |words: &[&str]| {
        let script = format!(
            "PATH={}:$PATH; eval \"$(muster completions bash)\"; COMP_WORDS=({}); COMP_CWORD={}; \
             function=$(complete -p muster | sed -E 's/.*-F ([^ ]+).*/\\1/'); \
             $function muster \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            std::path::Path::new(env!("CARGO_BIN_EXE_muster")).parent().unwrap().display(),
            words.join(" "),
            words.len() - 1
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]).env("MUSTER_URL", &up.url);
        crate::harness::Started::spawn(command).finish().ok().stdout
    };
    assert_eq!(complete(&["muster", "logs", &id[..9]]).trim(), id);
    assert!(complete(&["muster", "logs", "--fol"]).contains("--follow"));
    assert!(complete(&["muster", "wat"]).contains("watch"));
}

#[test]
fn man_pages_are_printed_and_written() {
    let up = Up::start();
    let page = up.run(&["man"]).ok().stdout;
    assert!(page.starts_with(".ie") || page.contains(".TH MUSTER 1"), "{page}");
    let directory = up.directory.path().join("man");
    up.run(&["man", directory.to_str().unwrap()]).ok();
    for file in ["muster.1", "muster-watch.1", "muster-submit.1"] {
        assert!(std::fs::read_to_string(directory.join(file)).unwrap().contains("SEE ALSO"), "{file}");
    }
    let refused = up.run(&["man", "/proc/nowhere"]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("cannot write /proc/nowhere"), "{refused:?}");
}
