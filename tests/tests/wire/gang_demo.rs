//! Gangs on real worker processes: the demonstration of a drain, and a ring of ranks that survives a loss.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use muster_tests::{Gang, Scheduler, StoreKind, Worker, WorkerSettings, eventually, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

const BOUND: Duration = Duration::from_secs(90);

fn workers(scheduler: &Scheduler, count: usize) -> Vec<Worker> {
    let start = |number: usize| {
        let settings = WorkerSettings::new(&format!("pod{number}"), 1).set("job-heartbeat-interval", "500ms");
        Worker::start(scheduler, settings)
    };
    (0..count).map(start).collect()
}

/// Whether some worker has written a line about the task that contains the words.
fn logged(workers: &mut [Worker], task: &str, words: &str) -> bool {
    workers.iter_mut().any(|worker| {
        worker.process().output().lines().any(|line| line.contains(task) && line.contains(words))
    })
}

#[test]
fn f5_a_failed_task_takes_all_through_a_drain_and_all_find_their_checkpoint() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let mut workers = workers(&scheduler, 3);
    let command = "demo:echo up; exec sleep 60";
    let gang = scheduler.submit_gang_with(&json!({ "command": command, "gang_size": 3 }));
    // A task that is stopped before its process begins leaves no checkpoint.
    until("all processes run", BOUND, || (0..3).all(|rank| output(&scheduler, &gang, rank).contains("up")));
    scheduler.report(&gang.tasks[0], "fail").expect_empty();
    let statuses = scheduler.gang_statuses(&gang);
    assert!(scheduler.gang(&gang).iter().all(|task| task["preemption_epoch"] == 1), "{statuses:?}");
    scheduler.await_gang(&gang, "running");
    for task in &gang.tasks {
        until("the task has found its checkpoint", BOUND, || {
            logged(&mut workers, task, r#""checkpoint_data_present":true"#)
        });
    }
    assert_eq!(scheduler.gang_attempts(&gang), [2, 1, 1]);
    assert_eq!(scheduler.count_of("muster_gang_preemptions_force_drained_total"), 0);
    scheduler.http().post(&format!("/gangs/{}/cancel", gang.id), "").expect(200);
    scheduler.await_gang(&gang, "cancelled");
}

fn ring() -> PathBuf {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = tree.parent().unwrap().join("examples/gang/ring.py");
    assert!(path.is_file(), "{}", path.display());
    path
}

fn output(scheduler: &Scheduler, gang: &Gang, rank: usize) -> String {
    scheduler.http().get(&format!("/jobs/{}/logs", gang.tasks[rank])).text()
}

#[test]
fn eight_ranks_on_eight_workers_survive_the_loss_of_one() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let _workers = workers(&scheduler, 8);
    let directory = scheduler.backing().directory();
    let command = format!(
        "echo $$ > {0}/rank-$GANG_INDEX.new; mv {0}/rank-$GANG_INDEX.new {0}/rank-$GANG_INDEX; exec python3 {1}",
        directory.display(),
        ring().display()
    );
    let env = json!({ "STEPS": "10", "STEP_SECONDS": "0.05" });
    let gang = scheduler.submit_gang_with(&json!({ "command": command, "gang_size": 8, "env": env }));
    until("all have saved the second step", BOUND, || {
        (0..8).all(|rank| output(&scheduler, &gang, rank).contains("step 2:"))
    });
    let victim = eventually("the rank has written its process id", BOUND, || {
        fs::read_to_string(directory.join("rank-5")).ok()?.trim().parse().ok()
    });
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    scheduler.await_gang(&gang, "done");
    let attempts = scheduler.gang_attempts(&gang);
    assert_eq!(attempts.iter().sum::<u64>(), 9, "one pays for the loss: {attempts:?}");
    for rank in 0..8 {
        let output = output(&scheduler, &gang, rank);
        assert!(output.contains("done: the sum of the numbers up to 80 is 3240"), "{output}");
        let resumed = output.lines().filter_map(|line| line.split_once("starts at step ")).next_back();
        let step = resumed.and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
        assert!(step.is_some_and(|step| step >= 2), "resumed from its checkpoint: {output}");
    }
}
