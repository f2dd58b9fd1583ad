//! How many jobs a worker takes.

use muster_protocol::ReportKind;
use serde_json::json;

use crate::process::Worker;
use crate::scheduler::{Happened, Inner, Scheduler};

#[test]
fn many_short_jobs_run_once_each() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.requeue = true);
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let runs = worker.directory().join("runs");
    let extra = json!({"argv": ["sh", "-c", format!("echo $MUSTER_JOB_ID >> {}", runs.display())]});
    let ids: Vec<_> = (0..300).map(|_| scheduler.submit("", &extra)).collect();
    for id in &ids {
        assert_eq!(scheduler.end_of(id).kind, ReportKind::Done);
    }
    let text = std::fs::read_to_string(runs).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), ids.len());
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), ids.len());
}

#[test]
fn jobs_claimed_ahead_are_handed_back_once_when_the_slots_stay_busy() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.requeue = true);
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    // Short jobs make the worker claim ahead; then one takes the only slot for longer than others may wait.
    let go_on = worker.directory().join("go-on");
    for _ in 0..40 {
        scheduler.submit("true", &json!({}));
    }
    let blocker =
        scheduler.submit(&format!("while [ ! -e {} ]; do sleep 0.02; done", go_on.display()), &json!({}));
    let behind: Vec<_> = (0..20).map(|_| scheduler.submit("true", &json!({}))).collect();
    let beats = |inner: &Inner| {
        inner
            .history
            .iter()
            .filter(|event| matches!(event, Happened::Beat { job_id } if *job_id == blocker))
            .count()
    };
    let before = scheduler.until("jobs were handed back and all are in the queue", |inner| {
        let released =
            |id: &String| inner.reports(id).iter().any(|report| report.kind == ReportKind::Released);
        (inner.queue.len() == behind.len() && behind.iter().any(released)).then(|| beats(inner))
    });
    scheduler.until("some time passes", |inner| (beats(inner) > before + 4).then_some(()));
    assert_eq!(scheduler.with(|inner| inner.queue.len()), behind.len(), "nothing is claimed again meanwhile");
    std::fs::write(go_on, "").unwrap();
    assert_eq!(scheduler.report_of(&blocker).kind, ReportKind::Done);
    for id in &behind {
        assert_eq!(scheduler.end_of(id).kind, ReportKind::Done);
        let released = |inner: &mut Inner| {
            inner.reports(id).iter().filter(|report| report.kind == ReportKind::Released).count()
        };
        assert!(scheduler.with(released) <= 1);
    }
}

#[test]
fn a_worker_never_runs_more_than_its_slots() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.requeue = true);
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let marks = worker.directory().join("marks");
    std::fs::create_dir(&marks).unwrap();
    let script =
        format!("cd {}; touch $MUSTER_LEASE; ls | wc -l; sleep 0.03; rm $MUSTER_LEASE", marks.display());
    let ids: Vec<_> = (0..30).map(|_| scheduler.submit(&script, &json!({}))).collect();
    for id in &ids {
        scheduler.end_of(id);
        let seen: u32 = scheduler.output_with(id, "stdout", "\n").trim().parse().unwrap();
        assert!(seen <= 2, "{seen} at once");
    }
}

#[test]
fn the_fake_executor_completes_everything() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.requeue = true);
    let worker = Worker::start(&scheduler, &["--workers=4", "--executor=fake"]);
    let ids: Vec<_> = (0..500).map(|_| scheduler.submit("false", &json!({}))).collect();
    for id in &ids {
        assert_eq!(scheduler.end_of(id).kind, ReportKind::Done);
    }
    assert!(worker.keeper().is_none());
}
