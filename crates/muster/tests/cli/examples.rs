//! The examples of the project run to their end.

use serde_json::json;

use crate::harness::Up;

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn written(up: &Up, name: &str) -> Option<String> {
    std::fs::read_to_string(up.directory.path().join(name)).ok()
}

#[test]
fn the_nightly_example_runs_to_its_end() {
    let up = Up::start();
    let finished = up.run(&["submit", &example("nightly.yaml"), "--param", "DATE=monday", "--wait"]).ok();
    let id = finished.stdout.lines().next().unwrap().to_owned();
    assert_eq!(written(&up, "nightly-data/report.txt").unwrap(), "nightly monday: 10 rows, loss 0.21\n");
    assert_eq!(written(&up, "nightly-data/alert.txt"), None);
    assert_eq!(written(&up, "nightly-data/raw.csv"), None);
    let pipeline = up.show(&id);
    assert_eq!((&pipeline["status"], &pipeline["size"]), (&json!("done"), &json!(7)));
    let tree = up.run(&["show", &id[..10]]).ok().stdout;
    let steps: Vec<&str> = tree.lines().skip_while(|line| !line.starts_with("STEP")).skip(1).collect();
    let drawn = [
        ("extract ", "done"),
        ("└─ transform ", "2/2"),
        ("   └─ train ", "done"),
        ("      ├─ report ", "done"),
        ("      │  └─ alert ", "skipped"),
        ("      └─ cleanup ", "all_done"),
    ];
    assert_eq!(steps.len(), drawn.len(), "{tree}");
    for (line, (beginning, part)) in steps.iter().zip(drawn) {
        assert!(line.starts_with(beginning) && line.contains(part), "{beginning}\n{tree}");
    }
    let train = up.run(&["ls", &id, "--step", "train", "--json"]).ok().json();
    assert_eq!(train[0]["attempts"], 2);
    assert_eq!(train[0]["outputs"], json!({"loss": 0.21, "attempt": 2}));
}

#[test]
fn a_night_that_fails_is_cleaned_up_and_alerted() {
    let up = Up::start();
    let finished = up.run(&["submit", &example("nightly.yaml"), "--param", "BROKEN=transform", "--wait"]);
    assert_eq!(finished.code(), 1, "{finished:?}");
    let id = finished.stdout.lines().next().unwrap();
    assert_eq!(written(&up, "nightly-data/alert.txt").unwrap(), "nightly today failed\n");
    assert_eq!((written(&up, "nightly-data/report.txt"), written(&up, "nightly-data/raw.csv")), (None, None));
    let tree = up.run(&["show", id]).ok().stdout;
    assert!(tree.lines().any(|line| line.contains("transform") && line.contains("failed")), "{tree}");
}

#[test]
fn the_sweep_example_finds_the_best() {
    let up = Up::start();
    let id = up.run(&["submit", &example("sweep.yaml")]).ok().line();
    up.run(&["wait", &id]).ok();
    let best = up.run(&["ls", &id, "--step", "best", "--json"]).ok().json();
    assert_eq!(best[0]["outputs"]["best"], "0.744417 lr=0.001 seed=1", "{best}");
}
