//! Checkpoints on their way between jobs and the scheduler.

use std::fs;

use muster_protocol::ReportKind;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::{Worker, eventually};
use crate::scheduler::{Happened, Inner, Scheduler};

/// Leaves all 256 bytes, then ends with the code.
const ALL_BYTES: &str =
    "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done > $MUSTER_CHECKPOINT_OUT";

fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

/// A checkpoint that was saved, and whether the report came after it.
#[derive(Debug, PartialEq)]
struct Saved {
    lease: u64,
    epoch: Option<u32>,
    bytes: Vec<u8>,
    before_report: bool,
}

fn saved(inner: &Inner, id: &str) -> Vec<Saved> {
    let reported = inner
        .history
        .iter()
        .position(|event| matches!(event, Happened::Reported(report) if report.job_id == id));
    let saves = inner.history.iter().enumerate().filter_map(|(index, event)| match event {
        Happened::Saved { job_id, lease, epoch, bytes } if job_id == id => Some(Saved {
            lease: *lease,
            epoch: *epoch,
            bytes: bytes.clone(),
            before_report: reported.is_none_or(|reported| index < reported),
        }),
        _ => None,
    });
    saves.collect()
}

fn lease_of(id: &str) -> u64 {
    id.trim_start_matches("job-").parse().unwrap()
}

#[test]
fn w10_what_a_job_leaves_is_saved_byte_for_byte_before_its_end_is_reported() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let by_itself = scheduler.submit(&format!("echo out; {ALL_BYTES}; exit 3"), &json!({}));
    let command = format!("trap '{ALL_BYTES}; exit 0' TERM; echo up; while :; do sleep 0.02; done");
    let ordered = scheduler.submit(&command, &json!({}));
    scheduler.output_with(&ordered, "stdout", "up");
    scheduler.preempt(&ordered, 60_000, |order| order.preemption_epoch = 5);
    for (id, kind, epoch) in
        [(&by_itself, ReportKind::Failed, None), (&ordered, ReportKind::Preempted, Some(5))]
    {
        assert_eq!(scheduler.report_of(id).kind, kind);
        let expected = Saved { lease: lease_of(id), epoch, bytes: every_byte(), before_report: true };
        assert_eq!(scheduler.with(|inner| saved(inner, id)), [expected]);
    }
    let nothing = scheduler.submit("touch $MUSTER_CHECKPOINT_OUT", &json!({}));
    assert_eq!(scheduler.report_of(&nothing).message, None);
    assert_eq!(scheduler.with(|inner| saved(inner, &nothing)), []);
    worker.no_file_is_left();
}

#[test]
fn w10_a_job_starts_from_its_checkpoint() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    scheduler.with(|inner| inner.checkpoints.insert("job-1".to_owned(), every_byte()));
    scheduler.with(|inner| inner.refuse_fetches = vec![503, 429]);
    let copy = worker.directory().join("copy");
    let command = format!("cp $MUSTER_CHECKPOINT_FILE {}", copy.display());
    let id =
        scheduler.submit(&command, &json!({"checkpoint_bytes": 256, "env": {"CHECKPOINT_DATA": "AAEC"}}));
    assert_eq!((id.as_str(), scheduler.report_of(&id).kind), ("job-1", ReportKind::Done));
    assert_eq!(fs::read(copy).unwrap(), every_byte());
    let picked = worker.log().lines().find(|line| line.contains("job picked up")).unwrap().to_owned();
    assert!(picked.contains("\"checkpoint_data_present\":true"), "{picked}");
    assert!(picked.contains("\"checkpoint_data_bytes\":3"), "{picked}");

    let without = scheduler.submit("test -z \"${MUSTER_CHECKPOINT_FILE+set}\"", &json!({}));
    assert_eq!(scheduler.report_of(&without).kind, ReportKind::Done);
    let vanished =
        scheduler.submit("test -z \"${MUSTER_CHECKPOINT_FILE+set}\"", &json!({"checkpoint_bytes": 9}));
    assert_eq!(scheduler.report_of(&vanished).kind, ReportKind::Done);
    worker.no_file_is_left();
}

#[test]
fn w11_a_large_checkpoint_goes_there_and_back() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let megabytes = 12;
    let first = scheduler.submit(
        &format!("head -c {megabytes}M /dev/urandom > $MUSTER_CHECKPOINT_OUT; cksum < $MUSTER_CHECKPOINT_OUT; exit 1"),
        &json!({}),
    );
    scheduler.report_of(&first);
    let sum = scheduler.output_with(&first, "stdout", "\n");
    let bytes = scheduler.with(|inner| inner.checkpoints[&first].clone());
    assert_eq!(bytes.len(), megabytes << 20);
    scheduler.with(|inner| inner.checkpoints.insert("job-2".to_owned(), bytes));
    let second =
        scheduler.submit("cksum < $MUSTER_CHECKPOINT_FILE", &json!({"checkpoint_bytes": megabytes << 20}));
    scheduler.report_of(&second);
    assert_eq!(scheduler.output_with(&second, "stdout", "\n"), sum);
    let picked = worker.log().lines().rfind(|line| line.contains("job picked up")).unwrap().to_owned();
    assert!(picked.contains("\"checkpoint_data_present\":true"), "{picked}");
}

#[test]
fn a_checkpoint_that_is_not_taken_does_not_hold_up_the_report() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1", "--checkpoint-limit=1000"]);
    scheduler.with(|inner| inner.refuse_checkpoints = vec![413]);
    let refused = scheduler.submit("echo 12 > $MUSTER_CHECKPOINT_OUT", &json!({}));
    let report = scheduler.report_of(&refused);
    assert_eq!(report.kind, ReportKind::Done);
    let message = report.message.unwrap();
    assert!(message.contains("not saved: 3 bytes") && message.contains("413"), "{message}");

    let large = scheduler.submit("head -c 1001 /dev/zero > $MUSTER_CHECKPOINT_OUT; exit 4", &json!({}));
    let report = scheduler.report_of(&large);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(4)));
    let message = report.message.unwrap();
    assert!(message.contains("it has 1001 bytes, and a worker takes at most 1000"), "{message}");

    let command = "trap 'ln -s /proc/self/environ $MUSTER_CHECKPOINT_OUT; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let odd = scheduler.submit(command, &json!({}));
    scheduler.output_with(&odd, "stdout", "up");
    scheduler.preempt(&odd, 60_000, |_| ());
    let report = scheduler.report_of(&odd);
    assert_eq!(report.kind, ReportKind::Preempted);
    let rule = report.rule.unwrap();
    assert!(rule.starts_with("exit 0 after a notice: comes back; its checkpoint was not saved"), "{rule}");
    assert_eq!(scheduler.with(|inner| inner.checkpoints.len()), 0);
}

#[test]
fn a_scheduler_that_is_busy_or_away_is_asked_again() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    scheduler.with(|inner| inner.refuse_checkpoints = vec![503, 429, 500]);
    let busy = scheduler.submit("echo 1 > $MUSTER_CHECKPOINT_OUT", &json!({}));
    assert_eq!(scheduler.report_of(&busy).message, None);
    assert!(scheduler.with(|inner| saved(inner, &busy)[0].before_report));

    // Ends while there is neither scheduler nor agent.
    let go_on = worker.directory().join("go-on");
    let ended = worker.directory().join("ended");
    let command = format!(
        "echo up; while [ ! -e {} ]; do sleep 0.02; done; echo 2 > $MUSTER_CHECKPOINT_OUT; touch {}",
        go_on.display(),
        ended.display()
    );
    let id = scheduler.submit(&command, &json!({}));
    scheduler.output_with(&id, "stdout", "up");
    worker.kill9();
    fs::write(go_on, "").unwrap();
    eventually("the job ends", || ended.exists().then_some(()));
    scheduler.with(|inner| inner.refuse_checkpoints = vec![503]);
    worker.restart();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    let saves = scheduler.with(|inner| saved(inner, &id));
    assert!(saves.len() == 1 && saves[0].bytes == b"2\n" && saves[0].before_report, "{saves:?}");
    worker.no_file_is_left();
}

#[test]
fn a_checkpoint_that_cannot_be_had_fails_the_attempt() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    scheduler.with(|inner| inner.refuse_fetches = vec![410]);
    let id = scheduler.submit("true", &json!({"checkpoint_bytes": 9}));
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Failed);
    assert!(report.message.unwrap().contains("the checkpoint cannot be fetched"));
}

#[test]
fn a_job_that_waits_for_its_checkpoint_can_be_stopped_lost_and_handed_back() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=3"]);
    scheduler.with(|inner| inner.hold_fetches = true);
    let ran = worker.directory().join("ran");
    let command = format!("touch {}", ran.display());
    let waiting = |scheduler: &Scheduler| {
        let id = scheduler.submit(&command, &json!({"checkpoint_bytes": 9}));
        scheduler.until("the checkpoint is asked for", |inner| {
            let asked = |event: &Happened| matches!(event, Happened::Fetched { job_id } if *job_id == id);
            inner.history.iter().any(asked).then_some(())
        });
        id
    };
    let stopped = waiting(&scheduler);
    scheduler.preempt(&stopped, 60_000, |_| ());
    assert_eq!(scheduler.report_of(&stopped).kind, ReportKind::Preempted);
    let lost = waiting(&scheduler);
    scheduler.with(|inner| inner.lost.insert(lost.clone()));
    eventually("the loss is noticed", || worker.log().contains("lost before the start").then_some(()));
    let handed_back = waiting(&scheduler);
    worker.signal(Signal::SIGTERM);
    assert_eq!(scheduler.report_of(&handed_back).kind, ReportKind::Released);
    assert_eq!(worker.wait().code(), Some(0));
    assert!(!ran.exists() && scheduler.with(|inner| inner.reports(&lost).is_empty()));
}

#[test]
fn attempts_of_a_job_on_one_worker_share_a_directory() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let again = json!({"id": "job-1", "lease": 7, "attempts": 2});
    scheduler.submit("echo 5 > $MUSTER_CHECKPOINT_DIR/step; exit 1", &json!({}));
    assert_eq!(scheduler.report_of("job-1").kind, ReportKind::Failed);
    scheduler.submit("test \"$(cat $MUSTER_CHECKPOINT_DIR/step)\" = 5", &again);
    scheduler.until("the second attempt", |inner| {
        inner.reports("job-1").iter().any(|report| report.kind == ReportKind::Done).then_some(())
    });
    assert!(worker.directory().join("data/checkpoints/job-1/step").exists());
    let tidy = scheduler.submit("test -d $MUSTER_CHECKPOINT_DIR", &json!({}));
    assert_eq!(scheduler.report_of(&tidy).kind, ReportKind::Done);
    let next = scheduler.submit("test -d $MUSTER_CHECKPOINT_DIR", &json!({}));
    assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done);
    let empty = worker.directory().join("data/checkpoints").join(&tidy);
    assert!(!empty.exists(), "the next job has it under its own name");
}

#[test]
fn directories_that_nobody_uses_go_after_a_while() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1", "--checkpoint-dir-keep=2h"]);
    for id in ["job-1", "job-2"] {
        assert_eq!(scheduler.submit("echo 5 > $MUSTER_CHECKPOINT_DIR/step", &json!({})), id);
        scheduler.report_of(id);
    }
    worker.signal(Signal::SIGTERM);
    worker.wait();
    let folder = worker.directory().join("data/checkpoints");
    let directory = |id: &str| folder.join(id);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 3600);
    fs::File::open(directory("job-1")).unwrap().set_modified(old).unwrap();
    worker.restart();
    eventually("the old one is removed", || (!directory("job-1").exists()).then_some(()));
    assert!(directory("job-2").join("step").exists());
}

#[test]
fn a3_demo_jobs_run_without_their_prefix_and_leave_a_checkpoint_when_preempted() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    scheduler.with(|inner| inner.refuse_checkpoints = vec![503]);
    let id = scheduler.submit("demo: echo up; exec sleep 60", &json!({"attempts": 2, "max_retries": 5}));
    scheduler.output_with(&id, "stdout", "up");
    scheduler.preempt(&id, 60_000, |order| order.preemption_epoch = 3);
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Preempted);
    let saves = scheduler.with(|inner| saved(inner, &id));
    assert!(saves.len() == 1 && saves[0].before_report && saves[0].epoch == Some(3), "{saves:?}");
    let mut left: Value = serde_json::from_slice(&saves[0].bytes).unwrap();
    assert!(left.as_object_mut().unwrap().remove("elapsed_ms").unwrap().is_u64());
    assert_eq!(left, json!({"task_id": id, "epoch": 3, "demo": true}));

    let again = scheduler.submit("demo:true", &json!({"env": {"CHECKPOINT_DATA": "eyJzdGVwIjo0Mn0="}}));
    assert_eq!(scheduler.report_of(&again).kind, ReportKind::Done);
    assert_eq!(scheduler.with(|inner| saved(inner, &again)), [], "nobody preempted it");
    let picked: Vec<Value> = worker
        .log()
        .lines()
        .filter(|line| line.contains("job picked up"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(worker.log().contains("\"checkpoint_data_present\":true"));
    let fields = |line: &Value| {
        [
            "msg",
            "job_id",
            "attempt",
            "max_retries",
            "command",
            "demo",
            "checkpoint_data_present",
            "checkpoint_data_bytes",
        ]
        .map(|name| line[name].clone())
    };
    let expected = [
        [
            json!("job picked up"),
            json!(id),
            json!(2),
            json!(5),
            json!("demo: echo up; exec sleep 60"),
            json!(true),
            json!(false),
            json!(0),
        ],
        [
            json!("job picked up"),
            json!(again),
            json!(1),
            json!(3),
            json!("demo:true"),
            json!(true),
            json!(true),
            json!(11),
        ],
    ];
    assert_eq!(picked.iter().map(fields).collect::<Vec<_>>(), expected);
}

#[test]
fn a_worker_that_ends_saves_what_its_jobs_leave_before_it_hands_them_back() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1", "--drain-timeout=100ms"]);
    let command =
        "trap 'echo step 9 > $MUSTER_CHECKPOINT_OUT; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let id = scheduler.submit(command, &json!({"grace_seconds": 60}));
    scheduler.output_with(&id, "stdout", "up");
    scheduler.with(|inner| inner.refuse_checkpoints = vec![503]);
    worker.signal(Signal::SIGTERM);
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Released);
    let saves = scheduler.with(|inner| saved(inner, &id));
    assert!(saves.len() == 1 && saves[0].before_report && saves[0].epoch.is_none(), "{saves:?}");
    assert_eq!(worker.wait().code(), Some(1), "it had to stop a job");
    worker.no_file_is_left();
}

#[test]
fn a_job_has_what_it_needs_to_speak_for_itself() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let command = "echo \"$MUSTER_URL $MUSTER_JOB_ID $MUSTER_LEASE $MUSTER_ATTEMPT ${MUSTER_TOKEN-none}\"";
    let given = scheduler.submit(command, &json!({"token": "secret", "env": {"MUSTER_TOKEN": "mine"}}));
    let none = scheduler.submit(command, &json!({"env": {"MUSTER_TOKEN": "mine"}}));
    for (id, token) in [(&given, "secret"), (&none, "none")] {
        let expected = format!("http://{} {id} {} 1 {token}\n", scheduler.address, lease_of(id));
        assert_eq!(scheduler.output_with(id, "stdout", "\n"), expected);
    }
}
