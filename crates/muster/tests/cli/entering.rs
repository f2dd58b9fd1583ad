//! `exec`, `attach` and `run --pty`: into jobs that run, with real terminals.

use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::thread;

use muster_tests::{eventually, until};
use nix::sys::signal::Signal;

use crate::harness::{BOUND, Up, is_running};
use crate::screen::Terminal;

const SMALL: (u16, u16) = (80, 24);
const THEN: &str = "; echo left with $?; stty -a | grep -o -- '-*icanon'; exec sleep 1000";

/// A job that runs until it is cancelled.
fn sleeper(up: &Up, options: &[&str]) -> String {
    let words = [options, &["--", "sleep", "1000"]].concat();
    let job = up.submit(&words);
    up.await_status(&job, "running");
    job
}

/// A number that somebody wrote into a file.
fn number_in(up: &Up, file: &str) -> i32 {
    let path = up.directory.path().join(file);
    eventually(&format!("{file} has a number"), BOUND, || {
        std::fs::read_to_string(&path).ok()?.trim().parse().ok()
    })
}

fn is_gone(what: &str, pid: i32) {
    until(&format!("{what} is gone"), BOUND, || !is_running(pid));
}

#[test]
fn a_program_runs_beside_a_job_as_the_job_would() {
    let up = Up::start();
    let job = sleeper(&up, &["--env", "COLOUR=blue", "--workdir", "/tmp"]);
    let seen =
        up.run(&["exec", &job, "--", "sh", "-c", "echo $COLOUR $MUSTER_JOB_ID; pwd; echo no >&2"]).ok();
    assert_eq!((seen.stdout, seen.stderr), (format!("blue {job}\n/tmp\n"), "no\n".to_owned()));
    assert_eq!(up.run(&["exec", &job, "--", "sh", "-c", "exit 7"]).code(), 7);
    assert_eq!(up.run(&["exec", &job, "--", "sh", "-c", "kill -9 $$"]).code(), 137);
    let missing = up.run(&["exec", &job, "--", "no-such-program"]);
    assert_eq!(missing.code(), 125);
    assert!(missing.stderr.contains("no such program in the PATH of the job"), "{missing:?}");
    let tty = up.run(&["exec", "-t", &job, "--", "tty"]).ok();
    assert!(tty.stdout.starts_with("/dev/pts/"), "{tty:?}");
    assert_eq!(up.run(&["exec", &job, "--", "cat"]).ok().stdout, "", "nothing to read without -i");
    let events = up.run(&["events", &job]).ok();
    assert!(events.stdout.contains("terminal_opened"), "{events:?}");
    assert_eq!(up.show(&job)["status"], "running");
}

#[test]
fn bytes_go_in_and_out_as_they_are() {
    let up = Up::start();
    let job = sleeper(&up, &[]);
    let mut command = up.command(&["exec", "-i", &job, "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let sent: Vec<u8> = (0..3 << 20).map(|at: u32| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    let (mut stdin, expected) = (child.stdin.take().unwrap(), sent.clone());
    let typing = thread::spawn(move || stdin.write_all(&sent));
    let mut seen = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut seen).unwrap();
    typing.join().unwrap().unwrap();
    assert!(seen == expected, "{} of {} bytes", seen.len(), expected.len());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_job_that_does_not_run_is_not_entered_and_says_why() {
    let up = Up::start();
    let waiting = up.submit(&["--tag", "a100", "--", "true"]);
    let refused = up.run(&["exec", &waiting, "--", "true"]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("job is pending, and only a running job can be entered"), "{refused:?}");
    assert!(refused.stderr.contains("no active worker carries the tag a100"), "{refused:?}");
    let plain = sleeper(&up, &[]);
    let refused = up.run(&["attach", &plain]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("the job runs in no terminal"), "{refused:?}");
    let unknown = up.run(&["exec", "job-00000000-0000-4000-8000-000000000000", "--", "true"]);
    assert!(unknown.stderr.contains("there is no job"), "{unknown:?}");
    let pty = up.run(&["run", "--pty", "--", "true"]);
    assert_eq!(pty.code(), 2);
    assert!(pty.stderr.contains("--pty needs a terminal"), "{pty:?}");
}

#[test]
fn exec_waits_for_a_job_that_does_not_run_yet() {
    let up = Up::start();
    let held = up.submit(&["--hold", "--", "sleep", "1000"]);
    let waiting = up.start_command(&["exec", "--wait", &held, "--", "echo", "in"]);
    up.run(&["release", &held]).ok();
    assert_eq!(waiting.finish().ok().stdout, "in\n");
}

#[test]
fn a_guest_ends_with_its_job_and_with_everything_that_it_started() {
    let up = Up::start();
    let job = sleeper(&up, &[]);
    let script = "setsid sh -c 'echo $$ > stray; exec sleep 1000' & echo $$ > guest; exec sleep 1000";
    let guest = up.start_command(&["exec", &job, "--", "sh", "-c", script]);
    let (pid, stray) = (number_in(&up, "guest"), number_in(&up, "stray"));
    up.run(&["cancel", &job]).ok();
    let left = guest.finish();
    assert_eq!(left.code(), 137, "{left:?}");
    assert!(left.stderr.contains("the job has ended"), "{left:?}");
    is_gone("the guest", pid);
    is_gone("what it started", stray);
    up.await_status(&job, "cancelled");
}

#[test]
fn a_client_that_is_killed_takes_its_guest_along_and_not_the_job() {
    let up = Up::start();
    let job = sleeper(&up, &[]);
    let script = "trap '' HUP; echo $$ > guest; sleep 1000";
    let guest = up.start_command(&["exec", &job, "--", "sh", "-c", script]);
    let pid = number_in(&up, "guest");
    guest.signal(Signal::SIGKILL);
    is_gone("the guest", pid);
    assert_eq!(up.show(&job)["status"], "running");
}

#[test]
fn ctrl_c_without_a_terminal_is_the_programs() {
    let up = Up::start();
    let job = sleeper(&up, &[]);
    let script = "trap 'echo caught; exit 5' INT; echo $$ > guest; while :; do sleep 0.01; done";
    let guest = up.start_command(&["exec", &job, "--", "sh", "-c", script]);
    number_in(&up, "guest");
    guest.signal(Signal::SIGINT);
    let left = guest.finish();
    assert_eq!((left.code(), left.stdout.as_str()), (5, "caught\n"));
}

#[test]
fn a_scheduler_that_is_killed_ends_the_session_and_not_the_job() {
    let mut up = Up::start();
    let job = sleeper(&up, &[]);
    let guest = up.start_command(&["exec", &job, "--", "sh", "-c", "echo $$ > guest; exec sleep 1000"]);
    let pid = number_in(&up, "guest");
    up.kill_and_restart();
    let left = guest.finish();
    assert_eq!(left.code(), 255, "{left:?}");
    assert!(left.stderr.contains("the terminal is lost"), "{left:?}");
    is_gone("the guest", pid);
    assert_eq!(up.run(&["exec", "--wait", &job, "--", "echo", "again"]).ok().stdout, "again\n");
}

#[test]
fn a_job_in_a_terminal_is_typed_to_resized_left_and_entered_again() {
    let up = Up::start();
    let terminal = Terminal::start(&up, SMALL, &format!("muster run --pty -- env PS1='$ ' sh{THEN}"));
    terminal.shows(&["$"]);
    terminal.press(&["-l", "stty size; tty"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["24 80", "/dev/pts/"]);
    terminal.resize(100, 30);
    terminal.press(&["-l", "until [ \"$(stty size)\" = '30 100' ]; do sleep 0.01; done; echo re''sized"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["resized"]);
    terminal.press(&["-l", "sleep 1000"]);
    terminal.press(&["Enter", "C-c"]);
    terminal.press(&["-l", "echo interrupted with $?"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["interrupted with 130"]);
    terminal.press(&["C-p", "C-q"]);
    terminal.shows(&["detached;", "comes back", "left with 0", "icanon"]);
    assert!(!terminal.text().contains("-icanon"), "{}", terminal.text());
    let job = up.only_job();
    assert_eq!(up.show(&job)["status"], "running");

    let again = Terminal::start(&up, SMALL, &format!("muster attach {job}{THEN}"));
    again.shows(&["interrupted with 130"]);
    let looker = Terminal::start(&up, SMALL, &format!("muster attach --read-only {job}{THEN}"));
    looker.shows(&["interrupted with 130"]);
    again.press(&["-l", "echo both see $((40 + 2))"]);
    again.press(&["Enter"]);
    again.shows(&["both see 42"]);
    looker.shows(&["both see 42"]);
    again.press(&["-l", "exit 3"]);
    again.press(&["Enter"]);
    again.shows(&["the attempt has ended", "left with 3", "icanon"]);
    looker.shows(&["left with 3", "icanon"]);
    up.await_status(&job, "failed");
    let kept = up.run(&["logs", &job]).ok();
    assert!(kept.stdout.contains("both see 42"), "{kept:?}");
}

#[test]
fn a_short_job_in_a_terminal_is_seen_and_its_code_is_ours() {
    let up = Up::start();
    let terminal =
        Terminal::start(&up, SMALL, &format!("muster run --pty -- sh -c 'echo shown; exit 6'{THEN}"));
    terminal.shows(&["shown", "left with 6", "icanon"]);
    assert!(!terminal.text().contains("-icanon"), "{}", terminal.text());
}

#[test]
fn a_private_scheduler_gives_terminals_too() {
    let up = Up::start();
    let line = format!("muster run --own-scheduler --pty -- sh -c 'stty size; exit 4'{THEN}");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["24 80", "left with 4", "icanon"]);
}

#[test]
fn a_terminal_comes_back_after_a_restart_of_the_scheduler() {
    let mut up = Up::start();
    let terminal = Terminal::start(&up, SMALL, &format!("muster run --pty -- env PS1='$ ' sh{THEN}"));
    terminal.shows(&["$"]);
    terminal.press(&["-l", "X=kept; echo set $((40 + 2))"]);
    terminal.press(&["Enter"]);
    // What is under way when a connection breaks is lost with it.
    terminal.shows(&["set 42"]);
    up.kill_and_restart();
    terminal.shows(&["the terminal is lost, coming back"]);
    terminal.press(&["-l", "echo $X again"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["kept again"]);
    terminal.press(&["-l", "exit"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["left with 0", "icanon"]);
}

#[test]
fn a_client_that_is_told_to_end_restores_its_terminal_and_leaves_the_job() {
    let up = Up::start();
    let job = r#"sh -c "echo go\$((1+1)); exec sleep 1000""#;
    let line = format!("sh -c 'echo $$ > client; exec muster run --pty -- {job}'{THEN}");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["go2"]);
    let client = number_in(&up, "client");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(client), Signal::SIGTERM).unwrap();
    terminal.shows(&["goes on", "left with 143", "icanon"]);
    assert!(!terminal.text().contains("-icanon"), "{}", terminal.text());
    assert_eq!(up.show(&up.only_job())["status"], "running");
}

#[test]
fn tasks_of_gangs_are_named_by_their_rank() {
    let up = Up::start();
    let gang = up.submit(&["--gang", "2", "--", "sleep", "1000"]);
    for rank in ["0", "1"] {
        let task = format!("{gang}/{rank}");
        let seen = up.run(&["exec", "--wait", &task, "--", "sh", "-c", "echo $GANG_INDEX"]).ok();
        assert_eq!(seen.line(), rank);
    }
    let none = up.run(&["exec", &format!("{gang}/2"), "--", "true"]);
    assert!(none.stderr.contains("has the ranks 0 to 1, and no rank 2"), "{none:?}");
    let whole = up.run(&["exec", &gang, "--", "true"]);
    assert!(whole.stderr.contains("name one of its tasks"), "{whole:?}");
}
