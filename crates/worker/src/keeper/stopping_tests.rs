//! Who gets which signal and when, on a clock that the test moves and with processes that tell what they got.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

const INT: i32 = libc::SIGINT;
const USR1: i32 = libc::SIGUSR1;
const USR2: i32 = libc::SIGUSR2;
const SECOND: u64 = 1_000_000_000;

/// A script in a group of its own that tells on its output what happens.
struct Script {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// Starts it and waits until it has said `up` so many times.
    fn start(text: &str, ups: usize) -> Self {
        let mut command = Command::new("bash");
        let mut child = command
            .args(["-c", text])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut script = Self { child, output };
        for _ in 0..ups {
            assert_eq!(script.line(), "up");
        }
        script
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn leader(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        signals::kill(self.leader());
        let _ = self.child.wait();
    }
}

fn stop(signal: Option<i32>, scope: SignalScope, grace_ms: u64) -> Stop {
    let how = StopWith { signal, scope: Some(scope), ..StopWith::plain(grace_ms, StopCause::Order) };
    Stop::new(how, None, StopManner::default(), 0)
}

#[test]
fn a_signal_that_is_caught_is_sent_and_sigterm_follows_before_the_kill() {
    let mut script =
        Script::start("trap 'echo usr1' USR1; trap 'echo term' TERM; echo up; while :; do sleep 1; done", 1);
    let mut stop = stop(Some(USR1), SignalScope::Group, 30_000);
    stop.ask(script.leader(), 0);
    assert_eq!(script.line(), "usr1");
    assert_eq!(stop.due_ns(), Some(25 * SECOND), "five seconds before the kill");
    stop.enforce(script.leader(), 24 * SECOND);
    stop.enforce(script.leader(), 25 * SECOND);
    assert_eq!(script.line(), "term");
    assert_eq!(stop.due_ns(), Some(30 * SECOND));
    stop.enforce(script.leader(), 30 * SECOND);
    assert_eq!((stop.due_ns(), stop.killed), (None, true));
    assert_eq!(script.child.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_signal_that_nobody_catches_becomes_sigterm() {
    for signal in [USR1, USR2, INT, 40] {
        for scope in [SignalScope::Leader, SignalScope::Group, SignalScope::All] {
            let mut script = Script::start("echo up; exec sleep 60", 1);
            let mut stop = stop(Some(signal), scope, 30_000);
            stop.ask(script.leader(), 0);
            assert_eq!(script.child.wait().unwrap().signal(), Some(15), "{signal} {scope:?}");
            assert_eq!(stop.due_ns(), Some(30 * SECOND), "SIGTERM needs no second time");
        }
    }
}

#[test]
fn a_grace_that_is_short_is_shared_out() {
    let mut stop = stop(Some(USR1), SignalScope::Group, 3_000);
    assert_eq!(stop.terminate_at(0), 2 * SECOND);
    stop.terminate_at_ns = Some(2 * SECOND);
    assert!(!stop.renew(StopWith::plain(60_000, StopCause::Fence), 0), "it can only come nearer");
    assert_eq!((stop.due_ns(), stop.kill_at_ns), (Some(2 * SECOND), 3 * SECOND));
    let words = Words { reason: "cancelled".into(), comes_back: false, epoch: 2 };
    let sooner = StopWith { words: words.clone(), ..StopWith::plain(300, StopCause::Order) };
    assert!(stop.renew(sooner.clone(), SECOND));
    assert_eq!((stop.due_ns(), stop.kill_at_ns), (Some(1_200_000_000), 1_300_000_000));
    assert_eq!(stop.words, words);
    assert!(!stop.renew(sooner, SECOND), "the job knows that already");
}

#[test]
fn what_waits_for_a_listener_is_left_alone_and_what_keeps_one_waiting_is_not() {
    // The outer shell waits for the inner one, which waits for a sleep before it can run its trap.
    let text =
        "bash -c 'trap \"echo saved; exit 3\" USR1; bash -c \"echo up; exec sleep 300\"'; echo went on: $?";
    let mut script = Script::start(text, 1);
    let mut stop = stop(Some(USR1), SignalScope::Group, 30_000);
    stop.ask(script.leader(), 0);
    assert_eq!(script.line(), "saved");
    assert_eq!(script.line(), "went on: 3");
    assert!(script.child.wait().unwrap().success());
    assert_eq!(stop.due_ns(), Some(25 * SECOND), "some have not had SIGTERM");
}

#[test]
fn jobs_of_a_batch_system_are_asked_by_sigusr1_if_they_catch_it() {
    let ask = |text: &str| {
        let mut script = Script::start(text, 1);
        let manner = StopManner { prefers_usr1: true, ..StopManner::default() };
        let mut stop = Stop::new(StopWith::plain(30_000, StopCause::Order), None, manner, 0);
        stop.ask(script.leader(), 0);
        script.child.wait().unwrap().code()
    };
    let body = "trap 'exit 5' TERM; echo up; while :; do sleep 1; done";
    assert_eq!(ask(&format!("trap 'exit 4' USR1; {body}")), Some(4));
    assert_eq!(ask(body), Some(5));
}

#[test]
fn the_scope_says_who_is_asked() {
    let text = "bash -c 'trap \"trap : TERM; echo child; exit\" TERM; echo up; while :; do sleep 1; done' &
                trap 'echo leader; wait; exit' TERM; echo up; while :; do sleep 1; done";
    let mut script = Script::start(text, 2);
    let mut narrow = stop(None, SignalScope::Leader, 30_000);
    narrow.ask(script.leader(), 0);
    assert_eq!(script.line(), "leader");
    assert_eq!(narrow.due_ns(), Some(30 * SECOND), "the leader looks after the others");
    assert!(!narrow.spares_the_others(0));
    drop(script);

    let mut script = Script::start(text, 2);
    let mut below = stop(None, SignalScope::Descendants, 30_000);
    below.ask(script.leader(), 0);
    assert_eq!(script.line(), "child");
    assert_eq!(below.due_ns(), Some(25 * SECOND), "the leader has not had it");
    below.enforce(script.leader(), 26 * SECOND);
    assert_eq!(script.line(), "leader");
    assert!(below.spares_the_others(0) && !below.spares_the_others(31 * SECOND));
}

#[test]
fn what_has_left_the_group_is_asked_and_killed_where_the_job_says_so() {
    let text = "setsid bash -c 'trap \"echo outside\" TERM; echo up; while :; do sleep 1; done' &
                trap '' TERM; echo up; while :; do sleep 1; done";
    let mut script = Script::start(text, 2);
    let mut all = stop(None, SignalScope::All, 30_000);
    all.ask(script.leader(), 0);
    assert_eq!(script.line(), "outside");
    all.enforce(script.leader(), 30 * SECOND);
    assert_eq!(script.child.wait().unwrap().signal(), Some(9));
    assert_eq!(script.line(), "", "the other end of the pipe is closed: nobody is left");
}

#[test]
fn a_leader_that_has_started_nothing_is_asked_itself() {
    let mut script = Script::start("echo up; exec sleep 60", 1);
    stop(None, SignalScope::Descendants, 30_000).ask(script.leader(), 0);
    assert_eq!(script.child.wait().unwrap().signal(), Some(15));
}

#[test]
fn a_stopped_process_goes_on_first() {
    let mut script =
        Script::start("trap 'exit 7' TERM; echo up; kill -STOP $$; while :; do sleep 1; done", 1);
    stop(None, SignalScope::Group, 30_000).ask(script.leader(), 0);
    assert_eq!(script.child.wait().unwrap().code(), Some(7));
}
