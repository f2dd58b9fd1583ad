//! `watch` and `top` on a real terminal.

use muster_tests::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{BOUND, Up, muster};
use crate::screen::Terminal;

const SMALL: (u16, u16) = (80, 24);
/// Says how the program ended, and whether the terminal reads lines again.
const THEN: &str = "; echo left with $?; stty -a | grep -o -- '-*icanon'; exec sleep 1000";

fn watch(up: &Up, arguments: &str) -> Terminal {
    Terminal::start(up, SMALL, &format!("muster watch {arguments}{THEN}"))
}

/// One job that writes and waits for a file, and one that no worker can take.
fn two_jobs(up: &Up) -> (String, String) {
    let script =
        "echo first line; while [ ! -e gate ]; do sleep 0.02; done; echo second line; exec sleep 1000";
    let running = up.submit(&["--name", "worker-bee", "--", "sh", "-c", script]);
    let waiting = up.submit(&["--name", "stuck", "--tag", "a100", "--queue", "night", "--", "true"]);
    up.await_status(&running, "running");
    (running, waiting)
}

#[test]
fn jobs_appear_as_they_come_and_everything_is_reached_by_keys() {
    let up = Up::start();
    let terminal = watch(&up, "");
    terminal.shows(&["live", "1 Running none", "2 Waiting none", "5 Workers 1", "q quit"]);
    let (running, waiting) = two_jobs(&up);
    terminal.shows(&[&running[..12], "worker-bee", &waiting[..12], "night", "1 running  1 waiting"]);

    terminal.press(&["Enter"]);
    terminal.shows(&["first line", "following", "attempt 1 of 1"]);
    std::fs::write(up.directory.path().join("gate"), "").unwrap();
    terminal.shows(&["first line", "second line"]);
    terminal.press(&["/"]);
    terminal.press(&["-l", "nowhere"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["\"nowhere\" is not in what is shown"]);
    terminal.press(&["q"]);

    terminal.press(&["2"]);
    terminal.shows(&["waits: no active worker carries the tag a100"]);
    terminal.press(&["w"]);
    terminal.shows(&["is pending", "- no active worker carries the tag a100", "q closes"]);
    terminal.press(&["q", "d"]);
    terminal.shows(&["submitted:", "queue:      night"]);
    terminal.press(&["Escape", "?"]);
    terminal.shows(&["the next list", "quit; jobs go on"]);
    terminal.press(&["q", "q"]);
    terminal.shows(&["left with 0", "icanon"]);
    assert!(!terminal.text().contains("-icanon"), "{}", terminal.text());
    assert_eq!(terminal.value("alternate_on"), "0");
}

#[test]
fn a_reader_of_the_output_is_taken_to_the_next_attempt_and_through_a_restart() {
    let mut up = Up::start();
    let script = "echo begin $MUSTER_ATTEMPT; while [ ! -e gate-$MUSTER_ATTEMPT ]; do sleep 0.02; done; \
                  echo end $MUSTER_ATTEMPT; [ $MUSTER_ATTEMPT = 2 ]";
    let job = up.submit(&["--name", "again", "--max-retries", "2", "--", "sh", "-c", script]);
    up.await_status(&job, "running");
    let terminal = watch(&up, "");
    terminal.shows(&["again"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["begin 1", "attempt 1 of 1"]);
    std::fs::write(up.directory.path().join("gate-1"), "").unwrap();
    terminal.shows(&["begin 2", "attempt 2 of 2", "line 1 of 1"]);
    up.kill_and_restart();
    std::fs::write(up.directory.path().join("gate-2"), "").unwrap();
    terminal.shows(&["begin 2", "end 2", "line 2 of 2", "done"]);
    terminal.press(&["["]);
    terminal.shows(&["begin 1", "end 1", "attempt 1 of 2"]);
}

#[test]
fn a_job_is_cancelled_after_a_question() {
    let up = Up::start();
    let (running, waiting) = two_jobs(&up);
    let terminal = watch(&up, "");
    terminal.shows(&["worker-bee"]);
    terminal.press(&["c"]);
    terminal.shows(&[&format!("Cancel {}?", &running[..12]), "worker-bee, running on"]);
    terminal.press(&["n"]);
    terminal.shows(&["nothing was cancelled"]);
    assert_eq!(up.show(&running)["status"], "running");
    terminal.press(&["c", "y"]);
    up.await_status(&running, "cancelled");
    terminal.shows(&["3 Ended 1", "cancelled"]);
    assert_eq!(up.show(&waiting)["status"], "pending");
}

const PIPELINE: &str = "\
name: nightly
steps:
  - name: fetch
    run: 'true'
  - name: train
    needs: fetch
    run: echo epoch 1; exec sleep 1000
  - name: report
    needs: train
    run: 'true'
";

#[test]
fn pipelines_arrays_and_queues_are_seen_with_how_far_they_are() {
    let up = Up::start();
    up.run(&["queue", "pause", "later"]).ok();
    up.run(&["submit", "--array", "0-9", "--name", "sweep", "--queue", "later", "--", "true"]).ok();
    up.run(&["submit", "--hold", "--name", "kept", "--", "true"]).ok();
    std::fs::write(up.directory.path().join("nightly.yaml"), PIPELINE).unwrap();
    let pipeline = up.submit(&["nightly.yaml"]);
    let terminal = Terminal::start(&up, (100, 40), "muster watch");
    let screen =
        terminal.shows(&["nightly", " 1/3", "sweep", " 0/10", "held", "paused", "sweep[9]", "train"]);
    assert!(screen.contains("1 running  12 waiting (1 blocked, 1 held)"), "{screen}");

    terminal.press(&["4", "d"]);
    terminal.shows(&["nightly", "fetch", "report", "q closes"]);
    terminal.press(&["q", "Enter"]);
    terminal.shows(&["filter: pipeline:set-", "1 Running 1", "2 Waiting 1", "3 Ended 1"]);
    terminal.press(&["4", "c"]);
    terminal.shows(&[&format!("Cancel the whole pipeline {}?", &pipeline[..12])]);
    terminal.press(&["y"]);
    until("the pipeline is cancelled", BOUND, || up.show(&pipeline)["status"] == "cancelled");
}

#[test]
fn a_filter_is_typed_and_removed() {
    let up = Up::start();
    let (running, waiting) = two_jobs(&up);
    let terminal = watch(&up, "");
    terminal.shows(&[&running[..12], &waiting[..12]]);
    terminal.press(&["/"]);
    terminal.press(&["-l", "queue:night"]);
    terminal.shows(&["/queue:night"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["filter: queue:night", &waiting[..12], "1 Running none"]);
    terminal.press(&["Escape"]);
    terminal.shows(&[&running[..12], &waiting[..12]]);
}

#[test]
fn a_scheduler_that_goes_away_is_said_and_found_again() {
    let mut up = Up::start();
    let (_, waiting) = two_jobs(&up);
    let terminal = watch(&up, "");
    terminal.shows(&["live", &waiting[..12]]);
    up.process.kill9();
    terminal.shows(&["no answer for", &waiting[..12]]);
    up.kill_and_restart();
    terminal.shows(&["live", &waiting[..12]]);
    terminal.hides("no answer for");
}

#[test]
fn the_picture_follows_the_size_of_the_window() {
    let up = Up::start();
    two_jobs(&up);
    let terminal = watch(&up, "");
    terminal.shows(&["worker-bee", "q quit"]);
    terminal.resize(180, 40);
    let wide = terminal.shows(&["worker-bee", "TRY", "q quit"]);
    let titles = wide.lines().find(|line| line.contains("1 Running")).unwrap();
    assert!(titles.contains("4 Pipelines"), "{wide}");
    terminal.resize(40, 10);
    terminal.shows(&["1 Running", "worker-bee"]);
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let up = Up::start();
    for (signal, code) in [(Signal::SIGTERM, "143"), (Signal::SIGINT, "130")] {
        let terminal = watch(&up, "");
        terminal.shows(&["live"]);
        assert_eq!(terminal.value("alternate_on"), "1");
        let shell: i32 = terminal.value("pane_pid").parse().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let program = children.split_whitespace().next().unwrap_or_else(|| panic!("{}", terminal.text()));
        kill(Pid::from_raw(program.parse().unwrap()), signal).unwrap();
        let text = terminal.shows(&[&format!("left with {code}"), "icanon"]);
        assert!(!text.contains("-icanon"), "{text}");
        assert_eq!((terminal.value("alternate_on"), terminal.value("cursor_flag")), ("0".into(), "1".into()));
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let up = Up::start();
    two_jobs(&up);
    let lines =
        [("muster watch", true), ("NO_COLOR=1 muster watch", false), ("muster watch --color never", false)];
    for (line, expected) in lines {
        let terminal = Terminal::start(&up, SMALL, line);
        terminal.shows(&["worker-bee"]);
        let coloured = terminal.coloured();
        assert_eq!(coloured.contains("\u{1b}[38;5;"), expected, "{coloured}");
    }
}

#[test]
fn top_is_live_on_a_terminal_and_plain_when_asked() {
    let up = Up::start();
    let (running, waiting) = two_jobs(&up);
    let terminal = Terminal::start(&up, SMALL, &format!("muster top{THEN}"));
    terminal.shows(&["muster top", "Workers 1", "Running 1 by time", &running[..12]]);
    assert!(!terminal.text().contains(&waiting[..12]));
    terminal.press(&["o"]);
    terminal.shows(&["Running 1 by cpus"]);
    terminal.press(&["C-c"]);
    terminal.shows(&["left with 0"]);

    let once = up.run(&["top", "--once"]).ok().stdout;
    assert!(once.contains("active") && once.contains(&running) && !once.contains(&waiting), "{once}");
    let json = up.run(&["top", "--json"]).ok().json();
    assert_eq!((&json["jobs"][0]["id"], &json["workers"][0]["running"]), (&running.into(), &1.into()));
}

#[test]
fn without_a_terminal_there_is_a_word_about_what_to_use() {
    let up = Up::start();
    let refused = up.run(&["watch"]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("muster top --once"), "{refused:?}");
    let unknown = up.run(&["top", "--once", "colour:red"]);
    assert_eq!(unknown.code(), 2);
    assert!(unknown.stderr.contains("colour"), "{unknown:?}");
    let nobody = muster(up.directory.path()).args(["top", "--once", "--url", "http://127.0.0.1:1"]).output();
    assert_eq!(nobody.unwrap().status.code(), Some(1));
}
