//! Output in files of the submitter: whole after the death of an agent, and no harm to the job where it cannot be written.

use std::fs;

use muster_protocol::ReportKind;
use serde_json::json;

use crate::process::{Worker, eventually};
use crate::scheduler::Scheduler;

#[test]
fn a_file_is_whole_after_the_agent_was_killed() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start(&scheduler, &["--workers=1"]);
    let (target, go_on) = (worker.directory().join("target"), worker.directory().join("go-on"));
    fs::write(&target, "before\n").unwrap();
    let wait = |name: &str| format!("while [ ! -e {}{name} ]; do sleep 0.02; done", go_on.display());
    let lines =
        |from: u32, to: u32| format!("i={from}; while [ $i -lt {to} ]; do echo line $i; i=$((i+1)); done");
    let command =
        [lines(0, 5_000), wait("1"), lines(5_000, 9_000), wait("2"), lines(9_000, 9_100)].join("; ");
    let id = scheduler.submit(&command, &json!({"stdout_path": target, "open_mode": "append"}));
    let reaches = |line: &str| {
        let end = format!("{line}\n");
        eventually("the file has it", || fs::read_to_string(&target).unwrap().ends_with(&end).then_some(()));
    };
    reaches("line 4999");
    worker.kill9();
    // What is written while nobody copies.
    fs::write(go_on.with_file_name("go-on1"), "").unwrap();
    worker.restart();
    reaches("line 8999");
    fs::write(go_on.with_file_name("go-on2"), "").unwrap();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    let expected = (0..9_100).map(|number| format!("line {number}"));
    let text = fs::read_to_string(&target).unwrap();
    assert!(
        text.lines().eq(std::iter::once("before".to_owned()).chain(expected)),
        "every line once, in order"
    );
    let notes = || {
        let folder = fs::read_dir(worker.directory().join("data/output")).unwrap().flatten();
        folder.filter(|file| file.path().extension().is_some_and(|end| end == "copied")).count()
    };
    eventually("nothing is left of the copy", || (notes() == 0).then_some(()));
}

#[test]
fn a_file_that_cannot_be_written_does_not_harm_the_job() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("echo hello; exit 3", &json!({"stdout_path": "/dev/full"}));
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(3)));
    assert_eq!(scheduler.output_with(&id, "stdout", "hello"), "hello\n");
    let said = scheduler.output_with(&id, "stderr", "not whole");
    assert!(said.contains("/dev/full") && said.contains("No space left"), "{said}");
    let next = scheduler.submit("echo hello", &json!({}));
    assert_eq!(scheduler.report_of(&next).kind, ReportKind::Done, "the worker goes on");
}
