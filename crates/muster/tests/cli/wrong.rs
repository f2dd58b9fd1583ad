//! What goes wrong is said, with the value and what to do; the exit code tells usage from failure.

use muster_tests::PortLease;
use tempfile::TempDir;

use crate::harness::{Finished, Started, Up, muster};

fn alone(arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = muster(directory.path());
    command.args(arguments).envs(variables.iter().copied());
    Started::spawn(command).finish()
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, named: &[&str]) {
    let finished = alone(arguments, &[]);
    assert_eq!(finished.code(), code, "{finished:?}");
    assert_eq!(finished.stdout, "");
    for word in named {
        assert!(finished.stderr.contains(word), "{word} is not in {finished:?}");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    refused(&["frobnicate"], 2, &["frobnicate"]);
    refused(&["run", "--memory", "lots", "--", "true"], 2, &["lots", "4G"]);
    refused(&["run", "--cpus", "-1", "--", "true"], 2, &["-1"]);
    refused(&["ls", "--status", "sleepy"], 2, &["sleepy", "pending"]);
    refused(&["submit"], 2, &["--"]);
    refused(&["submit", "echo", "hello"], 2, &["muster submit -- echo hello"]);
    refused(&["submit", "no-such-file"], 2, &["no-such-file"]);
    refused(&["submit", "--array", "9-0", "--", "true"], 2, &["backwards", "0-9"]);
    refused(&["submit", "--retry-on", "luck", "--", "true"], 2, &["luck", "exit=1,2"]);
    refused(&["submit", "--needs", "abc:maybe", "--", "true"], 2, &["maybe", "all_done"]);
    refused(&["submit", "--backoff", "soon", "--", "true"], 2, &["soon", "10s:2:5m"]);
    refused(&["submit", "--param", "A=b", "--", "true"], 2, &["--env"]);
    refused(&["cancel"], 2, &["nothing to cancel", "--queue"]);
    refused(&["hold", "abc", "--queue", "q"], 2, &["do not go together"]);
    refused(&["edit", "abc"], 2, &["--priority"]);
    refused(&["queue", "set", "q"], 2, &["--max-queued"]);
    refused(&["queue", "set", "q", "--rate", "fast"], 2, &["fast", "10/1m"]);
    refused(&["up", "--db-driver", "oracle"], 2, &["oracle", "sqlite"]);
    refused(&["ls", "--url", "ftp://nowhere"], 2, &["ftp://nowhere"]);
    refused(&["ls", "--config", "no-such.toml"], 2, &["no-such.toml"]);
    refused(&["run", "--url", "http://localhost:1", "--", ""], 2, &["empty"]);
}

/// A mistyped option is no program: nothing was submitted, and the right option is named.
#[test]
fn an_unknown_option_is_never_taken_for_the_command() {
    for verb in ["run", "submit"] {
        refused(&[verb, "--cpu", "2", "--", "true"], 2, &["--cpu", "--cpus"]);
        refused(&[verb, "--gpu=1", "--", "true"], 2, &["--gpu", "--gpus"]);
        refused(&[verb, "--frobnicate", "--", "true"], 2, &["--frobnicate"]);
        refused(&[verb, "-q", "--", "true"], 2, &["-q"]);
    }
    refused(&["run", "--frobnicate"], 2, &["--frobnicate"]);
    refused(&["run", "-x", "true"], 2, &["-x"]);
}

#[test]
fn a_time_that_is_none_is_answered_with_the_forms() {
    let forms = ["2h", "\"2026-05-05 08:33\"", "2026-05-05T08:33:00Z", "+02:00"];
    let wrong = |arguments: &[&str]| refused(arguments, 2, &forms);
    wrong(&["submit", "--not-before", "tomorrow", "--", "true"]);
    wrong(&["run", "--deadline", "2026-13-01", "--", "true"]);
    wrong(&["ls", "--since", "08:00"]);
    wrong(&["logs", "--since", "2026-12-01 08:00 CET", "abc"]);
}

#[test]
fn a_scheduler_that_does_not_answer_is_named() {
    let port = PortLease::take();
    let url = format!("http://127.0.0.1:{}", port.port());
    for arguments in [&["ls"][..], &["run", "--", "true"], &["submit", "--", "true"], &["wait", "abc"]] {
        let finished = alone(arguments, &[("MUSTER_URL", &url)]);
        assert_eq!(finished.code(), 1, "{finished:?}");
        assert!(finished.stderr.contains(&url) && finished.stderr.contains("muster up"), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 2, "{finished:?}");
    }
}

#[test]
fn unknown_and_ambiguous_jobs_are_named() {
    let up = Up::start();
    let nobody = "job-00000000-0000-4000-8000-000000000000";
    for verb in ["show", "logs", "why", "cancel", "wait", "events"] {
        for job in [nobody, "abc"] {
            let finished = up.run(&[verb, job]);
            assert_eq!(finished.code(), 1, "{verb} {job}: {finished:?}");
            assert!(finished.stderr.contains("muster ls"), "{verb} {job}: {finished:?}");
        }
    }
    up.submit(&["--", "true"]);
    up.submit(&["--", "true"]);
    let ambiguous = up.run(&["show", "job-"]);
    assert_eq!(ambiguous.code(), 1, "{ambiguous:?}");
}

#[test]
fn help_is_an_answer() {
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"], &["completions", "bash"]] {
        let finished = alone(arguments, &[]);
        assert_eq!((finished.code(), finished.stderr.as_str()), (0, ""), "{finished:?}");
        assert!(finished.stdout.contains("muster"));
    }
}
