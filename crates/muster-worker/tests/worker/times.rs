//! Attempts that take too long, and the signal by which a job is asked to stop.

use std::fs;

use muster_protocol::ReportKind;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::Scheduler;

/// Prints its pid and goes on for ever, whatever it is asked.
const STUBBORN: &str = "trap '' TERM INT; echo $$; while :; do sleep 0.05; done";

fn pid_of(scheduler: &Scheduler, id: &str) -> i32 {
    scheduler.output_with(id, "stdout", "\n").lines().next().unwrap().parse().unwrap()
}

#[test]
fn an_attempt_over_its_time_is_asked_to_stop_and_never_a_success() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=2"]);
    let tidy = scheduler.submit(
        "trap 'echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.02; done",
        &json!({"timeout_seconds": 0.5, "grace_seconds": 60}),
    );
    let quick = scheduler.submit("exit 0", &json!({"timeout_seconds": 3600}));
    let report = scheduler.report_of(&tidy);
    assert_eq!((report.kind, report.exit_code, report.signal), (ReportKind::TimedOut, Some(0), None));
    scheduler.output_with(&tidy, "stdout", "cleaned");
    assert_eq!(scheduler.report_of(&quick).kind, ReportKind::Done);
}

#[test]
fn a_process_that_does_not_listen_is_killed_with_its_group() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=2", "--preempt-grace=300ms"]);
    let command = format!("sleep 300 & echo $!; {STUBBORN}");
    let with_grace = scheduler.submit(&command, &json!({"timeout_seconds": 0.2, "grace_seconds": 0}));
    let by_default = scheduler.submit(STUBBORN, &json!({"timeout_seconds": 0.2}));
    for id in [&with_grace, &by_default] {
        let report = scheduler.report_of(id);
        assert_eq!((report.kind, report.exit_code, report.signal), (ReportKind::TimedOut, None, Some(9)));
    }
    let child = pid_of(&scheduler, &with_grace);
    eventually("the whole group is gone", || (!is_alive(child)).then_some(()));
}

#[test]
fn time_goes_on_without_an_agent() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit(STUBBORN, &json!({"timeout_seconds": 2, "grace_seconds": 0}));
    let pid = pid_of(&scheduler, &id);
    worker.kill9();
    eventually("the keeper ends the job", || (!is_alive(pid)).then_some(()));
    worker.restart();
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.signal), (ReportKind::TimedOut, Some(9)));
}

#[test]
fn a_new_agent_does_not_start_the_clock_again() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let stopped = worker.directory().join("stopped");
    let command =
        format!("trap 'touch {}; exit 0' TERM; echo $$; while :; do sleep 0.02; done", stopped.display());
    let id = scheduler.submit(&command, &json!({"timeout_seconds": 2}));
    pid_of(&scheduler, &id);
    worker.kill9();
    worker.restart();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::TimedOut);
    assert!(fs::exists(stopped).unwrap());
}

#[test]
fn a_job_is_asked_by_the_signal_that_it_named() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=3", "--drain-timeout=100ms"]);
    let command = "trap 'exit 21' INT; trap 'exit 22' TERM; trap 'exit 23' USR1; trap 'exit 24' HUP; echo up; \
                   while :; do sleep 0.02; done";
    let interrupted = json!({"stop_signal": "SIGINT", "grace_seconds": 60});
    let by_timeout = json!({"stop_signal": "SIGINT", "grace_seconds": 60, "timeout_seconds": 0.3});

    let ordered = scheduler.submit(command, &interrupted);
    scheduler.output_with(&ordered, "stdout", "up");
    scheduler.stop(&ordered, 60_000);
    let report = scheduler.report_of(&ordered);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Preempted, Some(21)), "as the job has it");

    let overruled = scheduler.submit(command, &interrupted);
    scheduler.output_with(&overruled, "stdout", "up");
    scheduler.stop_by(&overruled, 60_000, Signal::SIGUSR1);
    assert_eq!(scheduler.report_of(&overruled).exit_code, Some(23), "as the order has it");

    let late = scheduler.submit(command, &by_timeout);
    let report = scheduler.report_of(&late);
    assert_eq!((report.kind, report.exit_code), (ReportKind::TimedOut, Some(21)));

    let plain = scheduler.submit(command, &json!({"grace_seconds": 60}));
    let named = scheduler.submit(command, &json!({"stop_signal": "hup", "grace_seconds": 60}));
    for id in [&plain, &named] {
        scheduler.output_with(id, "stdout", "up");
    }
    worker.signal(Signal::SIGTERM);
    for (id, code) in [(&plain, 22), (&named, 24)] {
        let report = scheduler.report_of(id);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Released, Some(code)));
    }
    worker.wait();
}
