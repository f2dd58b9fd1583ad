//! Nothing that a job has started outlives it: not by leaving its group, its session, its parents or its
//! environment, and not because somebody who looks after it was killed.

use std::fs;
use std::path::Path;

use muster_protocol::ReportKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::{Happened, Scheduler};

/// Ways out of a process group. Each writes the number of a process that has left to the file `$1`.
const WAYS_OUT: [(&str, &str); 4] = [
    ("a session of its own", "setsid sh -c 'echo $$ > $1.new; mv $1.new $1; exec sleep 300' - $1 &"),
    (
        "a double fork",
        "( setsid sh -c '( sh -c \"echo \\$\\$ > $1.new; mv $1.new $1; exec sleep 300\" & )' - $1 & )",
    ),
    (
        "nothing of its environment",
        "( env -i setsid sh -c '( sh -c \"echo \\$\\$ > $1.new; mv $1.new $1; exec sleep 300\" & )' - $1 & )",
    ),
    (
        "deaf to hangups",
        "nohup setsid sh -c 'echo $$ > $1.new; mv $1.new $1; exec sleep 300' - $1 > /dev/null 2>&1 &",
    ),
];

/// A script that lets a process escape and goes on when that has told its number.
fn escape(way: &str, file: &Path, then: &str) -> String {
    format!("set -- {0}; {way}\nwhile [ ! -e {0} ]; do sleep 0.01; done; {then}", file.display())
}

fn escaped(file: &Path) -> i32 {
    eventually("the process has told its number", || fs::read_to_string(file).ok()).trim().parse().unwrap()
}

#[test]
fn what_left_the_group_ends_with_a_job_that_ends_by_itself() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    // Another job that has let somebody out as well keeps its own.
    let other_file = worker.directory().join("other");
    let stay = worker.directory().join("stay");
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", stay.display());
    let other = scheduler.submit(&escape(WAYS_OUT[2].1, &other_file, &wait), &json!({}));
    let of_the_other = escaped(&other_file);
    for (number, (name, way)) in WAYS_OUT.into_iter().enumerate() {
        let file = worker.directory().join(format!("escaped-{number}"));
        let id = scheduler.submit(&escape(way, &file, "exit 4"), &json!({}));
        let report = scheduler.report_of(&id);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(4)), "{name}");
        assert!(!is_alive(escaped(&file)), "{name}: the end is reported when nothing is left");
    }
    assert!(is_alive(of_the_other), "it belongs to a job that goes on");
    fs::write(stay, "").unwrap();
    scheduler.report_of(&other);
    assert!(!is_alive(of_the_other));
}

#[test]
fn what_left_the_group_ends_with_a_job_that_is_stopped() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    for (number, (name, way)) in WAYS_OUT.into_iter().enumerate() {
        let file = worker.directory().join(format!("stopped-{number}"));
        let id = scheduler.submit(&escape(way, &file, "exec sleep 300"), &json!({"grace_seconds": 1}));
        let pid = escaped(&file);
        scheduler.stop(&id, 1_000);
        scheduler.report_of(&id);
        assert!(!is_alive(pid), "{name}");
        let file = worker.directory().join(format!("late-{number}"));
        let limits = json!({"grace_seconds": 1, "timeout_seconds": 3.0});
        let id = scheduler.submit(&escape(way, &file, "exec sleep 300"), &limits);
        let pid = escaped(&file);
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::TimedOut);
        assert!(!is_alive(pid), "{name}");
    }
}

#[test]
fn the_fence_reaches_what_left_the_group() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.lease_ttl_ms = 2_000);
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let file = worker.directory().join("escaped");
    scheduler.submit(&escape(WAYS_OUT[1].1, &file, "exec sleep 300"), &json!({"grace_seconds": 0}));
    let pid = escaped(&file);
    worker.kill9();
    eventually("the keeper kills it", || (!is_alive(pid)).then_some(()));
}

/// A job with somebody in its group and somebody who has left; both numbers.
fn pair(scheduler: &Scheduler, worker: &Worker, way: &str) -> (String, [i32; 2]) {
    let (file, leader) = (worker.directory().join("escaped"), worker.directory().join("leader"));
    let then = format!("echo $$ > {}; exec sleep 300", leader.display());
    let id = scheduler.submit(&escape(way, &file, &then), &json!({}));
    let leader = eventually("the leader has told its number", || {
        fs::read_to_string(&leader).ok()?.trim().parse::<i32>().ok()
    });
    (id, [leader, escaped(&file)])
}

fn all_gone(pids: [i32; 2]) {
    eventually("everything that the job has started is gone", || {
        (!pids.into_iter().any(is_alive)).then_some(())
    });
}

#[test]
fn a_killed_keeper_takes_everything_with_it_and_the_attempt_is_lost() {
    let scheduler = Scheduler::start();
    for (name, way) in WAYS_OUT {
        let worker = Worker::start(&scheduler, &["--workers=1"]);
        let (id, pids) = pair(&scheduler, &worker, way);
        kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
        let report = scheduler.report_of(&id);
        assert_eq!(report.kind, ReportKind::Lost, "{name}");
        assert!(report.message.unwrap().contains("keeper"));
        assert!(!pids.into_iter().any(is_alive), "{name}: nothing is left when the report comes");
        let next = scheduler.submit("true", &json!({}));
        assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done);
    }
}

#[test]
fn agent_and_keeper_killed_at_once_leave_nothing() {
    let scheduler = Scheduler::start();
    for (_, way) in WAYS_OUT {
        let mut worker = Worker::start(&scheduler, &["--workers=1"]);
        let (_, pids) = pair(&scheduler, &worker, way);
        let keeper = worker.keeper().unwrap();
        worker.signal(Signal::SIGSTOP);
        kill(keeper, Signal::SIGKILL).unwrap();
        worker.kill9();
        all_gone(pids);
        eventually("nobody is left", || worker.keepers().is_empty().then_some(()));
    }
}

#[test]
fn what_survives_the_death_of_all_who_look_after_it_ends_when_a_worker_comes_back() {
    let scheduler = Scheduler::start();
    for (name, way) in WAYS_OUT {
        let mut worker = Worker::start(&scheduler, &["--workers=1"]);
        let (_, [leader, pid]) = pair(&scheduler, &worker, way);
        let keepers = worker.keepers();
        assert_eq!(keepers.len(), 2, "the keeper and its guard");
        worker.signal(Signal::SIGSTOP);
        // Nobody can act on the death of another.
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            for pid in &keepers {
                kill(*pid, signal).unwrap();
            }
        }
        worker.kill9();
        eventually("the leader dies with the keeper", || (!is_alive(leader)).then_some(()));
        assert!(is_alive(pid), "{name}");
        worker.restart();
        let gone = format!("case \"$(cut -d' ' -f3 /proc/{pid}/stat)\" in ''|Z) exit 0;; esac; exit 1");
        let next = scheduler.submit(&gone, &json!({}));
        assert_eq!(
            scheduler.report_of(&next).kind,
            ReportKind::Done,
            "{name}: gone before work is asked for"
        );
    }
}

#[test]
fn a_keeper_without_its_guard_ends_its_jobs_and_makes_room_for_another() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let go_on = worker.directory().join("go-on");
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 3", go_on.display());
    let file = worker.directory().join("escaped");
    let running = scheduler.submit(&escape(WAYS_OUT[0].1, &file, &wait), &json!({}));
    let (pid, keeper) = (escaped(&file), worker.keeper().unwrap());
    kill(worker.guard().unwrap(), Signal::SIGKILL).unwrap();
    fs::write(go_on, "").unwrap();
    let report = scheduler.report_of(&running);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(3)), "the job goes on");
    assert!(!is_alive(pid));
    eventually("a keeper with a guard", || {
        (worker.guard().is_some() && worker.keeper().is_some_and(|now| now != keeper)).then_some(())
    });
    let next = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done);
}

#[test]
fn a_frozen_keeper_is_replaced_by_the_next_agent() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let (_, pids) = pair(&scheduler, &worker, WAYS_OUT[2].1);
    let keeper = worker.keeper().unwrap();
    kill(keeper, Signal::SIGSTOP).unwrap();
    worker.kill9();
    worker.restart();
    let next = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done);
    assert!(!pids.into_iter().any(is_alive) && !is_alive(keeper.as_raw()));
}

#[test]
fn a_frozen_keeper_does_not_keep_the_fence_from_falling() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.lease_ttl_ms = 2_000);
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let (_, pids) = pair(&scheduler, &worker, WAYS_OUT[2].1);
    kill(worker.keeper().unwrap(), Signal::SIGSTOP).unwrap();
    worker.kill9();
    all_gone(pids);
}

#[test]
fn a_frozen_agent_does_not_keep_the_fence_from_falling() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.lease_ttl_ms = 2_000);
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let (_, pids) = pair(&scheduler, &worker, WAYS_OUT[1].1);
    worker.signal(Signal::SIGSTOP);
    all_gone(pids);
    worker.signal(Signal::SIGCONT);
    let next = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done);
}

#[test]
fn a_keeper_that_froze_and_goes_on_has_lost_nothing() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let (id, pids) = pair(&scheduler, &worker, WAYS_OUT[0].1);
    let keeper = worker.keeper().unwrap();
    kill(keeper, Signal::SIGSTOP).unwrap();
    kill(Pid::from_raw(pids[0]), Signal::SIGKILL).unwrap();
    let beats = |inner: &crate::scheduler::Inner| {
        inner.history.iter().filter(|event| matches!(event, Happened::Beat { .. })).count()
    };
    let before = scheduler.with(|inner| beats(inner));
    scheduler.until("the agent goes on", |inner| (beats(inner) > before + 2).then_some(()));
    kill(keeper, Signal::SIGCONT).unwrap();
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.signal), (ReportKind::Failed, Some(9)));
    all_gone(pids);
}

#[test]
fn a_job_that_may_run_once_is_lost_when_nobody_knows_whether_it_has_begun() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    scheduler.report_of(&scheduler.submit("true", &json!({})));
    // A keeper that does not say what it does.
    kill(worker.keeper().unwrap(), Signal::SIGSTOP).unwrap();
    let once = scheduler.submit("true", &json!({"retry": {"lost": false}}));
    let again = scheduler.submit("true", &json!({}));
    for id in [&once, &again] {
        let is_beat = |event: &Happened| matches!(event, Happened::Beat { job_id } if job_id == id);
        scheduler.until("the worker has it", |inner| inner.history.iter().any(is_beat).then_some(()));
    }
    kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
    assert_eq!(scheduler.report_of(&once).kind, ReportKind::Lost);
    assert_eq!(scheduler.report_of(&again).kind, ReportKind::Released);
}

/// The signals that a process ignores, one bit each.
const IGNORED: &str = "grep SigIgn /proc/self/status | grep -o '[0-9a-f]*$'";
/// Two signals that the C library keeps for itself and lets nobody set.
const KEPT_BY_THE_LIBRARY: u64 = 0b11 << 31;

#[test]
fn jobs_ignore_nothing_whatever_the_worker_was_told_to_ignore() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start_ignoring(&scheduler, &["INT", "QUIT", "HUP", "CHLD", "TSTP", "ALRM"]);
    let id = scheduler.submit(IGNORED, &json!({}));
    let ignored = u64::from_str_radix(scheduler.output_with(&id, "stdout", "\n").trim(), 16).unwrap();
    assert_eq!(ignored & !KEPT_BY_THE_LIBRARY, 0, "{ignored:x}");
    let id = scheduler.submit(
        "trap 'exit 21' INT; echo up; while :; do sleep 0.05; done",
        &json!({"stop_signal": "INT", "timeout_seconds": 0.5}),
    );
    assert_eq!(scheduler.report_of(&id).exit_code, Some(21));
}
