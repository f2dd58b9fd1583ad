//! What commands that wait say on a terminal, and how they are left.

use muster_tests::until;
use nix::sys::signal::Signal;

use crate::harness::{BOUND, Up};
use crate::screen::Terminal;

const SMALL: (u16, u16) = (80, 24);

#[test]
fn wait_says_for_what_and_leaves_the_job_alone() {
    let up = Up::start();
    let stuck = up.submit(&["--name", "stuck", "--tag", "a100", "--", "true"]);
    let terminal =
        Terminal::start(&up, SMALL, &format!("muster wait {stuck}; echo left with $?; exec sleep 1000"));
    terminal.shows(&["waiting ", "(stuck) pending: no active worker carries"]);
    terminal.press(&["C-c"]);
    let screen =
        terminal.shows(&["no longer waiting", &format!("muster cancel {}", &stuck[..12]), "left with 130"]);
    assert!(!screen.contains("(stuck) pending"), "the line has gone:\n{screen}");
    assert_eq!(up.show(&stuck)["status"], "pending");
}

#[test]
fn the_line_goes_before_what_is_printed() {
    let up = Up::start();
    let gate = up.directory.path().join("gate");
    let script = "while [ ! -e gate ]; do sleep 0.02; done";
    let first = up.submit(&["--", "sh", "-c", script]);
    let second = up.submit(&["--after", &first, "--", "true"]);
    let line = format!("muster wait {first} {second}; echo left with $?; exec sleep 1000");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["0 of 2 ended", &format!("{} running on", &first[..12])]);
    std::fs::write(gate, "").unwrap();
    let screen = terminal.shows(&["left with 0"]);
    assert_eq!(screen.trim_end(), format!("{first} done\n{second} done\nleft with 0"));
}

#[test]
fn a_signal_ends_the_waiting_and_says_how_to_come_back_without_a_terminal_too() {
    let up = Up::start();
    let stuck = up.submit(&["--tag", "a100", "--", "true"]);
    let waiting = up.start_command(&["wait", &stuck]);
    until("the program listens", BOUND, || waiting.catches(Signal::SIGTERM));
    waiting.signal(Signal::SIGTERM);
    let finished = waiting.finish();
    assert_eq!(finished.code(), 143, "{finished:?}");
    assert!(finished.stderr.contains(&format!("`muster wait {}`", &stuck[..12])), "{finished:?}");
    assert!(!finished.stderr.contains('\u{1b}'), "{finished:?}");
}

#[test]
fn run_says_what_it_waits_for_until_there_is_output() {
    let up = Up::start();
    let gate = up.directory.path().join("gate");
    let first = up.submit(&["--", "sh", "-c", "while [ ! -e gate ]; do sleep 0.02; done"]);
    let line = format!("muster run --after {first} -- echo hello; echo left with $?; exec sleep 1000");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["waiting ", " blocked: "]);
    std::fs::write(gate, "").unwrap();
    let screen = terminal.shows(&["left with 0"]);
    assert_eq!(screen.trim_end(), "hello\nleft with 0");
}

#[test]
fn logs_say_what_the_job_waits_for_and_are_left_quietly() {
    let up = Up::start();
    let gate = up.directory.path().join("gate");
    let first = up.submit(&["--", "sh", "-c", "while [ ! -e gate ]; do sleep 0.02; done"]);
    let second = up.submit(&["--after", &first, "--", "sh", "-c", "echo hello; exec sleep 1000"]);
    let line = format!("muster logs -f {second}; echo left with $?; exec sleep 1000");
    let terminal = Terminal::start(&up, SMALL, &line);
    terminal.shows(&["waiting ", " blocked: "]);
    std::fs::write(gate, "").unwrap();
    terminal.shows(&["hello"]);
    terminal.press(&["C-c"]);
    let screen = terminal.shows(&["left with 130"]);
    assert_eq!(screen.trim_end(), "hello\n^C\nleft with 130");
    assert_eq!(up.show(&second)["status"], "running");
}
