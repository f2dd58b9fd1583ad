//! Ending a worker or a scheduler politely: work is finished or handed back, nothing is left running.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_tests::{Scheduler, StoreKind, Worker, WorkerSettings, eventually, for_each_store, id_of, until};
use nix::sys::signal::Signal;
use serde_json::json;

/// Waits for a process id that a job has written to a file.
fn pid_in(file: &Path) -> i32 {
    eventually("the job has written its process id", Duration::from_secs(15), || {
        fs::read_to_string(file).ok()?.trim().parse().ok()
    })
}

/// Whether the process exists and is more than an entry that nobody has collected yet.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A job that ignores the polite signal, with a child that would outlive it if only the job were killed.
fn stubborn_job(scheduler: &Scheduler, directory: &Path) -> String {
    let script = format!(
        "trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID') > {0}/child; while :; do sleep 1; done) & \
         echo $$ > {0}/parent; while :; do sleep 1; done",
        directory.display()
    );
    id_of(&scheduler.submit_job(&json!({ "command": script, "grace_seconds": 1 })))
}

for_each_store! {
    fn t27_sigterm_lets_the_running_job_finish(store) {
        let scheduler = Scheduler::start(store);
        let mut worker = Worker::start(&scheduler, WorkerSettings::new("polite", 2));
        let file = worker.directory().join("started");
        let running = scheduler.submit(&format!("echo $$ > {}; sleep 1", file.display()));
        pid_in(&file);
        worker.process().signal(Signal::SIGTERM);
        let late = scheduler.submit("true");
        let status = worker.process().wait(Duration::from_secs(30));
        assert!(status.success(), "{status}");
        let job = scheduler.job(&running);
        assert_eq!((&job["status"], &job["attempts"]), (&json!("done"), &json!(1)), "{job}");
        let job = scheduler.job(&late);
        assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(0)), "no new claims: {job}");
    }

    fn t27_a_job_over_the_limit_is_handed_back_without_losing_an_attempt(store) {
        let scheduler = Scheduler::start(store);
        let mut worker = Worker::start(&scheduler, WorkerSettings::new("leaving", 1).set("drain-timeout", "500ms"));
        let id = stubborn_job(&scheduler, &worker.directory());
        let parent = pid_in(&worker.directory().join("parent"));
        let child = pid_in(&worker.directory().join("child"));
        assert!(is_running(parent) && is_running(child));
        let status = worker.terminate(Duration::from_secs(30));
        assert!(status.code().is_some(), "it ends by itself: {status}");
        let job = scheduler.await_status(&id, "pending", Duration::from_secs(5));
        assert_eq!(job["attempts"], 0, "{job}");
        until("the whole process group is gone", Duration::from_secs(10), || !is_running(parent) && !is_running(child));
    }
}

#[test]
fn t27_a_second_signal_forces_the_exit() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let mut worker = Worker::start(&scheduler, WorkerSettings::new("hurried", 1));
    let file = worker.directory().join("started");
    scheduler.submit(&format!("echo $$ > {}; sleep 600", file.display()));
    pid_in(&file);
    worker.process().signal(Signal::SIGTERM);
    // The worker is draining once it no longer takes work; its log says so.
    until("the worker drains", Duration::from_secs(10), || {
        worker.process().output().contains("shutting down")
    });
    worker.process().signal(Signal::SIGTERM);
    worker.process().wait(Duration::from_secs(10));
}

for_each_store! {
    fn h31_a_scheduler_ends_with_zero_and_answers_parked_claims(store) {
        let mut scheduler = Scheduler::start(store);
        let http = scheduler.http();
        let parked = std::thread::spawn(move || http.request("GET", "/jobs/next?worker_id=w&wait=30s").try_send());
        scheduler.submit_job(&json!({ "command": "true", "tags": ["nobody-has-this"] }));
        let status = scheduler.terminate();
        assert_eq!(status.code(), Some(0));
        if let Ok(answer) = parked.join().unwrap() {
            assert!(matches!(answer.status, 200 | 204 | 503), "{}", answer.status);
        }
    }

    fn a_worker_runs_jobs_and_reports_their_end(store) {
        let scheduler = Scheduler::start(store);
        let worker = Worker::start(&scheduler, WorkerSettings::new("busy", 4));
        let good = scheduler.submit("exit 0");
        let request = json!({ "command": "exit 7", "max_retries": 1 });
        let bad = id_of(&scheduler.submit_job(&request));
        let job = scheduler.await_status(&good, "done", Duration::from_secs(15));
        assert_eq!(job["attempts"], 1, "{job}");
        let events = scheduler.http().get(&format!("/jobs/{good}/events")).expect(200).json();
        assert!(events.to_string().contains(r#""worker_id":"busy""#), "the history names the worker: {events}");
        let job = scheduler.await_status(&bad, "failed", Duration::from_secs(15));
        assert_eq!(job["exit_code"], 7, "{job}");
        let variables = "echo $MUSTER_JOB_ID $MUSTER_LEASE $MUSTER_ATTEMPT $MUSTER_URL > variables";
        let directory = worker.directory();
        let request = json!({ "command": variables, "working_dir": directory });
        let told = id_of(&scheduler.submit_job(&request));
        let job = scheduler.await_status(&told, "done", Duration::from_secs(15));
        let written = fs::read_to_string(directory.join("variables")).unwrap();
        assert_eq!(written.trim(), format!("{told} {} 1 {}", job["lease"], scheduler.url()));
    }

    fn cancelling_a_running_job_stops_its_process_group(store) {
        let scheduler = Scheduler::start(store);
        let worker = Worker::start(&scheduler, WorkerSettings::new("obedient", 1));
        let id = stubborn_job(&scheduler, &worker.directory());
        let parent = pid_in(&worker.directory().join("parent"));
        let child = pid_in(&worker.directory().join("child"));
        scheduler.report(&id, "cancel").expect(200);
        scheduler.await_status(&id, "cancelled", Duration::from_secs(15));
        until("the whole process group is gone", Duration::from_secs(5), || !is_running(parent) && !is_running(child));
    }
}
