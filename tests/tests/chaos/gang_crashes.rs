//! The scheduler dies at each step of a gang's life, before and after its commit: the gang goes on, nobody
//! pays for it, and nothing runs twice at once.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_tests::chaos::ledger::Ledger;
use muster_tests::{Backing, Gang, Scheduler, Settings, StoreKind, Worker, WorkerSettings, until};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings::default().set("reaper-interval", "300ms").set("preempt-grace", "5s")
}

/// Fails the first task as an operator does, unless that was done before the crash. The answer may be lost.
fn fail_first(scheduler: &Scheduler, gang: &Gang) {
    let request = scheduler.http().request("POST", &format!("/jobs/{}/fail", gang.tasks[0]));
    let _ = request.header("Content-Length", "0").try_send();
}

/// Submits the gang, or asks for it again: the key makes the repetition harmless. The answer may be lost.
fn submit(scheduler: &Scheduler, request: &Value) -> Option<Gang> {
    let answer = scheduler.http().request("POST", "/jobs").body(request.to_string()).try_send().ok()?;
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    Some(Gang::of(&answer.json()))
}

fn crash_at(fault: &str, store: StoreKind) {
    let backing = Backing::new(store);
    let ledger = Ledger::new(&backing.directory());
    let mut scheduler = Scheduler::start_on(&backing, settings().set("fault", fault));
    let workers: Vec<Worker> = (0..2)
        .map(|number| {
            let settings =
                WorkerSettings::new(&format!("w{number}"), 1).set("job-heartbeat-interval", "500ms");
            Worker::start(&scheduler, settings)
        })
        .collect();
    let drains = fault.starts_with("drain") || fault.starts_with("verdict");
    let request = json!({ "command": ledger.patient_command(), "gang_size": 2, "idempotency_key": fault });
    let submitted = submit(&scheduler, &request);
    if drains {
        let gang = submitted.unwrap();
        until("both processes run", BOUND, || starts(&ledger, &gang) == 2);
        fail_first(&scheduler, &gang);
    } else {
        ledger.let_go();
    }
    let ended = scheduler.process().wait(BOUND);
    assert!(!ended.success(), "{fault}: {ended}");
    scheduler.restart_with(settings());
    let gang = submit(&scheduler, &request).unwrap();
    if drains && scheduler.gang(&gang)[0].get("preemption_epoch").is_none() {
        until("both run as before", BOUND, || scheduler.gang_statuses(&gang) == ["running", "running"]);
        fail_first(&scheduler, &gang);
    }
    if drains {
        until("both run again", BOUND, || {
            let again = |task: &Value| task["status"] == "running" && task["reservation_epoch"] == 2;
            scheduler.gang(&gang).iter().all(again)
        });
        ledger.let_go();
    }
    scheduler.await_gang(&gang, "done");
    let expected = if drains { [2, 1] } else { [1, 1] };
    assert_eq!(scheduler.gang_attempts(&gang), expected, "{fault}: nobody pays for the crash");
    let entries = ledger.read();
    assert!(entries.iter().all(|entry| entry.word != "overlap"), "{fault}: twice at once: {entries:?}");
    let mut started = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.word == "start") {
        assert!(started.insert((&entry.job, entry.lease)), "{fault}: started twice: {entry:?}");
    }
    assert_eq!(started.len(), if drains { 4 } else { 2 }, "{fault}: {entries:?}");
    drop(workers);
}

fn starts(ledger: &Ledger, gang: &Gang) -> usize {
    let of_gang = |job: &String| gang.tasks.contains(job);
    ledger.read().iter().filter(|entry| entry.word == "start" && of_gang(&entry.job)).count()
}

macro_rules! crashes {
    ($($name:ident: $fault:literal,)+) => {$(
        mod $name {
            #[test]
            fn sqlite() {
                super::crash_at($fault, muster_tests::StoreKind::Sqlite);
            }

            #[test]
            fn postgres() {
                super::crash_at($fault, muster_tests::StoreKind::Postgres);
            }
        }
    )+};
}

crashes! {
    while_a_gang_is_placed: "plan.before",
    after_a_gang_was_placed: "plan.after",
    while_a_task_is_claimed: "claim.before",
    after_a_task_was_claimed: "claim.after",
    while_a_task_is_prepared: "prepared.before",
    after_a_task_was_prepared: "prepared.after",
    while_a_round_starts: "go.before",
    after_a_round_started: "go.after",
    while_a_drain_begins: "drain.before",
    after_a_drain_began: "drain.after",
    while_a_verdict_falls: "verdict.before",
    after_a_verdict_fell: "verdict.after",
}
