//! Deaths of the agent, the keeper and the scheduler.

use std::fs;

use muster_protocol::ReportKind;
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::{Happened, Scheduler};

fn pid_of(scheduler: &Scheduler, id: &str) -> i32 {
    scheduler.output_with(id, "stdout", "\n").lines().next().unwrap().parse().unwrap()
}

#[test]
fn a_killed_agent_finds_its_jobs_again() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=3"]);
    let (runs, go_on) = (worker.directory().join("runs"), worker.directory().join("go-on"));
    let command = format!(
        "echo $MUSTER_LEASE >> {}; echo up; while [ ! -e {} ]; do sleep 0.02; done; echo down; exit 5",
        runs.display(),
        go_on.display()
    );
    let running = scheduler.submit(&command, &json!({}));
    let ended = scheduler.submit("echo quick; exit 6", &json!({"env": {"X": "y"}}));
    scheduler.output_with(&running, "stdout", "up");
    scheduler.report_of(&ended);
    worker.kill9();

    let beats = |job: &str| {
        let job = job.to_owned();
        scheduler.with(move |inner| {
            inner
                .history
                .iter()
                .filter(|event| matches!(event, Happened::Beat { job_id } if *job_id == job))
                .count()
        })
    };
    let before = beats(&running);
    worker.restart();
    eventually("the lease is renewed again", || (beats(&running) > before).then_some(()));
    fs::write(go_on, "").unwrap();
    let report = scheduler.report_of(&running);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(5)));
    assert_eq!(scheduler.output_with(&running, "stdout", "down"), "up\ndown\n");
    assert_eq!(fs::read_to_string(runs).unwrap().lines().count(), 1, "it ran once");
}

#[test]
fn an_end_that_the_agent_missed_is_reported_by_the_next() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let go_on = worker.directory().join("go-on");
    let id = scheduler.submit(
        &format!("echo $$; while [ ! -e {} ]; do sleep 0.02; done; echo last words; exit 9", go_on.display()),
        &json!({}),
    );
    let pid = pid_of(&scheduler, &id);
    worker.kill9();
    fs::write(go_on, "").unwrap();
    eventually("the job ends meanwhile", || (!is_alive(pid)).then_some(()));
    worker.restart();
    assert_eq!(scheduler.report_of(&id).exit_code, Some(9));
    assert!(scheduler.output_with(&id, "stdout", "last words").ends_with("last words\n"));
}

#[test]
fn w05_jobs_are_stopped_when_the_scheduler_is_away_for_too_long() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.lease_ttl_ms = 2_000);
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("trap '' TERM; echo $$; while :; do sleep 0.05; done", &json!({}));
    let pid = pid_of(&scheduler, &id);
    scheduler.until("a heartbeat", |inner| {
        inner.history.iter().any(|event| matches!(event, Happened::Beat { .. })).then_some(())
    });
    scheduler.with(|inner| inner.down = true);
    let begun = std::time::Instant::now();
    eventually("the fence kills it", || (!is_alive(pid)).then_some(()));
    assert!(begun.elapsed().as_millis() < 2_000, "before the lease is over: {:?}", begun.elapsed());
    assert!(begun.elapsed().as_millis() > 500, "not at the first hiccup: {:?}", begun.elapsed());
    scheduler.with(|inner| inner.down = false);
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Released);
}

#[test]
fn the_fence_holds_without_an_agent() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.lease_ttl_ms = 2_000);
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("trap '' TERM; echo $$; while :; do sleep 0.05; done", &json!({}));
    let pid = pid_of(&scheduler, &id);
    worker.kill9();
    eventually("the keeper kills it", || (!is_alive(pid)).then_some(()));
}

#[test]
fn reports_are_repeated_until_they_are_answered() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=2"]);
    scheduler.with(|inner| inner.refuse_reports = 4);
    let first = scheduler.submit("exit 3", &json!({}));
    let second = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&first).exit_code, Some(3));
    assert_eq!(scheduler.report_of(&second).kind, ReportKind::Done);
    assert!(scheduler.with(|inner| inner.refuse_reports == 0));
}

#[test]
fn w21_a_forgotten_worker_registers_again() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let registrations = |at_least: usize| {
        scheduler.until("a registration", |inner| {
            let count = inner.history.iter().filter(|event| matches!(event, Happened::Registered)).count();
            (count >= at_least).then_some(())
        });
    };
    registrations(1);
    let running = scheduler.submit("sleep 0.3", &json!({}));
    scheduler.with(|inner| inner.known.clear());
    registrations(2);
    let id = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    assert_eq!(scheduler.report_of(&running).kind, ReportKind::Done);
}

#[test]
fn a_worker_waits_for_a_scheduler_that_starts_later() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.down = true);
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    eventually("the worker has tried", || worker.log().contains("cannot register").then_some(()));
    scheduler.with(|inner| inner.down = false);
    let id = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
}

#[test]
fn a_worker_gives_up_on_a_scheduler_that_never_comes() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.down = true);
    let mut worker = Worker::start(&scheduler, &["--workers=1", "--register-timeout=300ms"]);
    assert_eq!(worker.wait().code(), Some(1));
}

#[test]
fn the_death_of_the_keeper_is_survived() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("echo $$; exec sleep 300", &json!({}));
    let pid = pid_of(&scheduler, &id);
    kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Lost);
    assert!(report.message.unwrap().contains("keeper"));
    eventually("the orphan is gone", || (!is_alive(pid)).then_some(()));
    let next = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done);
}

#[test]
fn orphans_of_a_former_life_are_killed_at_the_start() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("echo $$; exec sleep 300", &json!({}));
    let pid = pid_of(&scheduler, &id);
    let keeper = worker.keeper().unwrap();
    worker.kill9();
    kill(keeper, Signal::SIGKILL).unwrap();
    worker.restart();
    eventually("the orphan is gone", || (!is_alive(pid)).then_some(()));
}

#[test]
fn a_keeper_that_nobody_needs_goes() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.lease_ttl_ms = 1_000);
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("true", &json!({}));
    scheduler.report_of(&id);
    worker.kill9();
    eventually("the keeper ends", || worker.keeper().is_none().then_some(()));
    assert!(!worker.directory().join("data/keeper.sock").exists());
}
