//! Stop orders, lost leases and the end of the worker itself.

use std::time::Instant;

use muster_protocol::ReportKind;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::{Happened, Scheduler};

/// Prints its pid, then goes on for ever whatever it is asked.
const STUBBORN: &str = "trap '' TERM; echo $$; while :; do sleep 0.05; done";

fn pid_of(scheduler: &Scheduler, id: &str) -> i32 {
    scheduler.output_with(id, "stdout", "\n").lines().next().unwrap().parse().unwrap()
}

#[test]
fn a_stop_order_is_polite_first() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id =
        scheduler.submit("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done", &json!({}));
    scheduler.output_with(&id, "stdout", "up");
    scheduler.stop(&id, 20_000);
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Preempted, Some(3)));
    scheduler.output_with(&id, "stdout", "bye");
}

#[test]
fn a_stop_order_ends_with_a_kill() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit(STUBBORN, &json!({}));
    let pid = pid_of(&scheduler, &id);
    scheduler.stop(&id, 300);
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.signal), (ReportKind::Preempted, Some(9)));
    assert!(!is_alive(pid));
}

#[test]
fn a_stopped_process_hears_the_polite_signal() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler
        .submit("trap 'exit 4' TERM; echo up; kill -STOP $$; while :; do sleep 0.02; done", &json!({}));
    scheduler.output_with(&id, "stdout", "up");
    scheduler.stop(&id, 20_000);
    assert_eq!(scheduler.report_of(&id).exit_code, Some(4));
}

#[test]
fn an_order_about_a_job_that_never_came_is_answered() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    scheduler.stop("job-77", 0);
    assert_eq!(scheduler.report_of("job-77").kind, ReportKind::Preempted);
}

#[test]
fn t22_a_lost_lease_kills_the_process_and_is_not_reported() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit(STUBBORN, &json!({}));
    let pid = pid_of(&scheduler, &id);
    scheduler.with(|inner| inner.lost.insert(id.clone()));
    eventually("the process is gone", || (!is_alive(pid)).then_some(()));
    let next = scheduler.submit("true", &json!({}));
    scheduler.report_of(&next);
    assert!(scheduler.with(|inner| inner.reports(&id).is_empty()));
}

#[test]
fn t27_a_job_finishes_within_the_limit() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let go_on = worker.directory().join("go-on");
    let id = scheduler
        .submit(&format!("echo up; while [ ! -e {} ]; do sleep 0.02; done", go_on.display()), &json!({}));
    scheduler.output_with(&id, "stdout", "up");
    worker.signal(Signal::SIGTERM);
    eventually("the worker has heard it", || worker.log().contains("worker shutting down").then_some(()));
    let late = scheduler.submit("true", &json!({}));
    std::fs::write(go_on, "").unwrap();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    assert_eq!(worker.wait().code(), Some(0));
    assert!(
        scheduler.with(|inner| inner.reports(&late).is_empty() && inner.queue.len() == 1),
        "no new claims"
    );
    assert!(worker.keeper().is_none());
}

#[test]
fn t27_a_job_over_the_limit_is_stopped_whole_and_handed_back() {
    let scheduler = Scheduler::start();
    let mut worker =
        Worker::start(&scheduler, &["--workers=1", "--drain-timeout=200ms", "--preempt-grace=200ms"]);
    let id = scheduler
        .submit("sleep 300 & echo $!; trap '' TERM; echo $$; while :; do sleep 0.05; done", &json!({}));
    let output = scheduler.output_with(&id, "stdout", "\n");
    let child: i32 = output.lines().next().unwrap().parse().unwrap();
    worker.signal(Signal::SIGTERM);
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.signal), (ReportKind::Released, Some(9)));
    assert_eq!(worker.wait().code(), Some(1), "the limit was exceeded");
    eventually("the whole group is gone", || (!is_alive(child)).then_some(()));
}

#[test]
fn an_idle_worker_leaves_at_once() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=2"]);
    let id = scheduler.submit("true", &json!({}));
    scheduler.report_of(&id);
    let begun = Instant::now();
    worker.signal(Signal::SIGINT);
    assert_eq!(worker.wait().code(), Some(0));
    assert!(begun.elapsed().as_millis() < 900, "{:?}", begun.elapsed());
    assert!(scheduler.with(|inner| inner.history.iter().any(|event| matches!(event, Happened::Left))));
    assert!(worker.keeper().is_none());
    for folder in ["output", "results", "attempts", "checkpoints"] {
        assert_eq!(
            std::fs::read_dir(worker.directory().join("data").join(folder)).unwrap().count(),
            0,
            "{folder}"
        );
    }
}

#[test]
fn a_second_signal_forces_the_end() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit(STUBBORN, &json!({}));
    let pid = pid_of(&scheduler, &id);
    worker.signal(Signal::SIGTERM);
    eventually("the first is heard", || worker.log().contains("worker shutting down").then_some(()));
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait().code(), Some(1));
    assert!(!is_alive(pid));
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Released);
}
