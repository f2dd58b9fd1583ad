//! `sim`: needs no scheduler, and says the same to people, programs and browsers.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Finished, Started, Up, muster};

fn sim(directory: &Path, arguments: &[&str]) -> Finished {
    let mut command = muster(directory);
    command.arg("sim").args(arguments);
    Started::spawn(command).finish()
}

const TINY: &str = "ml:jobs=60,seed=3,size=2,load=1.2";

#[test]
fn policies_stand_side_by_side() {
    let directory = TempDir::new().unwrap();
    let done =
        sim(directory.path(), &["--generate", TINY, "--policy", "fifo,easy,muster", "--by", "size"]).ok();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].starts_with("ml:jobs=60,seed=3") && lines[0].contains("60 jobs on 2x8gpu"), "{done:?}");
    assert!(lines[2].starts_with("POLICY") && lines[2].contains("SLOWDOWN"), "{done:?}");
    let policies: Vec<&str> = lines[3..6].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(policies, ["fifo", "easy", "muster"]);
    assert!(done.stdout.contains("size 1") && done.stdout.contains("size 5-8"), "{done:?}");
    // Nobody looks, so that no progress is drawn.
    assert_eq!(done.stderr, "");
}

#[test]
fn the_same_figures_for_programs() {
    let directory = TempDir::new().unwrap();
    let all = &["--generate", TINY, "--policy", "all", "--json"];
    let json = sim(directory.path(), all).ok().json();
    assert_eq!((&json["jobs"], &json["cluster"]), (&Value::from(60), &Value::from("2x8gpu")));
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        assert_eq!(run["total"]["jobs"], 60, "{run}");
        assert!(run["makespan_s"].as_f64().unwrap() > 0.0, "{run}");
        let used = run["utilisation"].as_f64().unwrap();
        assert!(used > 0.0 && used <= 1.0, "{run}");
        assert!(run["total"]["bounded_slowdown"]["mean"].as_f64().unwrap() >= 1.0, "{run}");
    }
    assert_eq!(json, sim(directory.path(), all).ok().json(), "a run can be repeated");
    let csv = sim(directory.path(), &["--generate", TINY, "--policy", "easy", "--csv"]).ok().stdout;
    let easy = runs.iter().find(|run| run["policy"] == "easy").unwrap();
    let wait = easy["total"]["wait_s"]["mean"].as_f64().unwrap();
    let row: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((row[0], row[1], row[3]), ("easy", "all", "60"));
    assert!((row[4].parse::<f64>().unwrap() - wait).abs() < 1e-6, "{csv}");
}

#[test]
fn traces_are_written_and_read_again() {
    let directory = TempDir::new().unwrap();
    let figures = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["--policy", "easy", "--json"]);
        sim(directory.path(), &all).ok().json()["runs"].clone()
    };
    sim(directory.path(), &["--generate", TINY, "--write-trace", "tiny.csv"]).ok();
    let made = figures(&["--generate", TINY]);
    assert_eq!(figures(&["tiny.csv", "--cluster", "2x8gpu"])[0]["total"], made[0]["total"]);
    let text = std::fs::read_to_string(directory.path().join("tiny.csv")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    std::fs::write(directory.path().join("tiny.csv.gz"), packed.finish().unwrap()).unwrap();
    assert_eq!(figures(&["tiny.csv.gz", "--cluster", "2x8gpu"])[0]["total"], made[0]["total"]);
}

#[test]
fn standard_input_plans_and_cluster_files() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("cluster.toml"), "[[nodes]]\ncount = 2\ncpus = 4\n").unwrap();
    let plan = "[[queues]]\nname = \"q\"\ncount = 2\njobs = [{ count = 5, every = \"1s\", run = \"10s\", tasks = 2 }]\n";
    let mut command = muster(directory.path());
    command.args(["sim", "-", "--cluster", "cluster.toml", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(plan.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["jobs"], &json["queues"], &json["cluster"]), (&10.into(), &2.into(), &"2x4cpu".into()));
}

#[test]
fn a_page_and_the_fate_of_each_job_are_written() {
    let directory = TempDir::new().unwrap();
    let done = sim(
        directory.path(),
        &["--generate", TINY, "--policy", "easy,muster", "--html", "page.html", "--jobs", "jobs.csv"],
    )
    .ok();
    assert!(done.stderr.contains("page.html"), "{done:?}");
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    for part in
        ["<!doctype html>", "Use of the cluster", "Queue length", "Wait by size", "Every job", "muster"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http") && !page.contains("<script"), "nothing from outside");
    let jobs = std::fs::read_to_string(directory.path().join("jobs.csv")).unwrap();
    assert_eq!(jobs.lines().count(), 1 + 2 * 60);
}

#[test]
fn mistakes_say_what_and_where() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("bad.csv", "submit_s,duration_s,tasks\n0,soon,1\n");
    write("big.csv", "submit_s,duration_s,tasks,gpus_per_task\n0,10,3,8\n");
    for (arguments, part) in [
        (&["bad.csv", "--cluster", "1cpu"][..], "line 2: duration_s is \"soon\""),
        (&["big.csv"], "--cluster 80x8gpu"),
        (&["big.csv", "--cluster", "2x8gpu"], "does not fit"),
        (&["big.csv", "--cluster", "8wheels"], "8wheels"),
        (&["--generate", TINY, "--policy", "eazy"], "eazy"),
        (&["--generate", "web"], "hpc or ml"),
        (&[], "required"),
        (&["big.csv", "--generate", TINY], "cannot be used with"),
    ] {
        let refused = sim(directory.path(), arguments);
        assert_eq!(refused.code(), 2, "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(part), "{arguments:?}: {refused:?}");
    }
    let missing = sim(directory.path(), &["nowhere.csv", "--cluster", "1cpu"]);
    assert_eq!(missing.code(), 1);
    assert!(missing.stderr.contains("nowhere.csv"), "{missing:?}");
}

#[test]
fn what_waits_on_a_scheduler_is_played_to_its_end() {
    let up = Up::start();
    let gate = "while [ ! -e gate ]; do sleep 0.01; done";
    let running = up.submit(&["--timeout", "10m", "--", "sh", "-c", gate]);
    up.await_status(&running, "running");
    for _ in 0..3 {
        up.submit(&["--gang", "2", "--timeout", "5m", "--", "sh", "-c", gate]);
    }
    up.submit(&["--hold", "--", "true"]);
    let done = up.run(&["sim", "--from-server", "--policy", "fifo,muster", "--json"]).ok();
    let json = done.json();
    assert_eq!(json["jobs"], 4, "{done:?}");
    assert!(done.stderr.contains("1 jobs are left out"), "{done:?}");
    // Two slots: the gangs of two come one after the other, behind the job that runs.
    let makespan = json["runs"][0]["makespan_s"].as_f64().unwrap();
    assert!(makespan > 600.0 && makespan < 1600.0, "{json}");
    std::fs::write(up.directory.path().join("gate"), "").unwrap();
}

#[test]
fn the_example_is_played() {
    let directory = TempDir::new().unwrap();
    let example = |name: &str| format!("{}/../../examples/sim/{name}", env!("CARGO_MANIFEST_DIR"));
    let (plan, cluster) = (example("teams.toml"), example("cluster.toml"));
    let json =
        sim(directory.path(), &[&plan, "--cluster", &cluster, "--policy", "easy", "--json"]).ok().json();
    assert_eq!(
        (&json["source"], &json["jobs"], &json["queues"]),
        (&"teams.toml".into(), &3720.into(), &30.into())
    );
    let sizes: Vec<&str> = json["runs"][0]["by_size"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert_eq!(sizes, ["1", "2-4", "9-32"]);
}
