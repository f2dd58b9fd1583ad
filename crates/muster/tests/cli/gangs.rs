//! Gangs: started as one, seen as one, stopped and started again as one.

use muster_tests::until;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{BOUND, Started, Up, muster};
use crate::screen::Terminal;

/// Waits for a file that the test makes.
const GATE: &str = "while [ ! -e gate ]; do sleep 0.01; done";

/// A `muster up` with room for a gang of four.
fn up() -> Up {
    Up::start_with(&["--workers", "4"])
}

fn open_gate(up: &Up) {
    std::fs::write(up.directory.path().join("gate"), "").unwrap();
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn await_gang(up: &Up, gang: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
    until(&format!("{gang}: {what}"), BOUND, || is_so(&up.show(gang)));
}

fn await_state(up: &Up, gang: &str, state: &str) {
    await_gang(up, gang, state, |shown| shown["state"] == state);
}

#[test]
fn the_tasks_of_a_gang_start_on_one_worker_when_there_is_only_one() {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = muster(directory.path());
    let script = "echo rank $GANG_INDEX of $GANG_SIZE";
    command.args(["run", "--own-scheduler", "--gang", "4", "--", "sh", "-c", script]);
    let finished = Started::spawn(command).finish().ok();
    let expected = ["[0] rank 0 of 4", "[1] rank 1 of 4", "[2] rank 2 of 4", "[3] rank 3 of 4"];
    assert_eq!(sorted(&finished.stdout), expected);
    let told = "muster: 4 tasks and 1 worker: up to 4 tasks share a worker (--spread forbids it)\n";
    assert_eq!(finished.stderr, told);
}

#[test]
fn streams_stay_apart_and_the_code_is_that_of_the_first_failure() {
    let up = up();
    // The others are told to stop, and exit with another code.
    let script = "trap 'exit 3' TERM; echo out; echo err >&2; touch ready$GANG_INDEX; \
                  while [ ! -e ready0 ] || [ ! -e ready1 ] || [ ! -e ready2 ]; do sleep 0.01; done; \
                  [ $GANG_INDEX = 1 ] && exit 7; while :; do sleep 0.01; done";
    let options = ["run", "--gang", "3", "--tasks-per-worker", "3", "--signal-scope", "leader"];
    let finished = up.run(&[&options[..], &["--", "sh", "-c", script]].concat());
    assert_eq!(finished.code(), 7, "{finished:?}");
    assert_eq!(sorted(&finished.stdout), ["[0] out", "[1] out", "[2] out"]);
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        sorted(&finished.stderr).into_iter().partition(|line| line.starts_with("muster: "));
    assert_eq!(theirs, ["[0] err", "[1] err", "[2] err"]);
    let [only] = ours.as_slice() else { panic!("{ours:?}") };
    assert!(only.starts_with("muster: round 1 stops after "), "{only}");
    assert!(only.ends_with(": rank 1 of the gang failed: exit code 7"), "{only}");
    let gang = up.run(&["gangs", "--quiet"]).ok().line();
    assert_eq!(up.run(&["wait", &gang]).code(), 7);
    let json = up.run(&["wait", "--json", &gang]).json();
    assert_eq!((&json[0]["state"], &json[0]["tasks"][1]["exit_code"]), (&"failed".into(), &7.into()));
}

#[test]
fn a_failed_round_is_told_and_the_next_one_goes_on() {
    let up = up();
    // The second fails once, when the first has written; the first waits to be stopped then.
    let script = "echo attempt $MUSTER_ATTEMPT; touch wrote$GANG_INDEX; [ -e failed ] && exit 0; \
                  while [ ! -e wrote0 ]; do sleep 0.01; done; \
                  [ $GANG_INDEX = 1 ] && touch failed && exit 9; while :; do sleep 0.01; done";
    let finished = up.run(&["run", "--gang", "2", "--max-retries", "3", "--", "sh", "-c", script]).ok();
    // The one that failed pays for it, the other gets its attempt back.
    assert_eq!(
        sorted(&finished.stdout),
        ["[0] attempt 1", "[0] attempt 1", "[1] attempt 1", "[1] attempt 2"],
        "{finished:?}"
    );
    assert!(finished.stderr.contains("round 1 stops after"), "{finished:?}");
    assert!(finished.stderr.contains("rank 1 of the gang failed: exit code 9\n"), "{finished:?}");
    assert!(finished.stderr.contains("muster: round 2 starts\n"), "{finished:?}");
    let gang = up.run(&["gangs", "--quiet"]).ok().line();
    let shown = up.run(&["show", &gang]).ok().stdout;
    for part in
        ["state:      done", "rounds:     2", "epoch:      1", "ROUND", "  2/2  ", "exit code 9", "  done"]
    {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
}

#[test]
fn ctrl_c_cancels_the_gang() {
    let up = up();
    let run = up.start_command(&["run", "--gang", "2", "--", "sleep", "60"]);
    until("there is a gang", BOUND, || !up.run(&["gangs", "--quiet"]).ok().stdout.is_empty());
    let gang = up.run(&["gangs", "--quiet"]).ok().line();
    await_state(&up, &gang, "running");
    run.signal(Signal::SIGINT);
    let finished = run.finish();
    assert_eq!(finished.code(), 130, "{finished:?}");
    assert!(finished.stderr.contains("cancelling the gang"), "{finished:?}");
    assert_eq!(up.show(&gang)["state"], "cancelled");
}

#[test]
fn programs_get_lines_of_json_with_the_rank() {
    let up = up();
    let finished = up.run(&["run", "--json", "--gang", "2", "--", "sh", "-c", "echo $GANG_INDEX"]).ok();
    let lines: Vec<Value> = finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [one, two, end] = lines.as_slice() else { panic!("{lines:?}") };
    for line in [one, two] {
        assert_eq!(line["text"], format!("{}\n", line["rank"]), "{line}");
        assert!(line["job_id"].as_str().is_some_and(|id| id.starts_with("job-")), "{line}");
    }
    assert_eq!(
        (&end["gang"]["state"], end["gang"]["tasks"].as_array().map(Vec::len)),
        (&"done".into(), Some(2))
    );
}

#[test]
fn a_gang_waits_for_workers_of_its_own_when_told_to() {
    let up = up();
    let told = up.directory.path().join("told");
    let mut command = up.command(&["run", "--gang", "2", "--spread", "--", "true"]);
    command.stderr(std::fs::File::create(&told).unwrap());
    let mut child = command.spawn().unwrap();
    until("the reason is told", BOUND, || std::fs::read_to_string(&told).unwrap().contains("waiting: "));
    let gang = up.run(&["gangs", "--quiet"]).ok().line();
    let why = up.run(&["why", &gang]).ok().stdout;
    assert!(why.starts_with(&format!("{gang} is blocked\n  - ")) && why.contains("worker"), "{why}");
    up.run(&["cancel", &gang]).ok();
    until("the run ends", BOUND, || child.try_wait().unwrap().is_some());
}

#[test]
fn the_output_of_all_tasks_in_the_order_of_writing() {
    let up = up();
    let script = format!(
        "while [ ! -e go$GANG_INDEX ]; do sleep 0.01; done; echo one; echo two >&2; {GATE}; printf end"
    );
    let gang = up.run(&["run", "--detach", "--gang", "3", "--", "sh", "-c", &script]).ok().line();
    assert!(gang.starts_with("gang-") && gang.len() == 41, "{gang}");
    // Each may write when what the one before it wrote is kept, so that the order of writing is known.
    for rank in [2, 0, 1] {
        std::fs::write(up.directory.path().join(format!("go{rank}")), "").unwrap();
        until("it has written", BOUND, || {
            let logs = up.run(&["logs", &gang]).ok();
            logs.stdout.contains(&format!("[{rank}] one\n"))
                && logs.stderr.contains(&format!("[{rank}] two\n"))
        });
    }
    let out = "[2] one\n[0] one\n[1] one\n";
    let logs = up.run(&["logs", &gang]).ok();
    assert_eq!((logs.stdout.as_str(), logs.stderr.as_str()), (out, "[2] two\n[0] two\n[1] two\n"));
    let follower = up.start_command(&["logs", "-f", "--stdout", &gang]);
    until("it follows", BOUND, || follower.catches(Signal::SIGINT));
    open_gate(&up);
    let followed = follower.finish().ok();
    assert_eq!(followed.stdout.lines().take(3).collect::<Vec<_>>().join("\n") + "\n", out);
    assert_eq!(sorted(&followed.stdout)[0], "[0] end");
    up.run(&["wait", &gang]).ok();
    assert_eq!(up.run(&["logs", "--rank", "2", "--stdout", &gang]).ok().stdout, "[2] one\n[2] end\n");
    assert_eq!(sorted(&up.run(&["logs", "--tail", "1", "--stdout", &gang]).ok().stdout).len(), 3);
    let short = &gang[..13];
    assert_eq!(up.run(&["logs", "--rank", "0-1", "--stderr", short]).ok().stdout, "[0] two\n[1] two\n");
    let wrong = up.run(&["logs", "--rank", "3", &gang]);
    assert!(wrong.code() == 1 && wrong.stderr.contains("the ranks 0 to 2, and no rank 3"), "{wrong:?}");
}

#[test]
fn a_gang_makes_room_and_comes_back() {
    let up = up();
    let gang = up.submit(&["--gang", "2", "--name", "train", "--", "sh", "-c", GATE]);
    await_state(&up, &gang, "running");
    let asked = up.run(&["preempt", "--message", "the demo", &gang]).ok().stdout;
    assert_eq!(asked.matches(" is asked to make room\n").count(), 2, "{asked}");
    await_gang(&up, &gang, "round 2", |shown| shown["rounds"] == 2 && shown["state"] == "running");
    let shown = up.show(&gang);
    for task in shown["tasks"].as_array().unwrap() {
        assert_eq!((&task["attempts"], &task["name"]), (&1.into(), &"train".into()), "{task}");
    }
    assert!(up.run(&["show", &gang]).ok().stdout.contains("preempted: the demo"));
    open_gate(&up);
    up.run(&["wait", &gang]).ok();
    let too_late = up.run(&["preempt", &gang]);
    assert!(too_late.code() == 1 && too_late.stderr.contains("409"), "{too_late:?}");
}

#[test]
fn what_can_be_done_to_a_job_can_be_done_to_a_gang() {
    let up = up();
    let gang = up.submit(&["--gang", "2", "--hold", "--", "true"]);
    assert!(up.run(&["why", &gang]).ok().stdout.contains("held"));
    let tasks = up.run(&["ls", "--no-header", "--columns", "rank,gang,status", &gang]).ok().stdout;
    assert_eq!(tasks, format!("0  {gang}  held\n1  {gang}  held\n"));
    let would = up.run(&["cancel", "--dry-run", &gang]).ok().stdout;
    assert_eq!(would.matches("would be cancelled").count(), 2, "{would}");
    assert_eq!(up.run(&["cancel", &gang]).ok().stdout.matches(" cancelled\n").count(), 2);
    let waited = up.run(&["wait", &gang]);
    assert_eq!((waited.code(), waited.stdout), (130, format!("{gang} cancelled\n")));
    // One task stands for the whole.
    let task = up.show(&gang)["tasks"][1]["id"].as_str().unwrap().to_owned();
    up.run(&["retry", &task]).ok();
    // It is held as it was.
    assert_eq!(up.run(&["release", &gang]).ok().stdout.matches(" released\n").count(), 2);
    up.run(&["wait", &gang]).ok();
    let events = up.run(&["events", &gang]).ok().stdout;
    for part in ["[0] ", "[1] ", "reserved", "round 1 on ", "done"] {
        assert!(events.contains(part), "{part:?} is missing in\n{events}");
    }
    let after = up.submit(&["--after", &gang, "--", "true"]);
    up.run(&["wait", &after]).ok();
    assert_eq!(up.run(&["delete", &gang]).ok().stdout.matches(" deleted\n").count(), 2);
    let gone = up.run(&["show", &gang]);
    assert!(gone.code() == 1 && gone.stderr.contains("there is no gang"), "{gone:?}");
}

#[test]
fn a_gang_is_a_step_that_needs_and_is_needed() {
    let up = up();
    let file = "steps:\n  - {name: data, run: echo data >> order}\n  - name: train\n    needs: data\n    \
                gang: {size: 3, tasks_per_worker: 3}\n    run: echo train >> order\n  \
                - {name: report, needs: train, run: echo report >> order}\n";
    std::fs::write(up.directory.path().join("p.yaml"), file).unwrap();
    let checked = up.run(&["submit", "--check", "p.yaml"]).ok();
    assert_eq!(checked.stdout, "p.yaml: 3 steps, 5 jobs\n");
    up.run(&["submit", "p.yaml", "--wait"]).ok();
    let order = std::fs::read_to_string(up.directory.path().join("order")).unwrap();
    assert_eq!(order, "data\ntrain\ntrain\ntrain\nreport\n");
    let pipeline = up.run(&["pipelines", "--json"]).ok().json()[0]["id"].as_str().unwrap().to_owned();
    let tree = up.run(&["show", &pipeline]).ok().stdout;
    assert!(tree.contains("train") && tree.contains("3/3"), "{tree}");
}

#[test]
fn sixty_four_tasks_are_read_and_followed() {
    let up = Up::start_with(&["--workers", "64"]);
    let script = "echo one; echo $GANG_INDEX of $GANG_SIZE";
    let finished = up.run(&["run", "--gang", "64", "--", "sh", "-c", script]).ok();
    let mut expected: Vec<String> =
        (0..64).flat_map(|rank| [format!("[{rank:>2}] one"), format!("[{rank:>2}] {rank} of 64")]).collect();
    expected.sort_unstable();
    assert_eq!(sorted(&finished.stdout), expected);
    let gang = up.run(&["gangs", "--quiet"]).ok().line();
    assert_eq!(sorted(&up.run(&["logs", &gang]).ok().stdout), expected);
}

#[test]
fn what_is_wrong_with_a_gang_is_said_at_once() {
    let up = up();
    let cases = [
        (&["run", "--gang", "1", "--", "true"][..], 2, "2.."),
        (&["run", "--gang-min", "2", "--", "true"], 2, "--gang <N>"),
        (&["submit", "--gang", "2", "--gang-min", "3", "--", "true"], 2, "--gang-min 3"),
        (
            &["submit", "--gang", "2", "--spread", "--tasks-per-worker", "2", "--", "true"],
            2,
            "--tasks-per-worker",
        ),
        (&["submit", "--launch", "per-core", "--", "true"], 2, "per-node and per-rank"),
        (&["show", "gang-1234"], 1, "no gang begins with \"gang-1234\""),
        (&["gangs", "--state", "asleep"], 2, "no state of a gang"),
    ];
    for (arguments, code, part) in cases {
        let finished = up.run(arguments);
        assert_eq!(finished.code(), code, "{finished:?}");
        assert!(finished.stderr.contains(part), "{part:?} is missing in {finished:?}");
    }
    let job = up.submit(&["--", "true"]);
    let rank = up.run(&["logs", "--rank", "0", &job]);
    assert!(rank.code() == 2 && rank.stderr.contains("--rank"), "{rank:?}");
}

#[test]
fn on_a_terminal_a_line_says_what_a_gang_waits_for_and_ranks_have_colours() {
    let up = up();
    let line = "muster run --gang 2 --spread --name train -- true; echo left with $?; \
                muster run --gang 2 -- sh -c 'echo rank $GANG_INDEX'; exec sleep 1000";
    let terminal = Terminal::start(&up, (100, 24), line);
    terminal.shows(&["waiting ", "(train) waiting, 2 tasks: needs 2 workers at once"]);
    terminal.press(&["C-c"]);
    terminal.shows(&["cancelling the gang", "left with 130", "[0] rank 0", "[1] rank 1"]);
    let coloured = terminal.coloured();
    let labels: Vec<&str> =
        coloured.lines().filter(|line| line.contains("] ") && line.contains("rank ")).collect();
    assert!(labels.iter().any(|line| line.contains("\u{1b}[36m[0]")), "{coloured:?}");
    assert!(labels.iter().any(|line| line.contains("\u{1b}[33m[1]")), "{coloured:?}");
}
