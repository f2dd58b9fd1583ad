//! `muster up`: ready, durable, and an orderly end.

use muster_tests::{Backing, Process, StoreKind, until};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::harness::{BOUND, Started, Up, muster};

#[test]
fn the_ready_line_has_the_url_and_a_first_command() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = muster(directory.path());
    command.args(["up", "--port", "0", "--data-dir", "kept"]);
    let log = directory.path().join("log");
    let mut process = Process::start("muster up", command, &log);
    until("it is ready", BOUND, || process.output().contains("muster run"));
    assert!(process.output().contains("Muster is ready at http://localhost:"), "{}", process.output());
    assert!(directory.path().join("kept/muster.db").is_file());
    process.signal(Signal::SIGINT);
    assert_eq!(process.wait(BOUND).code(), Some(0), "{}", process.output());
}

#[test]
fn what_was_submitted_survives_a_restart() {
    let mut up = Up::start_with(&["--no-worker"]);
    let id = up.submit(&["--", "true"]);
    up.process.kill9();
    let mut command = muster(up.directory.path());
    command.args(["up", "--port", "0", "--json"]);
    let log = up.directory.path().join("again.log");
    let mut again = Process::start("muster up", command, &log);
    until("it is ready again", BOUND, || again.output().contains("\"url\""));
    let ready: serde_json::Value = serde_json::from_str(again.output().lines().next().unwrap()).unwrap();
    let mut wait = muster(up.directory.path());
    wait.args(["wait", &id, "--url", ready["url"].as_str().unwrap()]);
    Started::spawn(wait).finish().ok();
    again.signal(Signal::SIGTERM);
    assert_eq!(again.wait(BOUND).code(), Some(0), "{}", again.output());
}

#[test]
fn running_jobs_may_finish_before_the_end() {
    let mut up = Up::start();
    let gate = up.directory.path().join("gate");
    let id = up.submit(&["--", "sh", "-c", "while [ ! -e gate ]; do sleep 0.01; done; touch finished"]);
    up.await_status(&id, "running");
    up.process.signal(Signal::SIGINT);
    until("it says that it stops", BOUND, || up.process.output().contains("stopping"));
    std::fs::write(gate, "").unwrap();
    assert_eq!(up.process.wait(BOUND).code(), Some(0), "{}", up.process.output());
    assert!(up.directory.path().join("finished").exists());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut up = Up::start_with(&["--drain-timeout", "60s"]);
    let id = up.submit(&["--", "sleep", "60"]);
    up.await_status(&id, "running");
    up.process.signal(Signal::SIGINT);
    until("it says that it stops", BOUND, || up.process.output().contains("stopping"));
    up.process.signal(Signal::SIGINT);
    assert_eq!(up.process.wait(BOUND).code(), Some(1), "the drain would have ended with 0");
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = muster(directory.path());
    command.args(["up", "--port", &port]);
    let finished = Started::spawn(command).finish();
    assert_eq!(finished.code(), 1);
    assert!(finished.stderr.contains(&port) && finished.stderr.contains("--port"), "{finished:?}");
}

#[test]
fn settings_come_from_the_file_too() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    std::fs::write(
        directory.path().join("muster.toml"),
        "[up]\nport = 0\nworkers = 7\ndb-driver = \"memory\"",
    )
    .unwrap();
    let mut command = muster(directory.path());
    command.args(["up", "--json"]);
    let log = directory.path().join("log");
    let mut process = Process::start("muster up", command, &log);
    until("it is ready", BOUND, || process.output().contains("\"url\""));
    assert!(process.output().contains("\"slots\":7") && process.output().contains("memory"));
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait(BOUND).code(), Some(0));
}

#[test]
fn another_store_runs_jobs_just_the_same() {
    let backing = Backing::new(StoreKind::Postgres);
    let up = Up::start_with(&["--db-driver", "postgres", "--db-url", backing.url()]);
    assert_eq!(up.run(&["run", "--", "echo", "hello"]).ok().stdout, "hello\n");
}

#[test]
fn a_worker_offers_what_it_is_told() {
    let up = Up::start_with(&["--gpus", "2", "--vram", "1G", "--tag", "a100", "--counter", "license=1"]);
    let run = ["run", "--gpus", "2", "--vram", "512M", "--tag", "a100", "--counter", "license", "--", "true"];
    up.run(&run).ok();
    let worker = &up.run(&["workers", "--json"]).ok().json()[0];
    assert_eq!(worker["resources"]["gpus"], 2);
}

#[test]
fn with_tls_the_ready_line_has_the_fingerprint_and_jobs_find_it() {
    let mut up = Up::start_with(&["--tls-self-signed"]);
    assert!(up.url.starts_with("https://localhost:"), "{}", up.url);
    let ready = up.process.output();
    let ready: serde_json::Value =
        serde_json::from_str(ready.lines().rfind(|line| line.contains("\"url\"")).unwrap()).unwrap();
    let pin = ready["tls_fingerprint"].as_str().unwrap().to_owned();
    let inside = format!("{} show $MUSTER_JOB_ID --json", env!("CARGO_BIN_EXE_muster"));
    let told = up.run(&["run", "--tls-fingerprint", &pin, "--", "sh", "-c", &inside]).ok();
    assert_eq!(told.json()["status"], "running");
    let unpinned = up.run(&["ls"]);
    assert!(
        unpinned.code() == 1 && unpinned.stderr.contains(&format!("--tls-fingerprint {pin}")),
        "{unpinned:?}"
    );
    up.process.signal(Signal::SIGINT);
    assert_eq!(up.process.wait(BOUND).code(), Some(0), "{}", up.process.output());
}

#[test]
fn with_tls_people_are_told_a_first_command_that_works() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = muster(directory.path());
    command.args(["up", "--port", "0", "--tls-self-signed"]);
    let mut process = Process::start("muster up", command, &directory.path().join("log"));
    until("it is ready", BOUND, || process.output().contains("muster run"));
    let output = process.output();
    let line = output.lines().find_map(|line| line.trim().strip_prefix("try:  muster ")).unwrap();
    let mut first = muster(directory.path());
    first.args(line.split_whitespace());
    assert_eq!(Started::spawn(first).finish().ok().stdout, "hello\n");
    process.signal(Signal::SIGINT);
    assert_eq!(process.wait(BOUND).code(), Some(0), "{}", process.output());
}
