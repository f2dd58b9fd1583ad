//! Gangs on real workers that are killed at the wrong moment: nobody works before all are there, and nobody is done before
//! all are.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_tests::{Gang, Scheduler, Settings, StoreKind, Worker, WorkerSettings, eventually, until};
use serde_json::json;
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(90);

fn scheduler() -> Scheduler {
    let settings = Settings::default()
        .set("reservation-timeout", "2s")
        .set("job-heartbeat-timeout", "3s")
        .set("worker-stale-timeout", "4s")
        .set("reaper-interval", "200ms");
    Scheduler::start_with(StoreKind::Sqlite, settings)
}

fn workers(scheduler: &Scheduler, count: usize) -> Vec<Worker> {
    let start = |number: usize| {
        let settings = WorkerSettings::new(&format!("w{number}"), 1).set("job-heartbeat-interval", "300ms");
        Worker::start(scheduler, settings)
    };
    (0..count).map(start).collect()
}

/// The machine is gone: the agent, what holds the processes, and the processes with it.
fn lose(worker: &mut Worker) {
    worker.kill9();
    worker.kill9_keeper();
}

/// How many ranks have worked in each round, by the files that they left.
fn worked(directory: &Path) -> BTreeMap<u32, usize> {
    let mut rounds = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some((round, _)) = name.strip_prefix("round-").and_then(|name| name.split_once('-')) {
            *rounds.entry(round.parse().unwrap()).or_default() += 1;
        }
    }
    rounds
}

fn submit(scheduler: &Scheduler, directory: &Path, then: &str) -> Gang {
    let directory = directory.display();
    let command = format!("touch {directory}/round-$MUSTER_GANG_ROUND-$GANG_INDEX; cd {directory}; {then}");
    scheduler.submit_gang_with(&json!({ "command": command, "gang_size": 2 }))
}

#[test]
fn no_rank_works_while_another_one_has_no_worker() {
    let (scheduler, files) = (scheduler(), TempDir::new().unwrap());
    let mut workers = workers(&scheduler, 2);
    lose(&mut workers[1]);
    let gang = submit(&scheduler, files.path(), "true");
    until("a round was placed and taken back", BOUND, || {
        scheduler.gang(&gang).iter().any(|task| task["reservation_epoch"] == 1 && task["status"] == "blocked")
    });
    assert_eq!(worked(files.path()), BTreeMap::new(), "a rank worked alone");
    assert_eq!(scheduler.gang_attempts(&gang), [0, 0]);
    workers[1].restart();
    scheduler.await_gang(&gang, "done");
    let rounds = worked(files.path());
    assert!(rounds.values().all(|ranks| *ranks == 2), "{rounds:?}");
    assert_eq!(scheduler.gang_attempts(&gang), [1, 1], "what never ran costs nothing");
}

#[test]
fn ranks_start_together_in_every_round_although_workers_come_and_go() {
    let (scheduler, files) = (scheduler(), TempDir::new().unwrap());
    let mut workers = workers(&scheduler, 3);
    let mut gangs = Vec::new();
    for number in 0..9 {
        let directory = files.path().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        gangs.push((submit(&scheduler, &directory, "sleep 0.2"), directory));
        // Some are killed before the placement, some while the round is prepared, some while it runs.
        std::thread::sleep(Duration::from_millis(45 * (number % 4)));
        let victim = &mut workers[number as usize % 3];
        lose(victim);
        victim.restart();
    }
    for (gang, directory) in gangs {
        scheduler.await_gang(&gang, "done");
        let rounds = worked(&directory);
        // A rank whose worker is lost right after the word to start may leave nothing behind: that is a loss.
        assert_eq!(rounds.last_key_value().map(|(_, ranks)| *ranks), Some(2), "{rounds:?}");
    }
}

#[test]
fn a_worker_lost_near_the_end_starts_all_again() {
    let (scheduler, files) = (scheduler(), TempDir::new().unwrap());
    let mut workers = workers(&scheduler, 2);
    let gang =
        submit(&scheduler, files.path(), "test $GANG_INDEX = 0 || until test -e go; do sleep 0.1; done");
    until("one has finished", BOUND, || scheduler.gang_statuses(&gang) == ["finished", "running"]);
    let finished = scheduler.gang(&gang).remove(0);
    assert_eq!((&finished["exit_code"], &finished["done_at"]), (&json!(0), &json!(null)));
    let place = scheduler.gang(&gang)[1]["worker_id"].as_str().unwrap().to_owned();
    let victim = workers.iter_mut().find(|worker| worker.id() == place).unwrap();
    lose(victim);
    victim.restart();
    eventually("the next round runs", BOUND, || {
        let statuses = scheduler.gang_statuses(&gang);
        let again = worked(files.path()).range(2..).any(|(_, ranks)| *ranks == 2);
        (again && statuses == ["finished", "running"]).then_some(())
    });
    fs::write(files.path().join("go"), "").unwrap();
    scheduler.await_gang(&gang, "done");
    assert_eq!(scheduler.gang_attempts(&gang), [1, 2], "only the lost one pays");
}
