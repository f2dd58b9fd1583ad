//! What a job sees, and what the scheduler hears of it.

use std::os::unix::fs::MetadataExt as _;

use muster_protocol::ReportKind;
use serde_json::json;

use crate::process::{Worker, eventually, is_alive, output_files};
use crate::scheduler::{Happened, Scheduler};

#[test]
fn output_arrives_byte_for_byte_before_the_report() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let id = scheduler.submit("printf 'a\\000\\377b'; printf 'oops' >&2", &json!({}));
    let big = scheduler.submit("seq 1 200000", &json!({}));

    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Done, Some(0)));
    scheduler.report_of(&big);
    scheduler.with(|inner| {
        assert_eq!(inner.output[&(id.clone(), "stdout".into())], b"a\0\xffb");
        assert_eq!(inner.output[&(id.clone(), "stderr".into())], b"oops");
        let expected: Vec<u8> = (1..=200_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
        assert!(inner.output[&(big.clone(), "stdout".into())] == expected);
        let last_output = inner
            .history
            .iter()
            .rposition(|event| matches!(event, Happened::Output { job_id, .. } if *job_id == big));
        let reported = inner
            .history
            .iter()
            .position(|event| matches!(event, Happened::Reported(report) if report.job_id == big));
        assert!(last_output < reported, "output first: {last_output:?} {reported:?}");
        let largest = inner.history.iter().filter_map(|event| match event {
            Happened::Output { bytes, .. } => Some(*bytes),
            _ => None,
        });
        assert!(largest.max() <= Some(256 * 1024));
    });
    eventually("written files are removed", || {
        let written =
            output_files(&worker).into_iter().filter(|path| path.metadata().is_ok_and(|file| file.len() > 0));
        (written.count() == 0).then_some(())
    });
}

#[test]
fn output_is_sent_while_the_job_runs() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let go_on = worker.directory().join("go-on");
    let command =
        format!("echo first; while [ ! -e {0} ]; do sleep 0.02; done; echo second", go_on.display());
    let id = scheduler.submit(&command, &json!({}));
    scheduler.output_with(&id, "stdout", "first\n");
    assert!(scheduler.with(|inner| inner.reports(&id).is_empty()));
    std::fs::write(&go_on, "").unwrap();
    scheduler.report_of(&id);
    assert_eq!(scheduler.output_with(&id, "stdout", "second"), "first\nsecond\n");
}

#[test]
fn a_job_without_output_costs_no_upload() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.requeue = true);
    let _worker = Worker::start(&scheduler, &["--workers=2"]);
    let ids: Vec<_> = (0..50).map(|_| scheduler.submit("true", &json!({}))).collect();
    for id in &ids {
        assert_eq!(scheduler.end_of(id).kind, ReportKind::Done);
    }
    scheduler
        .with(|inner| assert!(!inner.history.iter().any(|event| matches!(event, Happened::Output { .. }))));
}

#[test]
fn exit_codes_and_signals_are_reported() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=2"]);
    let code = scheduler.submit("exit 7", &json!({}));
    let signal = scheduler.submit("kill -USR1 $$", &json!({}));
    let report = scheduler.report_of(&code);
    assert_eq!((report.kind, report.exit_code, report.signal), (ReportKind::Failed, Some(7), None));
    let report = scheduler.report_of(&signal);
    assert_eq!((report.kind, report.exit_code, report.signal), (ReportKind::Failed, None, Some(10)));
}

#[test]
fn what_cannot_start_is_a_failure_that_says_why() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2"]);
    let plain = worker.directory().join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let program = scheduler.submit("", &json!({"argv": ["no-such-program-here"]}));
    let directory = scheduler.submit("true", &json!({"working_dir": "/no/such/place"}));
    let denied = scheduler.submit("", &json!({"argv": [plain]}));
    let message = |id: &str| {
        let report = scheduler.report_of(id);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, None));
        report.message.unwrap()
    };
    assert!(
        message(&program).contains("\"no-such-program-here\": no such program in PATH"),
        "{}",
        message(&program)
    );
    assert!(message(&directory).contains("working directory \"/no/such/place\""), "{}", message(&directory));
    assert!(message(&denied).contains("Permission denied"), "{}", message(&denied));
}

#[test]
fn a_job_sees_its_own_environment_and_little_of_the_worker() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1", "--worker-id=w-env"]);
    let extra = json!({"env": {"GREETING": "hello world", "MUSTER_LEASE": "forged", "MUSTER_OUTPUT": "forged",
            "MUSTER_PIPELINE_ID": "p-1", "MUSTER_STEP": "load", "MUSTER_ARRAY_ID": "a-1", "MUSTER_ARRAY_INDEX": "7",
            "MUSTER_NEEDS_FETCH_ROWS": "5"}, "argv": ["env"], "attempts": 2});
    let id = scheduler.submit("", &extra);
    scheduler.report_of(&id);
    let output = scheduler.output_with(&id, "stdout", "MUSTER_JOB_ID");
    let lines: Vec<&str> = output.lines().collect();
    let lease = id.trim_start_matches("job-");
    for expected in [
        "GREETING=hello world".to_owned(),
        "LC_TEST=passed".to_owned(),
        "MUSTER_ATTEMPT=2".to_owned(),
        format!("MUSTER_LEASE={lease}"),
        format!("MUSTER_JOB_ID={id}"),
        "MUSTER_WORKER_ID=w-env".to_owned(),
        "MUSTER_PIPELINE_ID=p-1".to_owned(),
        "MUSTER_STEP=load".to_owned(),
        "MUSTER_ARRAY_ID=a-1".to_owned(),
        "MUSTER_ARRAY_INDEX=7".to_owned(),
        "MUSTER_NEEDS_FETCH_ROWS=5".to_owned(),
        format!("MUSTER_URL=http://{}", scheduler.address),
    ] {
        assert!(lines.contains(&expected.as_str()), "{expected} is missing in\n{output}");
    }
    assert!(output.contains("MUSTER_OUTPUT=/") && !output.contains("forged"), "{output}");
    assert!(!output.contains("SECRET_OF_THE_WORKER") && !output.contains("CARGO"), "{output}");
    assert!(worker.log().contains("\"checkpoint_data_present\":false"));
}

#[test]
fn w22_no_child_of_a_job_outlives_it() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let id = scheduler.submit("sleep 300 & echo $!", &json!({}));
    scheduler.report_of(&id);
    let pid: i32 = scheduler.output_with(&id, "stdout", "\n").trim().parse().unwrap();
    eventually("the child is gone", || (!is_alive(pid)).then_some(()));
}

#[test]
fn output_beyond_the_limit_fills_no_disk_and_its_end_arrives() {
    let scheduler = Scheduler::start();
    scheduler.with(|inner| inner.log_limit = 100_000);
    let worker = Worker::start(&scheduler, &["--workers=1"]);
    let stop = worker.directory().join("stop");
    let command = format!(
        "echo the beginning; while [ ! -e {} ]; do head -c 1000000 /dev/zero; sleep 0.01; done; echo the end",
        stop.display()
    );
    let id = scheduler.submit(&command, &json!({}));
    let written = || output_files(&worker).into_iter().filter_map(|path| path.metadata().ok());
    eventually("the job has written 30 MB", || written().any(|file| file.len() > 30_000_000).then_some(()));
    eventually("the disk is free again", || {
        (written().map(|file| file.blocks() * 512).sum::<u64>() < 10_000_000).then_some(())
    });
    std::fs::write(&stop, "").unwrap();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    scheduler.with(|inner| {
        let place = (id, "stdout".to_owned());
        let (kept, skipped) = (&inner.output[&place], inner.skipped[&place]);
        assert!(kept.starts_with(b"the beginning\n") && kept.ends_with(b"the end\n"));
        assert!(skipped > 1_000_000, "{skipped} bytes were not sent");
        assert_eq!((kept.len() as u64 + skipped - 22) % 1_000_000, 0, "every byte was sent or skipped");
    });
}
