//! The file of a pipeline: what is wrong with it is said before anybody is asked.

use tempfile::TempDir;

use crate::harness::{Finished, Started, muster};

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
    assert_eq!((json.code(), &json.json()["mistakes"][1]["line"]), (2, &serde_json::json!(7)));
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
