//! `muster logs`: parts of the output, times, gaps, bytes that are no text, following through everything.

use std::fs::{self, File};
use std::path::Path;

use muster_tests::until;

use crate::harness::{BOUND, Up};

/// Waits in the job's shell until a file is there.
fn gate(name: &str) -> String {
    format!("while [ ! -e {name} ]; do sleep 0.01; done")
}

fn open_gate(up: &Up, name: &str) {
    fs::write(up.directory.path().join(name), "").unwrap();
}

/// Each with a line break.
fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// A follower whose output goes to a file, so that it can be looked at while it runs.
fn follow_into(up: &Up, file: &Path, arguments: &[&str]) -> std::process::Child {
    let mut command = up.command(arguments);
    command.stdout(File::create(file).unwrap()).stderr(std::process::Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn the_last_lines_and_what_comes_after_them() {
    let up = Up::start();
    let script = format!("seq 1 100; {}; seq 101 103", gate("go"));
    let id = up.submit(&["--", "sh", "-c", &script]);
    until("the first lines are kept", BOUND, || up.run(&["logs", &id]).ok().stdout.ends_with("\n100\n"));
    assert_eq!(up.run(&["logs", &id, "--tail", "2"]).ok().stdout, "99\n100\n");
    assert_eq!(up.run(&["logs", &id, "--tail", "0"]).ok().stdout, "");
    let seen = up.directory.path().join("seen");
    let mut follow = follow_into(&up, &seen, &["logs", "-f", "--tail", "1", &id]);
    until("the follower has begun", BOUND, || fs::read_to_string(&seen).unwrap() == "100\n");
    open_gate(&up, "go");
    assert!(follow.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&seen).unwrap(), "100\n101\n102\n103\n");
    assert_eq!(up.run(&["logs", &id, "--tail", "5", "--since", "1h"]).code(), 2, "one of them");
}

#[test]
fn times_are_shown_and_asked_for() {
    let up = Up::start();
    let script = format!("echo early; echo wrong >&2; {}; echo late", gate("go"));
    let id = up.submit(&["--", "sh", "-c", &script]);
    until("the first line is kept", BOUND, || up.run(&["logs", &id]).ok().stdout == "early\n");
    let early = up.run(&["logs", &id, "--timestamps"]).ok();
    let stamp = early.stdout.strip_suffix(" early\n").unwrap().to_owned();
    let written: jiff::Timestamp = stamp.parse().unwrap();
    assert!(early.stderr.ends_with("Z wrong\n"), "{early:?}");
    let later = written + jiff::SignedDuration::from_millis(50);
    // Output has the times of the file system, whose clock may lag behind on a busy machine.
    let probe = up.directory.path().join("probe");
    until("the clock of files has moved on", BOUND, || {
        fs::write(&probe, b"").unwrap();
        jiff::Timestamp::try_from(fs::metadata(&probe).unwrap().modified().unwrap()).unwrap() > later
    });
    open_gate(&up, "go");
    up.run(&["wait", &id]).ok();
    assert_eq!(up.run(&["logs", &id, "--since", &later.to_string()]).ok().stdout, "late\n");
    assert_eq!(up.run(&["logs", &id, "--since", "1h"]).ok().stdout, "early\nlate\n");
    assert_eq!(up.run(&["logs", &id, "--since", "2100-01-01"]).ok().stdout, "");
    let wrong = up.run(&["logs", &id, "--since", "yesterday"]);
    assert_eq!(wrong.code(), 2);
    assert!(wrong.stderr.contains("2026-05-05T08:33:00Z"), "{wrong:?}");
}

#[test]
fn since_reaches_back_over_attempts() {
    let up = Up::start();
    let id = up.submit(&["--max-retries", "2", "--", "sh", "-c", "echo attempt $MUSTER_ATTEMPT; exit 1"]);
    up.run(&["wait", &id]);
    assert_eq!(up.run(&["logs", &id]).ok().stdout, "attempt 2\n");
    assert_eq!(up.run(&["logs", &id, "--since", "1h"]).ok().stdout, "attempt 1\nattempt 2\n");
    assert_eq!(up.run(&["logs", &id, "--since", "1h", "--attempt", "1"]).ok().stdout, "attempt 1\n");
}

#[test]
fn bytes_that_are_no_text_come_out_as_they_went_in() {
    let up = Up::start();
    let id = up.submit(&["--", "sh", "-c", "printf '\\000\\377\\376binary\\r\\n'; cat /bin/true"]);
    up.run(&["wait", &id]).ok();
    let copy = up.directory.path().join("copy");
    let mut command = up.command(&["logs", &id]);
    assert!(command.stdout(File::create(&copy).unwrap()).status().unwrap().success());
    let mut expected = b"\0\xff\xfebinary\r\n".to_vec();
    expected.extend(fs::read("/bin/true").unwrap());
    assert!(fs::read(&copy).unwrap() == expected, "the bytes differ");
    let json = up.run(&["logs", &id, "--json"]).ok().stdout;
    assert!(json.lines().next().unwrap().contains("\"base64\":\"AP/+"), "{json:.100}");
}

#[test]
fn output_beyond_the_limit_keeps_both_ends_and_says_what_is_missing() {
    let up = Up::start_configured("log-limit = 10000");
    let id = up.submit(&["--", "sh", "-c", "seq 1 100000; echo 'errors stay apart' >&2"]);
    up.run(&["wait", &id]).ok();
    let whole = lines((1..=100_000).map(|number| number.to_string()));
    let shown = up.run(&["logs", &id]).ok();
    assert!(shown.stderr.contains("errors stay apart\n"), "{}", shown.stderr);
    let marker = shown.stderr.lines().find_map(|line| line.strip_prefix("[muster: ")).unwrap();
    let (missing, place) = marker.split_once(" bytes of stdout are missing from byte ").unwrap();
    assert!(place.starts_with("5000 on: dropped"), "{marker}");
    let (head, tail) = shown.stdout.split_at(5000);
    assert!(whole.starts_with(head) && whole.ends_with(tail), "no marker is within the output");
    assert!(tail.len() >= 3000, "{}", tail.len());
    assert_eq!(whole.len() - shown.stdout.len(), missing.parse::<usize>().unwrap());
    let late = up.run(&["logs", "-f", &id]);
    assert_eq!((late.code(), &late.stdout), (123, &shown.stdout), "a follower's exit code says it");
    let gap = up.run(&["logs", &id, "--stdout", "--json"]).ok().stdout;
    let gap = gap.lines().find(|line| line.contains("missing")).unwrap();
    let gap: serde_json::Value = serde_json::from_str(gap).unwrap();
    assert_eq!((&gap["missing"]["offset"], &gap["missing"]["cause"]), (&5000.into(), &"dropped".into()));
}

#[test]
fn a_follower_lives_through_a_killed_scheduler_and_the_next_attempt() {
    let mut up = Up::start();
    let script = format!(
        "seq -f \"$MUSTER_ATTEMPT %g\" 1 5000; {}; seq -f \"$MUSTER_ATTEMPT %g\" 5001 10000; [ $MUSTER_ATTEMPT = 2 ]",
        gate("go$MUSTER_ATTEMPT")
    );
    let id = up.submit(&["--max-retries", "2", "--", "sh", "-c", &script]);
    up.await_status(&id, "running");
    let seen = up.directory.path().join("seen");
    let has = |line: &str| fs::read_to_string(&seen).unwrap().ends_with(line);
    let mut follow = follow_into(&up, &seen, &["logs", "-f", &id]);
    until("the follower has seen the first half", BOUND, || has("\n1 5000\n"));
    up.kill_and_restart();
    open_gate(&up, "go1");
    until("the follower is in the second attempt", BOUND, || has("\n2 5000\n"));
    up.kill_and_restart();
    open_gate(&up, "go2");
    assert!(follow.wait().unwrap().success());
    let of = |attempt| lines((1..=10_000).map(move |line| format!("{attempt} {line}")));
    let expected = of(1) + &of(2);
    assert!(fs::read_to_string(&seen).unwrap() == expected, "nothing is lost or repeated");
}

#[test]
fn output_that_has_expired_is_said_to_be_gone() {
    let up = Up::start_configured("log-retention = \"1ms\"\nretention-interval = \"50ms\"");
    let id = up.submit(&["--", "sh", "-c", "echo hello"]);
    up.run(&["wait", &id]).ok();
    until("the output is gone", BOUND, || {
        let shown = up.run(&["logs", &id]).ok();
        shown.stdout.is_empty()
            && shown.stderr.starts_with("[muster: 6 bytes of stdout are missing from byte 0 on: removed")
    });
    assert_eq!(up.show(&id)["status"], "done", "the job itself stays");
}

#[test]
fn a_job_that_was_retried_by_hand_shows_its_new_output() {
    let up = Up::start();
    let script = "[ -e again ] && echo new || echo old; touch again; [ -e fine ]";
    let id = up.submit(&["--max-retries", "2", "--", "sh", "-c", script]);
    up.run(&["wait", &id]);
    open_gate(&up, "fine");
    up.run(&["retry", &id]).ok();
    up.run(&["wait", &id]).ok();
    assert_eq!(up.run(&["logs", &id]).ok().stdout, "new\n");
    assert_eq!(up.run(&["logs", &id, "--attempt", "1"]).ok().stdout, "new\n");
    assert_eq!(up.run(&["logs", &id, "--since", "1h"]).ok().stdout, "old\nnew\nnew\n", "nothing is lost");
}
