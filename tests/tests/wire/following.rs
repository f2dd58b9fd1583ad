//! `muster logs -f` beside a job that never stops writing, while its scheduler is killed again and again.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_tests::{Process, Scheduler, StoreKind, Worker, WorkerSettings, binary, id_of, until};
use serde_json::json;

const BOUND: Duration = Duration::from_secs(60);
/// How many lines are to come between two disturbances.
const STEP: usize = 2_000;

/// Counts on both streams until the gate of its attempt is open; the first attempt fails.
fn script(directory: &Path) -> String {
    let gate = directory.join("gate").display().to_string();
    format!(
        "n=0; while [ ! -e {gate}$MUSTER_ATTEMPT ]; do for i in 0 1 2 3 4 5 6 7 8 9; do \
         n=$((n+1)); echo $MUSTER_ATTEMPT $n; echo $MUSTER_ATTEMPT $n >&2; done; sleep 0.002; done; \
         echo $MUSTER_ATTEMPT end; echo $MUSTER_ATTEMPT end >&2; [ $MUSTER_ATTEMPT = 2 ]"
    )
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// Every number of both attempts, once and in order. Remarks of the program itself are not the job's.
#[track_caller]
fn check(file: &Path) {
    let mut expected = (1, 1);
    let mut ends = 0;
    for line in lines(file).iter().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())) {
        let (attempt, number) = line.split_once(' ').unwrap();
        assert_eq!(attempt, expected.0.to_string(), "{line}");
        if number == "end" {
            expected = (expected.0 + 1, 1);
            ends += 1;
            continue;
        }
        assert_eq!(number, expected.1.to_string(), "attempt {attempt} in {}", file.display());
        expected.1 += 1;
    }
    assert_eq!(ends, 2, "both attempts came to their end");
}

#[test]
fn nothing_is_lost_or_repeated_when_the_scheduler_is_killed() {
    let mut scheduler = Scheduler::start(StoreKind::Sqlite);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let directory = tempfile::tempdir().unwrap();
    let job = json!({ "command": script(directory.path()), "max_retries": 2 });
    let id = id_of(&scheduler.submit_job(&job));
    let (out, err) = (directory.path().join("out"), directory.path().join("err"));
    let mut command = Command::new("sh");
    // The two streams apart, each in a file that can be looked at meanwhile.
    command.args(["-c", "exec \"$0\" logs -f \"$1\" > out 2> err"]).arg(binary("muster")).arg(&id);
    command.env("MUSTER_URL", scheduler.url()).current_dir(directory.path());
    let mut follower = Process::start("muster logs", command, &directory.path().join("log"));
    until("the follower has begun", BOUND, || out.exists());
    for round in 1..=4 {
        let seen = lines(&out).len();
        until("the follower goes on", BOUND, || lines(&out).len() >= seen + STEP);
        scheduler.kill9();
        scheduler.restart();
        if round == 3 {
            fs::write(directory.path().join("gate1"), "").unwrap();
            until("the next attempt is followed", BOUND, || {
                lines(&out).last().is_some_and(|last| last.starts_with("2 "))
            });
        }
    }
    fs::write(directory.path().join("gate2"), "").unwrap();
    assert!(follower.wait(BOUND).success());
    check(&out);
    check(&err);
}
