//! What jobs leave in the file named by `MUSTER_OUTPUT`, and how it reaches the scheduler.

use std::fs;
use std::path::PathBuf;

use muster_protocol::ReportKind;
use serde_json::json;

use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::Scheduler;

/// Files that are more than an empty one for the next job.
fn result_files(worker: &Worker) -> Vec<PathBuf> {
    let entries = fs::read_dir(worker.directory().join("data/results")).into_iter().flatten().flatten();
    let empty = |path: &PathBuf| path.symlink_metadata().is_ok_and(|file| file.is_file() && file.len() == 0);
    entries.map(|entry| entry.path()).filter(|path| !empty(path)).collect()
}

fn no_file_is_left(worker: &Worker) {
    eventually("the files are removed", || result_files(worker).is_empty().then_some(()));
}

#[test]
fn lines_and_objects_are_reported_with_the_end() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let lines = scheduler.submit(
        "test -f \"$MUSTER_OUTPUT\" && test ! -s \"$MUSTER_OUTPUT\" || exit 9
         echo rows=5 >> $MUSTER_OUTPUT; echo '# a remark' >> $MUSTER_OUTPUT; echo 'path=/a b=c' >> $MUSTER_OUTPUT
         echo rows=6 >> $MUSTER_OUTPUT",
        &json!({}),
    );
    let object = scheduler.submit("echo '{\"rows\": 5, \"list\": [1, null]}' > $MUSTER_OUTPUT", &json!({}));
    let moved = scheduler
        .submit("echo a=1 > $MUSTER_OUTPUT.new; mv $MUSTER_OUTPUT.new $MUSTER_OUTPUT; echo out", &json!({}));
    let failed = scheduler.submit("echo stage=2 > $MUSTER_OUTPUT; exit 3", &json!({}));
    let nothing = scheduler.submit("true", &json!({}));
    let removed = scheduler.submit("rm $MUSTER_OUTPUT", &json!({}));
    for (id, kind, outputs) in [
        (&lines, ReportKind::Done, Some(json!({"rows": "6", "path": "/a b=c"}))),
        (&object, ReportKind::Done, Some(json!({"rows": 5, "list": [1, null]}))),
        (&moved, ReportKind::Done, Some(json!({"a": "1"}))),
        (&failed, ReportKind::Failed, Some(json!({"stage": "2"}))),
        (&nothing, ReportKind::Done, None),
        (&removed, ReportKind::Done, None),
    ] {
        let report = scheduler.report_of(id);
        assert_eq!((report.kind, report.outputs, report.message), (kind, outputs, None));
    }
    no_file_is_left(&worker);
}

#[test]
fn what_is_no_result_is_explained_and_the_exit_code_counts() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let cases = [
        ("printf 'a=1\\nhello\\n' > $MUSTER_OUTPUT", "line 2 is \"hello\""),
        ("echo '{\"a\": ' > $MUSTER_OUTPUT", "at line 2 column 0"),
        ("head -c 70000 /dev/zero | tr '\\0' '#' > $MUSTER_OUTPUT", "longer than 65536 bytes"),
        ("printf 'a=1\\nb=\\377\\000\\n' > $MUSTER_OUTPUT", "line 2 is not text in UTF-8"),
        ("rm $MUSTER_OUTPUT; mkfifo $MUSTER_OUTPUT", "not a plain file"),
        ("rm $MUSTER_OUTPUT; ln -s /proc/self/environ $MUSTER_OUTPUT", "cannot be read"),
    ];
    for (command, mistake) in cases {
        let done = scheduler.submit(command, &json!({}));
        let failed = scheduler.submit(&format!("echo mine >&2; {command}; exit 4"), &json!({}));
        let report = scheduler.report_of(&done);
        assert_eq!((report.kind, report.outputs), (ReportKind::Done, None));
        let message = report.message.unwrap();
        assert!(message.contains("MUSTER_OUTPUT") && message.contains(mistake), "{message}");
        scheduler.output_with(&done, "stderr", &format!("muster: {message}\n"));
        let report = scheduler.report_of(&failed);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(4)));
        assert_eq!(scheduler.output_with(&failed, "stderr", mistake), format!("mine\nmuster: {message}\n"));
    }
    no_file_is_left(&worker);
}

#[test]
fn a_result_waits_on_disk_for_an_agent_and_for_an_answer() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let go_on = worker.directory().join("go-on");
    let command = format!(
        "echo $$; while [ ! -e {} ]; do sleep 0.02; done; echo answer=42 > $MUSTER_OUTPUT",
        go_on.display()
    );
    let id = scheduler.submit(&command, &json!({}));
    let pid = scheduler.output_with(&id, "stdout", "\n").trim().parse().unwrap();
    worker.kill9();
    fs::write(go_on, "").unwrap();
    eventually("the job ends meanwhile", || (!is_alive(pid)).then_some(()));
    scheduler.with(|inner| inner.refuse_reports = 3);
    worker.restart();
    eventually("a report is refused", || scheduler.with(|inner| (inner.refuse_reports < 3).then_some(())));
    assert_eq!(scheduler.report_of(&id).outputs, Some(json!({"answer": "42"})));
    no_file_is_left(&worker);
}

#[test]
fn of_an_attempt_that_was_stopped_nothing_is_kept() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let command = "trap 'echo half > $MUSTER_OUTPUT; exit 0' TERM; echo a=1 > $MUSTER_OUTPUT; echo up; while :; do sleep 0.02; done";
    let late = scheduler.submit(command, &json!({"timeout_seconds": 0.3}));
    let ordered = scheduler.submit(command, &json!({}));
    scheduler.output_with(&ordered, "stdout", "up");
    scheduler.stop(&ordered, 60_000);
    for (id, kind) in [(&late, ReportKind::TimedOut), (&ordered, ReportKind::Preempted)] {
        let report = scheduler.report_of(id);
        assert_eq!((report.kind, report.outputs, report.message), (kind, None, None));
    }
    no_file_is_left(&worker);
}

#[test]
fn many_large_results_arrive() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.requeue = true);
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let command = "{ printf 'x='; head -c 60000 /dev/zero | tr '\\0' y; echo; } > $MUSTER_OUTPUT";
    let ids: Vec<_> = (0..60).map(|_| scheduler.submit(command, &json!({}))).collect();
    for id in &ids {
        let outputs = scheduler.end_of(id).outputs.unwrap();
        assert_eq!(outputs["x"].as_str().map(str::len), Some(60_000));
    }
    no_file_is_left(&worker);
}
