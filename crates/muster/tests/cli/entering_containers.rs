//! `exec`, `attach` and `run --pty` into jobs in containers, as into any other.

use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::thread;

use muster_tests::{ContainerEngine, IMAGE, until};
use nix::sys::signal::Signal;

use crate::harness::{BOUND, Up};
use crate::screen::Terminal;

const SMALL: (u16, u16) = (80, 24);
const THEN: &str = "; echo left with $?; stty -a | grep -o -- '-*icanon'; exec sleep 1000";

fn start() -> Up {
    Up::start_contained(ContainerEngine::shared())
}

/// A job in a container that runs until it is cancelled.
fn sleeper(up: &Up, options: &[&str]) -> String {
    let words = [&["--image", IMAGE], options, &["--", "sleep", "1000"]].concat();
    let job = up.submit(&words);
    up.await_status(&job, "running");
    job
}

/// Whether a program with these words runs anywhere on the machine.
fn is_there(words: &[&str]) -> bool {
    let wanted: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    let mut entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.any(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
}

#[test]
fn a_program_runs_in_the_container_of_a_job() {
    let up = start();
    let job = sleeper(&up, &["--env", "COLOUR=blue", "--workdir", "/tmp", "--container-user", "1000"]);
    // The container may not have begun yet.
    until("it can be entered", BOUND, || up.run(&["exec", &job, "--", "true"]).code() == 0);
    let script = "echo $COLOUR $MUSTER_JOB_ID; pwd; id -u; ls /bin/busybox; echo no >&2; exit 7";
    let seen = up.run(&["exec", &job, "--", "sh", "-c", script]);
    let expected = format!("blue {job}\n/tmp\n1000\n/bin/busybox\n");
    assert_eq!((seen.code(), seen.stdout, seen.stderr), (7, expected, "no\n".to_owned()));
    assert_eq!(up.run(&["exec", &job, "--", "sh", "-c", "kill -9 $$"]).code(), 137);
    let missing = up.run(&["exec", &job, "--", "no-such-program"]);
    assert!([126, 127].contains(&missing.code()), "{missing:?}");
    assert!((missing.stdout + &missing.stderr).contains("no-such-program"));
    let tty = up.run(&["exec", "-t", &job, "--", "tty"]).ok();
    assert!(tty.stdout.starts_with("/dev/pts/"), "{tty:?}");
    assert_eq!(up.run(&["exec", &job, "--", "cat"]).ok().stdout, "", "nothing to read without -i");

    // What leaves something running keeps nobody waiting.
    let left = up.run(&["exec", &job, "--", "sh", "-c", "sleep 86414 & echo left"]).ok();
    assert_eq!(left.stdout, "left\n");
    assert!(is_there(&["sleep", "86414"]));
    up.run(&["cancel", &job]).ok();
    until("what was left ends with the job", BOUND, || !is_there(&["sleep", "86414"]));
}

#[test]
fn bytes_go_in_and_out_of_a_container_as_they_are() {
    let up = start();
    let job = sleeper(&up, &[]);
    until("it can be entered", BOUND, || up.run(&["exec", &job, "--", "true"]).code() == 0);
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
fn a_program_in_a_container_is_interrupted_and_goes_with_its_client() {
    let up = start();
    let job = sleeper(&up, &[]);
    until("it can be entered", BOUND, || up.run(&["exec", &job, "--", "true"]).code() == 0);
    let trap = "trap 'echo caught; exit 9' INT; sleep 86415 & echo in; wait";
    let caught = up.start_command(&["exec", &job, "--", "sh", "-c", trap]);
    until("it runs", BOUND, || is_there(&["sleep", "86415"]));
    caught.signal(Signal::SIGINT);
    let caught = caught.finish();
    assert_eq!((caught.code(), caught.stdout.as_str()), (9, "in\ncaught\n"), "{caught:?}");
    // One that does not listen is killed when its client is gone.
    let deaf = "trap '' HUP INT TERM; sleep 86416; sleep 86416";
    let gone = up.start_command(&["exec", &job, "--", "sh", "-c", deaf]);
    until("it runs", BOUND, || is_there(&["sleep", "86416"]));
    gone.signal(Signal::SIGKILL);
    until("it is killed", BOUND, || !is_there(&["sh", "-c", deaf]) && !is_there(&["sleep", "86416"]));
    assert_eq!(up.show(&job)["status"], "running");
    // And it ends with the job.
    let last = up.start_command(&["exec", &job, "--", "sleep", "86417"]);
    until("it runs", BOUND, || is_there(&["sleep", "86417"]));
    up.run(&["cancel", &job]).ok();
    assert_eq!(last.finish().code(), 137);
}

#[test]
fn a_container_has_a_terminal_that_is_typed_to_resized_left_and_entered_again() {
    let up = start();
    let line = format!("muster run --image {IMAGE} --pty -- env PS1='$ ' sh{THEN}");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["$"]);
    terminal.press(&["-l", "until [ \"$(stty size)\" = '24 80' ]; do sleep 0.01; done; tty; echo ma''de"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["made", "/dev/"]);
    terminal.resize(100, 30);
    terminal.press(&["-l", "until [ \"$(stty size)\" = '30 100' ]; do sleep 0.01; done; echo re''sized"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["resized"]);
    terminal.press(&["-l", "sleep 86418"]);
    terminal.press(&["Enter"]);
    // The shell reads keys as they are until it has started the program.
    until("the program runs", BOUND, || is_there(&["sleep", "86418"]));
    terminal.press(&["C-c"]);
    terminal.press(&["-l", "echo interrupted with $?"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["interrupted with 130"]);
    terminal.press(&["C-p", "C-q"]);
    terminal.shows(&["detached;", "comes back", "left with 0", "icanon"]);
    let job = up.only_job();

    // A shell beside it, in a terminal of its own.
    let beside = Terminal::start(&up, SMALL, &format!("muster exec {job}{THEN}"));
    // The engine learns the size when the program has started.
    beside.press(&[
        "-l",
        "until [ \"$(stty size)\" = '24 80' ]; do sleep 0.01; done; stty size; echo in $MUSTER_JOB_ID",
    ]);
    beside.press(&["Enter"]);
    beside.shows(&["24 80", &format!("in {job}")]);
    beside.press(&["-l", "exit 5"]);
    beside.press(&["Enter"]);
    beside.shows(&["left with 5", "icanon"]);

    let again = Terminal::start(&up, SMALL, &format!("muster attach {job}{THEN}"));
    again.shows(&["interrupted with 130"]);
    again.press(&["-l", "exit 3"]);
    again.press(&["Enter"]);
    again.shows(&["the attempt has ended", "left with 3", "icanon"]);
    up.await_status(&job, "failed");
    let kept = up.run(&["logs", &job]).ok();
    assert!(kept.stdout.contains("interrupted with 130"), "{kept:?}");
}

#[test]
fn a_terminal_in_a_container_hangs_up_when_it_is_stopped() {
    let up = start();
    let line = format!("muster run --image {IMAGE} --pty -- env PS1='$ ' sh{THEN}");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["$"]);
    let job = up.only_job();
    up.run(&["cancel", &job]).ok();
    up.await_status(&job, "cancelled");
    terminal.shows(&["icanon"]);
    assert!(
        ContainerEngine::shared()
            .docker_says(&["ps", "-a", "-q", "--filter", &format!("label=muster.job={job}")])
            .is_empty()
    );
}
