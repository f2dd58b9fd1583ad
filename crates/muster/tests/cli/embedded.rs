//! `muster run` when nobody answers: a private scheduler, for one job.

use std::net::TcpStream;

use muster_tests::{PortLease, until};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::harness::{BOUND, Finished, Started, is_running, muster};

fn private(directory: &TempDir, words: &[&str]) -> Finished {
    let mut command = muster(directory.path());
    command.args(["run", "--own-scheduler", "--"]).args(words);
    Started::spawn(command).finish()
}

#[test]
fn hello_without_a_scheduler() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let nobody = || TcpStream::connect("localhost:8080").is_err();
    let before = nobody();
    let mut command = muster(directory.path());
    command.args(["run", "--", "echo", "hello"]);
    let finished = Started::spawn(command).finish().ok();
    assert_eq!(finished.stdout, "hello\n");
    // Somebody at this machine may have a scheduler at the usual place; then that one has run it.
    if before && nobody() {
        assert!(finished.stderr.contains("private"), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
}

#[test]
fn exit_codes_and_streams_are_those_of_the_job() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let finished = private(&directory, &["sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((finished.code(), finished.stdout.as_str(), finished.stderr.as_str()), (3, "out\n", "err\n"));
    assert_eq!(private(&directory, &["sh", "-c", "kill -9 $$"]).code(), 137);
}

#[test]
fn nothing_is_left_behind() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = muster(directory.path());
    command.env("TMPDIR", &temporary).args(["run", "--own-scheduler", "--", "sh", "-c", "echo $PPID"]);
    let keeper: i32 = Started::spawn(command).finish().ok().line().parse().unwrap();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    until("the keeper is gone", BOUND, || !is_running(keeper));
}

#[test]
fn a_kept_scheduler_goes_on_and_is_used_again() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let port = PortLease::take();
    let url = format!("http://localhost:{}", port.port());
    let command = |words: &[&str]| {
        let mut command = muster(directory.path());
        command.env("MUSTER_URL", &url).args(words);
        Started::spawn(command).finish().ok()
    };
    let first = command(&["run", "--keep", "--", "echo", "first"]);
    let pid = first.stderr.rsplit("kill ").next().unwrap().trim().trim_end_matches(')').to_owned();
    let pid: i32 = pid.parse().unwrap();
    assert_eq!(first.stdout, "first\n");
    let second = command(&["run", "--keep", "--", "echo", "second"]);
    assert_eq!((second.stdout.as_str(), second.stderr.as_str()), ("second\n", ""));
    assert!(directory.path().join(".local/share/muster/muster.db").is_file());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    until("it is gone", BOUND, || !is_running(pid));
}

#[test]
fn ctrl_c_ends_the_job_and_the_scheduler() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let pid_file = directory.path().join("pid");
    let mut command = muster(directory.path());
    command.args([
        "run",
        "--own-scheduler",
        "--",
        "sh",
        "-c",
        "echo $$ > pid.new; mv pid.new pid; exec sleep 60",
    ]);
    let run = Started::spawn(command);
    until("the job runs", BOUND, || pid_file.exists());
    let pid: i32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    run.signal(Signal::SIGINT);
    assert_eq!(run.finish().code(), 130);
    until("the process is gone", BOUND, || !is_running(pid));
}
