//! What a job hears before it is stopped, and how its end is judged then.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use muster_protocol::{JobReport, ReportKind, SignalScope};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::Scheduler;

/// Prints the notice, then ends with the given code.
const TELLS: &str = "trap 'cat $MUSTER_PREEMPT_FILE; exit 0' TERM
    test ! -e $MUSTER_PREEMPT_FILE || exit 9; echo up; while :; do sleep 1; done";

fn submit(scheduler: &Scheduler, command: &str, extra: &Value) -> String {
    let id = scheduler.submit(command, extra);
    scheduler.output_with(&id, "stdout", "up\n");
    id
}

/// What the job printed after `up`.
fn notice_of(scheduler: &Scheduler, id: &str) -> Value {
    let text = scheduler.output_with(id, "stdout", "}\n");
    serde_json::from_str(text.strip_prefix("up\n").unwrap()).unwrap()
}

fn judged(report: &JobReport) -> (ReportKind, Option<&str>) {
    (report.kind, report.rule.as_deref())
}

#[test]
fn a_notice_says_why_until_when_and_whether_the_job_comes_back() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let preempted = submit(&scheduler, TELLS, &json!({}));
    let cancelled = submit(&scheduler, TELLS, &json!({}));
    let before = now_in_seconds();
    scheduler.preempt(&preempted, 60_000, |order| {
        order.preemption_epoch = 7;
        "make room for job-9".clone_into(&mut order.reason);
    });
    scheduler.stop(&cancelled, 90_000);
    let mut notice = notice_of(&scheduler, &preempted);
    let deadline = seconds(notice["deadline"].as_str().unwrap());
    assert!((before + 59..before + 120).contains(&deadline), "{notice}");
    notice.as_object_mut().unwrap().remove("deadline");
    let expected = json!({"job_id": preempted, "reason": "make room for job-9", "comes_back": true,
        "preemption_epoch": 7});
    assert_eq!(notice, expected);
    assert_eq!(notice_of(&scheduler, &cancelled)["comes_back"], false);
    let report = scheduler.report_of(&preempted);
    assert_eq!(judged(&report), (ReportKind::Preempted, Some("exit 0 after a notice: comes back")));
    let report = scheduler.report_of(&cancelled);
    assert_eq!(judged(&report), (ReportKind::Preempted, Some("exit 0 after an order to stop")));
    worker.no_file_is_left();
}

fn now_in_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Seconds since 1970 of an RFC 3339 time in UTC.
fn seconds(text: &str) -> u64 {
    let parsed: muster_protocol::Notice = serde_json::from_value(json!({"job_id": "x", "status": "running",
        "reason": "", "preemption_epoch": 0, "deadline": text, "comes_back": false}))
    .unwrap();
    u64::try_from(parsed.deadline.as_second()).unwrap()
}

#[test]
fn timeouts_and_the_end_of_the_worker_are_told_too() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=2", "--drain-timeout=100ms"]);
    let late = submit(&scheduler, TELLS, &json!({"timeout_seconds": 2, "grace_seconds": 60}));
    let notice = notice_of(&scheduler, &late);
    assert_eq!((&notice["reason"], &notice["comes_back"]), (&json!("timeout"), &json!(false)));
    let report = scheduler.report_of(&late);
    assert_eq!(judged(&report), (ReportKind::TimedOut, Some("exit 0 after the timeout")));

    let moved = submit(&scheduler, TELLS, &json!({"grace_seconds": 60}));
    worker.signal(Signal::SIGTERM);
    let notice = notice_of(&scheduler, &moved);
    assert_eq!(
        (&notice["reason"], &notice["comes_back"]),
        (&json!("the worker is shutting down"), &json!(true))
    );
    let report = scheduler.report_of(&moved);
    assert_eq!(judged(&report), (ReportKind::Released, Some("exit 0 after a notice: comes back")));
    worker.wait();
}

#[test]
fn a_job_that_declares_itself_done_has_finished_and_hands_on_its_values() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=4", "--drain-timeout=100ms"]);
    let body = "echo up; while :; do sleep 1; done";
    let on_term = |act: &str| format!("trap 'echo rows=5 > $MUSTER_OUTPUT; {act}' TERM; {body}");
    let marked = submit(&scheduler, &on_term("touch $MUSTER_DONE_FILE; exit 3"), &json!({}));
    let not_marked = submit(&scheduler, &on_term("exit 0"), &json!({}));
    let success = json!({"on_preempt_exit0": "success"});
    let by_code = submit(&scheduler, &on_term("exit 0"), &success);
    let wrong_code = submit(&scheduler, &on_term("exit 1"), &success);
    for id in [&marked, &not_marked, &by_code, &wrong_code] {
        scheduler.preempt(id, 60_000, |_| ());
    }
    let finished =
        [(&marked, "declared done (exit 3)"), (&by_code, "exit 0 after a notice: counts as success")];
    for (id, rule) in finished {
        let report = scheduler.report_of(id);
        assert_eq!(judged(&report), (ReportKind::Finished, Some(rule)));
        assert_eq!(report.outputs, Some(json!({"rows": "5"})));
    }
    for (id, code) in [(&not_marked, 0), (&wrong_code, 1)] {
        let report = scheduler.report_of(id);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Preempted, Some(code)));
        assert_eq!(report.outputs, None);
    }
    let by_itself = scheduler.submit("touch $MUSTER_DONE_FILE", &json!({}));
    assert_eq!(judged(&scheduler.report_of(&by_itself)), (ReportKind::Done, None), "nobody told it to stop");
    let failed = scheduler.submit("touch $MUSTER_DONE_FILE; exit 4", &json!({}));
    assert_eq!(judged(&scheduler.report_of(&failed)), (ReportKind::Failed, None), "nor this one");

    let drained = submit(&scheduler, &on_term("touch $MUSTER_DONE_FILE; exit 0"), &json!({}));
    worker.signal(Signal::SIGTERM);
    assert_eq!(scheduler.report_of(&drained).kind, ReportKind::Finished);
    worker.wait();
    worker.no_file_is_left();
}

#[test]
fn a_user_signal_is_for_those_that_catch_it() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=3"]);
    let body = "trap 'exit 5' TERM; echo up; while :; do sleep 1; done";
    let user = json!({"stop_signal": "SIGUSR1"});
    let caught = submit(&scheduler, &format!("trap 'exit 4' USR1; {body}"), &user);
    let uncaught = submit(&scheduler, body, &user);
    // As an order says it, and for jobs that expect what a batch system does.
    let slurm = submit(&scheduler, &format!("trap 'exit 6' USR1; {body}"), &json!({"slurm_env": true}));
    for (id, code) in [(&caught, 4), (&uncaught, 5), (&slurm, 6)] {
        scheduler.preempt(id, 60_000, |_| ());
        assert_eq!(scheduler.report_of(id).exit_code, Some(code));
    }
    let helpless = submit(&scheduler, "echo up; exec sleep 300", &json!({}));
    scheduler.stop_by(&helpless, 60_000, Signal::SIGUSR2);
    assert_eq!(scheduler.report_of(&helpless).signal, Some(15));
}

#[test]
fn who_ignores_its_own_signal_gets_sigterm_before_the_deadline() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let command = "trap 'echo noted' USR1; trap 'exit 5' TERM; echo up; while :; do sleep 1; done";
    let id = submit(&scheduler, command, &json!({"stop_signal": "SIGUSR1"}));
    scheduler.preempt(&id, 12_000, |_| ());
    scheduler.output_with(&id, "stdout", "noted");
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Preempted, Some(5)), "not killed");
}

#[test]
fn the_order_says_who_hears_it() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    // Counts who hears it: the leader, or the one that it has started.
    let command = "sh -c 'trap \"echo child; exit 0\" TERM; echo up; while :; do sleep 1; done' &
        trap 'echo leader; exit 3' TERM; wait $!; echo left; exit 4";
    let leader = submit(&scheduler, command, &json!({"signal_scope": "descendants"}));
    scheduler.preempt(&leader, 60_000, |order| order.scope = Some(SignalScope::Leader));
    assert_eq!(scheduler.report_of(&leader).exit_code, Some(3));
    assert_eq!(scheduler.output_with(&leader, "stdout", "leader"), "up\nleader\n");
    let below = submit(&scheduler, command, &json!({"signal_scope": "descendants"}));
    scheduler.preempt(&below, 60_000, |_| ());
    assert_eq!(scheduler.report_of(&below).exit_code, Some(4));
    assert_eq!(scheduler.output_with(&below, "stdout", "left"), "up\nchild\nleft\n");
}

#[test]
fn the_program_behind_a_shell_has_its_whole_grace() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let go_on = worker.directory().join("go-on");
    // The outer shell dies of the signal; what it has started saves its work first.
    let command = format!(
        "sh -c 'trap \"echo saving; while [ ! -e {} ]; do sleep 0.02; done; echo saved; exit 0\" TERM; \
         echo $$; echo up; while :; do sleep 1; done'; true",
        go_on.display()
    );
    let id = submit(&scheduler, &command, &json!({}));
    let inner: i32 = scheduler.output_with(&id, "stdout", "up").lines().next().unwrap().parse().unwrap();
    let outer = parent_of(inner).unwrap();
    scheduler.preempt(&id, 60_000, |_| ());
    scheduler.output_with(&id, "stdout", "saving");
    eventually("the shell in front has ended", || (!is_alive(outer)).then_some(()));
    fs::write(go_on, "").unwrap();
    assert_eq!(scheduler.report_of(&id).signal, Some(15));
    scheduler.output_with(&id, "stdout", "saved");
    assert!(!is_alive(inner));
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_group_is_killed_whole_at_the_deadline() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let command = "trap '' TERM USR1; sh -c 'echo $$; echo up; while :; do sleep 1; done' & wait; sleep 300";
    for signal in [None, Some(Signal::SIGUSR1 as i32)] {
        let id = submit(&scheduler, command, &json!({}));
        let child: i32 = scheduler.output_with(&id, "stdout", "up").lines().next().unwrap().parse().unwrap();
        scheduler.preempt(&id, 500, |order| order.signal = signal);
        let report = scheduler.report_of(&id);
        assert_eq!(
            judged(&report),
            (ReportKind::Preempted, Some("ended by signal 9 after a notice: comes back"))
        );
        assert!(!is_alive(child), "the whole group, before anything is reported");
    }
}

#[test]
fn a_new_order_changes_the_notice_and_brings_the_end_nearer() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = submit(&scheduler, "trap 'echo asked' TERM; echo up; while :; do sleep 1; done", &json!({}));
    let notice = || -> Option<Value> {
        let path =
            worker.attempt_files().into_iter().find(|path| path.extension() == Some("notice".as_ref()))?;
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    };
    scheduler.preempt(&id, 600_000, |_| ());
    scheduler.output_with(&id, "stdout", "asked");
    assert_eq!(notice().unwrap()["comes_back"], true);
    scheduler.stop(&id, 500_000);
    eventually("the job can read that it is cancelled", || {
        notice().filter(|notice| notice["comes_back"] == false)
    });
    scheduler.stop(&id, 300);
    let report = scheduler.report_of(&id);
    assert_eq!(judged(&report), (ReportKind::Preempted, Some("ended by signal 9 after an order to stop")));
    assert_eq!(scheduler.output_with(&id, "stdout", "asked"), "up\nasked\n", "asked once");
}

#[test]
fn deadlines_are_kept_without_an_agent() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let stopped = worker.directory().join("stopped");
    let command = format!(
        "trap 'echo asked' USR1; trap 'date > {}; exit 0' TERM; echo $$; echo up; while :; do sleep 1; done",
        stopped.display()
    );
    let id = submit(&scheduler, &command, &json!({"stop_signal": "SIGUSR1", "on_preempt_exit0": "success"}));
    scheduler.preempt(&id, 9_000, |_| ());
    scheduler.output_with(&id, "stdout", "asked");
    worker.kill9();
    eventually("the keeper goes on with the stop", || is_there(&stopped));
    worker.restart();
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Finished, Some(0)));
}

fn is_there(path: &Path) -> Option<()> {
    path.exists().then_some(())
}

#[test]
fn a_stop_before_the_start_leaves_nothing() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1", "--max-ahead=4"]);
    let first = submit(&scheduler, "trap 'exit 0' TERM; echo up; while :; do sleep 1; done", &json!({}));
    scheduler.stop(&first, 60_000);
    scheduler.report_of(&first);
    let dead = scheduler.submit("exit 0", &json!({}));
    scheduler.stop(&dead, 60_000);
    scheduler.report_of(&dead);
    worker.no_file_is_left();
    let directories = fs::read_dir(worker.directory().join("data/checkpoints")).unwrap();
    assert!(directories.count() <= 1, "an empty one is kept for the next job");
}
