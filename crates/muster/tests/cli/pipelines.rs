//! Pipelines: what is wrong with a file is said before anybody is asked; they run, grow, end and run again.

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Finished, Started, Up, muster};

fn checked(text: &str, arguments: &[&str]) -> Finished {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    std::fs::write(directory.path().join("p.yaml"), text).unwrap();
    let mut command = muster(directory.path());
    command.args(["submit", "p.yaml"]).args(arguments);
    Started::spawn(command).finish()
}

#[test]
fn every_mistake_is_shown_with_its_line_and_place() {
    let text = "steps:\n  - name: a\n    run: x\n    cpus: many\n  - name: b\n    run: x\n    needs: [aa]\n";
    for arguments in [&["--check"][..], &[]] {
        let finished = checked(text, arguments);
        assert_eq!(finished.code(), 2, "{finished:?}");
        assert_eq!(finished.stdout, "");
        let shown = "p.yaml:4:11: cpus is \"many\"; write a number from 0 to 1000000\n        cpus: many\n              ^\n";
        assert!(finished.stderr.starts_with(shown), "{finished:?}");
        assert!(finished.stderr.contains("p.yaml:7:13: there is no step \"aa\""), "{finished:?}");
    }
    let json = checked(text, &["--check", "--json"]);
    assert_eq!((json.code(), &json.json()["mistakes"][1]["line"]), (2, &json!(7)));
}

#[test]
fn a_file_without_mistakes_is_checked_without_a_scheduler() {
    let text =
        "params: {A: }\nsteps:\n  - {name: a, run: x, matrix: {B: [1, 2, 3]}}\n  - {name: b, run: y}\n";
    let finished = checked(text, &["--check", "--param", "A=1"]).ok();
    assert_eq!(finished.stdout, "p.yaml: 2 steps, 4 jobs\n");
    let missing = checked(text, &["--check"]);
    assert!(missing.stderr.contains("--param A=VALUE"), "{missing:?}");
}

#[test]
fn options_that_a_file_has_no_use_for_are_refused() {
    let text = "steps: [{name: a, run: x}]";
    for arguments in [&["--cpus", "2"][..], &["--timeout", "5m"], &["--array", "0-9"]] {
        let finished = checked(text, arguments);
        assert_eq!(finished.code(), 2, "{finished:?}");
        assert!(finished.stderr.contains("defaults:"), "{finished:?}");
    }
}

fn written(up: &Up, name: &str) -> Option<String> {
    std::fs::read_to_string(up.directory.path().join(name)).ok()
}

#[test]
fn a_failed_pipeline_is_run_again_from_a_step_on() {
    let up = Up::start();
    let text = "defaults: {max_retries: 1}\nsteps:\n  - {name: a, run: echo x >> a}\n  - {name: b, run: test -e ready, needs: a}\n  - {name: c, run: echo x >> c, needs: b}\n";
    std::fs::write(up.directory.path().join("p.yaml"), text).unwrap();
    let id = up.run(&["submit", "p.yaml"]).ok().line();
    assert_eq!(up.run(&["wait", &id]).code(), 1);
    std::fs::write(up.directory.path().join("ready"), "").unwrap();
    let would = up.run(&["retry", &id, "--from", "b", "--dry-run"]).ok().stdout;
    assert!(would.contains("would run again"), "{would}");
    up.run(&["retry", &id, "--from", "b"]).ok();
    up.run(&["wait", &id]).ok();
    // The step before was not run again, the one after it was run at last.
    assert_eq!((written(&up, "a").unwrap(), written(&up, "c").unwrap()), ("x\n".into(), "x\n".into()));
}

#[test]
fn steps_are_added_to_a_pipeline_that_runs() {
    let up = Up::start();
    let (first, more) = (
        "steps: [{name: a, run: 'until test -e go; do sleep 0.02; done'}]",
        "steps: [{name: b, run: touch added, needs: [a]}]",
    );
    std::fs::write(up.directory.path().join("p.yaml"), first).unwrap();
    std::fs::write(up.directory.path().join("more.yaml"), more).unwrap();
    let id = up.run(&["submit", "p.yaml"]).ok().line();
    up.run(&["add", &id, "more.yaml"]).ok();
    let again = up.run(&["add", &id, "more.yaml"]);
    assert_eq!(again.code(), 2, "{again:?}");
    assert!(again.stderr.contains("more.yaml:1:16: the pipeline has a step b already"), "{again:?}");
    std::fs::write(up.directory.path().join("go"), "").unwrap();
    up.run(&["wait", &id]).ok();
    assert!(written(&up, "added").is_some());
    assert_eq!(up.run(&["pipelines", "--json"]).ok().json()[0]["id"], id);
}

#[test]
fn a_pipeline_is_cancelled_as_a_whole() {
    let up = Up::start();
    let text = "steps: [{name: a, run: sleep 600}, {name: b, run: x, needs: a}]";
    let id = up.run_with_input(&["submit", "--file", "-"], &format!("steps:\n  {}", &text[7..])).ok().line();
    let would = up.run(&["cancel", &id, "--dry-run"]).ok().stdout;
    assert_eq!(would.lines().count(), 2, "{would}");
    up.run(&["cancel", &id]).ok();
    assert_eq!(up.run(&["wait", &id]).code(), 130);
}

#[test]
fn the_same_key_gives_the_same_pipeline_and_the_same_array() {
    let up = Up::start();
    std::fs::write(up.directory.path().join("p.yaml"), "steps: [{name: a, run: 'true'}]").unwrap();
    let submit = || up.run(&["submit", "p.yaml", "--idempotency-key", "once"]).ok();
    let (first, second) = (submit(), submit());
    assert_eq!(first.line(), second.line());
    assert!(second.stderr.contains("submitted before"), "{second:?}");
    let array = || up.submit(&["--array", "0-2", "--idempotency-key", "one-array", "--", "true"]);
    assert_eq!(array(), array());
}
