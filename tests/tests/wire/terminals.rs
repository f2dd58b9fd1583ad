//! Terminals in running jobs on the wire: who may open one, what a request must say, and two schedulers between client
//! and worker.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use muster_tests::{
    Backing, Process, Scheduler, Settings, StoreKind, Worker, WorkerSettings, binary, eventually, until,
};
use nix::sys::signal::Signal;
use serde_json::json;

const BOUND: Duration = Duration::from_secs(60);

/// What a browser or our client sends to change over.
const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

fn muster(scheduler: &Scheduler, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("muster"));
    command.env("MUSTER_URL", scheduler.url()).args(arguments).stdin(Stdio::null());
    command
}

fn run(scheduler: &Scheduler, arguments: &[&str]) -> Output {
    muster(scheduler, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn running(scheduler: &Scheduler, request: &serde_json::Value) -> String {
    let job = scheduler.submit_job(request);
    let id = job["id"].as_str().unwrap().to_owned();
    scheduler.await_status(&id, "running", BOUND);
    id
}

#[test]
fn a_request_must_ask_to_change_over_and_a_foreign_page_may_not() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let id = running(&scheduler, &json!({"command": "sleep 1000"}));
    let http = scheduler.http();
    let plain = http.get(&format!("/jobs/{id}/exec"));
    assert!(plain.expect(426).text().contains("Upgrade: websocket"), "{}", plain.text());
    let ask = |target: &str, headers: &[(&str, &str)]| {
        let request = http.request("GET", target);
        headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send()
    };
    let page = [&UPGRADE[..], &[("Origin", "http://evil.example")]].concat();
    ask(&format!("/jobs/{id}/exec"), &page).expect(403);
    ask(&format!("/jobs/{id}/exec"), &UPGRADE[..2]).expect(400);
    ask(&format!("/jobs/{id}/terminal"), &UPGRADE).expect_error(
        409,
        "the job runs in no terminal: it was not submitted with pty (`muster run --pty`); exec runs a program beside it",
    );
    ask("/jobs/job-00000000-0000-4000-8000-000000000000/exec", &UPGRADE).expect(404);
    let join = [("Connection", "Upgrade"), ("Upgrade", "muster-terminal"), ("x-muster-terminal-secret", "x")];
    ask(&format!("/jobs/{id}/terminals/nothing-1"), &join).expect(404);
    http.post(&format!("/jobs/{id}/terminals/x-1?worker=w&lease=1&kind=exec&idle_ms=0"), "").expect(404);
    let events = http.get(&format!("/jobs/{id}/events")).json();
    let opened = events.as_array().unwrap().iter().filter(|event| event["type"] == "terminal_opened").count();
    assert_eq!(opened, 0, "nobody came in: {events}");
}

#[test]
fn a_worker_may_forbid_it_and_one_that_is_silent_is_named() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let mut worker = Worker::start(&scheduler, WorkerSettings::new("closed", 1).set("no-exec", "1"));
    let id = running(&scheduler, &json!({"command": "sleep 1000"}));
    let refused = run(&scheduler, &["exec", &id, "--", "true"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(125) && text.contains("--no-exec"), "{text}");
    worker.process().signal(Signal::SIGSTOP);
    let silent = run(&scheduler, &["exec", &id, "--", "true"]);
    worker.process().signal(Signal::SIGCONT);
    let text = String::from_utf8_lossy(&silent.stderr).into_owned();
    assert!(text.contains("worker closed runs the job and did not answer within 15 s"), "{text}");
}

#[test]
fn only_so_many_are_open() {
    let settings = Settings::default().set("max-terminals", "1");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let id = running(&scheduler, &json!({"command": "sleep 1000"}));
    let log = worker.directory().join("first.log");
    let mut first = Process::start(
        "exec",
        muster(&scheduler, &["exec", &id, "--", "sh", "-c", "echo in; sleep 1000"]),
        &log,
    );
    until("the first is in", BOUND, || first.output().contains("in"));
    assert_eq!(scheduler.metric("muster_terminals"), Some(1));
    let second = run(&scheduler, &["exec", &id, "--", "true"]);
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains("1 terminals are open, which is the most (--max-terminals)"), "{text}");
    first.kill9();
    until("the place is free again", BOUND, || scheduler.metric("muster_terminals") == Some(0));
    assert_eq!(said(&run(&scheduler, &["exec", &id, "--", "echo", "third"])), "third\n");
}

#[test]
fn a_session_without_a_word_ends() {
    let scheduler = Scheduler::start_with(StoreKind::Memory, Settings::default().set("terminal-idle", "1s"));
    let _worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let id = running(&scheduler, &json!({"command": "sleep 1000"}));
    let idle = run(&scheduler, &["exec", &id, "--", "sleep", "1000"]);
    let text = String::from_utf8_lossy(&idle.stderr).into_owned();
    assert!(
        idle.status.code() == Some(255) && text.contains("nothing was typed or written for 1 s"),
        "{text}"
    );
}

#[test]
fn a_client_at_one_scheduler_and_a_worker_at_another_meet() {
    let settings = Settings::default().set("job-heartbeat-timeout", "30s");
    let backing = Backing::new(StoreKind::Postgres);
    let first = Scheduler::start_apart(&backing, settings.clone(), "data-a");
    let second = Scheduler::start_apart(&backing, settings, "data-b");
    let _worker = Worker::start(&first, WorkerSettings::new("w", 1));
    let id = running(&first, &json!({"command": "sleep 1000", "env": {"WHO": "job"}}));
    // They know each other by what they have written down; the first note may be on its way.
    let met = eventually("a session comes about", BOUND, || {
        let output = run(&second, &["exec", &id, "--", "sh", "-c", "echo $WHO; exit 4"]);
        (output.status.code() == Some(4)).then_some(output)
    });
    assert_eq!(said(&met), "job\n");
    assert_eq!(said(&run(&first, &["exec", &id, "--", "echo", "here"])), "here\n");
}

#[test]
fn an_agent_that_is_killed_ends_the_session_and_its_successor_serves_the_next() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let mut worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let id = running(&scheduler, &json!({"command": "sleep 1000"}));
    let directory = worker.directory();
    let pid = directory.join("guest");
    let script = format!("echo $$ > {}; sleep 1000", pid.display());
    let log = directory.join("exec.log");
    let mut session =
        Process::start("exec", muster(&scheduler, &["exec", &id, "--", "sh", "-c", &script]), &log);
    let guest = eventually("the guest runs", BOUND, || {
        std::fs::read_to_string(&pid).ok()?.trim().parse::<u32>().ok()
    });
    worker.kill9();
    assert_eq!(session.wait(BOUND).code(), Some(255), "{}", session.output());
    until("the guest is gone", BOUND, || !std::path::Path::new(&format!("/proc/{guest}")).exists());
    worker.restart();
    let again = eventually("the next session comes about", BOUND, || {
        let output = run(&scheduler, &["exec", &id, "--", "echo", "again"]);
        output.status.success().then_some(output)
    });
    assert_eq!(said(&again), "again\n");
    assert_eq!(scheduler.job(&id)["status"], "running");
}

#[test]
fn a_keeper_that_is_killed_takes_guests_along_with_its_jobs() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let worker = Worker::start(&scheduler, WorkerSettings::new("w", 1));
    let id = running(&scheduler, &json!({"command": "sleep 1000", "max_retries": 1}));
    let directory = worker.directory();
    let pid = directory.join("guest");
    let script = format!("setsid sleep 1000 & echo $! > {}; sleep 1000", pid.display());
    let log = directory.join("exec.log");
    let mut session =
        Process::start("exec", muster(&scheduler, &["exec", &id, "--", "sh", "-c", &script]), &log);
    let stray = eventually("the guest runs", BOUND, || {
        std::fs::read_to_string(&pid).ok()?.trim().parse::<u32>().ok()
    });
    assert!(worker.kill9_keeper());
    assert_eq!(session.wait(BOUND).code(), Some(255), "{}", session.output());
    until("nothing is left", BOUND, || !std::path::Path::new(&format!("/proc/{stray}")).exists());
}

/// The groups of a process, but for the hierarchies that no job is put into.
fn groups(text: &str) -> Vec<&str> {
    let is_counted = |line: &&str| line.contains("muster-");
    let mut groups: Vec<&str> = text.lines().filter(is_counted).collect();
    groups.sort_unstable();
    groups
}

#[test]
fn the_limits_of_a_job_hold_what_is_run_beside_it_and_that_is_killed_first() {
    for isolation in ["auto", "none"] {
        held_beside(isolation);
    }
}

fn held_beside(wanted: &str) {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let worker = Worker::start(&scheduler, WorkerSettings::new("w", 1).set("isolation", wanted));
    let file = worker.directory().join("groups");
    let command = format!("cat /proc/self/cgroup > {0}.new; mv {0}.new {0}; exec sleep 1000", file.display());
    let resources = json!({"memory_mb": 64, "cpus": 1});
    let id = running(&scheduler, &json!({"command": command, "resources": resources}));
    let of_the_job = eventually("the job tells its groups", BOUND, || std::fs::read_to_string(&file).ok());
    let isolation = scheduler.http().get("/workers").json()[0]["isolation"].clone();
    let of_the_guest = said(&run(&scheduler, &["exec", &id, "--", "cat", "/proc/self/cgroup"]));
    assert_eq!(groups(&of_the_guest), groups(&of_the_job), "{isolation}");
    assert_eq!(groups(&of_the_job).is_empty(), isolation == "none", "{of_the_job}");
    // More than the job may have, in a child of the program that was asked for: held for a while, for those who only look.
    let hungry =
        "python3 -c 'import time; x = b\"x\" * 200000000; time.sleep(2); print(len(x))'; echo \"status $?\"";
    let killed = run(&scheduler, &["exec", &id, "--", "sh", "-c", hungry]);
    let text = said(&killed);
    assert!(!text.contains("200000000"), "{isolation}: {text}");
    assert!(text.contains("status 137") || killed.status.code() == Some(137), "{isolation}: {killed:?}");
    assert_eq!(scheduler.job(&id)["status"], "running", "{isolation}: the job goes on");
    // What befell its guest is not held against it.
    scheduler.report(&id, "cancel").expect(200);
    let job = scheduler.await_status(&id, "cancelled", BOUND);
    assert!(!job.to_string().contains("out of memory"), "{job}");
}
