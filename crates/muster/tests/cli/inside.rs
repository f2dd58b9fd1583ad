//! What a job does for itself: checkpoints, the notice, the word that it has finished.

use std::fs;

use muster_tests::eventually;
use tempfile::TempDir;

use crate::harness::{BOUND, Finished, Started, Up, muster};

const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

/// Leaves a file with all 256 bytes under this name.
const EVERY_BYTE: &str =
    "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done > every-byte";

/// Waits in the background for the notice, and says so once SIGTERM would not end that any more.
const WAIT: &str = "trap : TERM; muster notice --wait > told &
    until grep -qE '^SigCgt:.*[4-7c-f][0-9a-f]{3}$' /proc/$!/status; do sleep 0.02; done
    echo waiting; wait $!; wait $!; echo code $?; cat told";

/// Submits a script; `muster` in it is this program.
fn submit(up: &Up, options: &[&str], script: &str) -> String {
    let script = script.replace("muster ", &format!("{MUSTER} "));
    let words: Vec<&str> = options.iter().copied().chain(["--", "sh", "-c", &script]).collect();
    up.submit(&words)
}

fn logs(up: &Up, id: &str) -> String {
    up.run(&["logs", id]).ok().stdout
}

fn await_output(up: &Up, id: &str, text: &str) -> String {
    eventually(&format!("{text:?} in the output"), BOUND, || {
        Some(logs(up, id)).filter(|all| all.contains(text))
    })
}

#[test]
fn a_checkpoint_saved_while_the_job_runs_is_there_for_everybody() {
    let up = Up::start();
    let id = submit(
        &up,
        &["--max-retries", "2"],
        &format!(
            "if [ -f \"$MUSTER_CHECKPOINT_FILE\" ]; then cksum < $MUSTER_CHECKPOINT_FILE; exit 0; fi
             {EVERY_BYTE}; muster checkpoint save every-byte && muster checkpoint get -o copy && cmp every-byte copy &&
             echo one more | muster checkpoint save - --json && cat every-byte | muster checkpoint save - && exit 3"
        ),
    );
    up.run(&["wait", &id]).ok();
    let first = up.run(&["logs", "--attempt", "1", &id]).ok().stdout;
    assert!(first.starts_with("saved 256 bytes\n") && first.contains("\"bytes\": 9"), "{first}");
    let every_byte: Vec<u8> = (0..=255).collect();
    let kept = up.command(&["checkpoint", "get", &id[..12]]).output().unwrap();
    assert_eq!((kept.status.code(), kept.stdout), (Some(0), every_byte.clone()));
    let file = up.directory.path().join("checkpoint");
    up.run(&["checkpoint", "get", &id, "-o", file.to_str().unwrap()]).ok();
    assert_eq!(fs::read(file).unwrap(), every_byte);
    let job = up.show(&id);
    assert_eq!((&job["checkpoint_bytes"], &job["attempts"]), (&256.into(), &2.into()));
    let sum = up.run(&["logs", "--attempt", "2", &id]).ok().stdout;
    assert!(sum.contains(" 256"), "{sum}");
}

#[test]
fn what_a_job_leaves_at_its_end_is_where_its_next_attempt_starts() {
    let up = Up::start();
    let script = "if [ -n \"$MUSTER_CHECKPOINT_FILE\" ]; then echo again at $(cat $MUSTER_CHECKPOINT_FILE); \
                  echo dir $(cat $MUSTER_CHECKPOINT_DIR/step); exit 0; fi
                  echo 41 > $MUSTER_CHECKPOINT_DIR/step; echo 42 > $MUSTER_CHECKPOINT_OUT; exit 5";
    let id = submit(&up, &["--max-retries", "2"], script);
    up.run(&["wait", &id]).ok();
    assert_eq!(logs(&up, &id), "again at 42\ndir 41\n");
    let none = submit(&up, &[], "test -z \"$MUSTER_CHECKPOINT_FILE\"; muster checkpoint get");
    let waited = up.run(&["wait", &none]);
    assert_eq!(waited.code(), 1, "{waited:?}");
    assert!(up.run(&["logs", &none]).ok().stderr.contains("has no checkpoint"));
}

#[test]
fn a_job_hears_that_it_must_stop_and_may_have_finished_all_the_same() {
    let up = Up::start();
    let script = "muster notice; echo before: $?
                  trap 'muster notice; echo after: $?; muster done; exit 7' TERM
                  echo up; while :; do sleep 0.02; done";
    let id = submit(&up, &["--timeout", "4s", "--grace", "40s", "--max-retries", "1"], script);
    let waited = up.run(&["wait", &id]);
    let output = logs(&up, &id);
    assert!(output.starts_with("before: 1\nup\n{") && output.ends_with("}\nafter: 0\n"), "{output}");
    let notice: serde_json::Value = serde_json::from_str(output.lines().nth(2).unwrap()).unwrap();
    assert_eq!((&notice["reason"], &notice["comes_back"]), (&"timeout".into(), &false.into()));
    assert_eq!(notice["job_id"], id.as_str());
    assert_eq!(waited.code(), 0, "it declared itself done: {waited:?}");
    assert_eq!(up.show(&id)["status"], "done");
}

#[test]
fn waiting_for_the_notice_outlives_the_signal_that_follows_it() {
    let up = Up::start();
    let id = submit(&up, &["--grace", "40s"], WAIT);
    await_output(&up, &id, "waiting");
    up.run(&["cancel", &id]).ok();
    up.await_status(&id, "cancelled");
    let output = await_output(&up, &id, "preemption_epoch");
    assert!(output.contains("code 0") && output.contains("\"comes_back\":false"), "{output}");
}

#[test]
fn where_the_file_cannot_be_seen_the_scheduler_is_asked() {
    let up = Up::start();
    let script =
        format!("export MUSTER_PREEMPT_FILE=/nowhere/at/all; muster notice; echo before: $?; {WAIT}");
    let id = submit(&up, &["--grace", "40s"], &script);
    assert!(await_output(&up, &id, "waiting").starts_with("before: 1\n"));
    up.run(&["cancel", &id]).ok();
    let output = await_output(&up, &id, "preemption_epoch");
    assert!(output.contains("code 0") && output.contains("\"status\":\"preempting\""), "{output}");
}

fn alone(arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let directory = TempDir::with_prefix("muster-test-").unwrap();
    let mut command = muster(directory.path());
    command.args(arguments).envs(variables.iter().copied());
    Started::spawn(command).finish()
}

#[test]
fn outside_of_a_job_they_say_so() {
    let cases: [(&[&str], &str); 4] = [
        (&["done"], "MUSTER_DONE_FILE"),
        (&["notice"], "MUSTER_PREEMPT_FILE"),
        (&["checkpoint", "save", "x"], "MUSTER_JOB_ID"),
        (&["checkpoint", "get"], "MUSTER_JOB_ID"),
    ];
    for (arguments, variable) in cases {
        let finished = alone(arguments, &[]);
        assert_eq!((finished.code(), finished.stdout.as_str()), (2, ""), "{finished:?}");
        assert!(finished.stderr.contains(variable) && finished.stderr.contains("a job"), "{finished:?}");
    }
    let job = ("MUSTER_JOB_ID", "job-00000000-0000-4000-8000-000000000000");
    let no_proof = alone(&["checkpoint", "save", "x"], &[job]);
    assert!(no_proof.code() == 2 && no_proof.stderr.contains("MUSTER_TOKEN"), "{no_proof:?}");
    let odd = alone(&["checkpoint", "save", "x"], &[job, ("MUSTER_LEASE", "one")]);
    assert!(odd.code() == 2 && odd.stderr.contains("\"one\""), "{odd:?}");
    let missing = alone(&["checkpoint", "save", "no-such-file"], &[job, ("MUSTER_LEASE", "1")]);
    assert!(missing.code() == 1 && missing.stderr.contains("no-such-file"), "{missing:?}");
}

#[test]
fn somebody_else_cannot_save_for_a_job() {
    let up = Up::start();
    let id = submit(&up, &[], "echo up; while :; do sleep 0.02; done");
    await_output(&up, &id, "up");
    fs::write(up.directory.path().join("file"), "1").unwrap();
    let save = |variables: &[(&str, &str)]| {
        let mut command = up.command(&["checkpoint", "save", "file"]);
        command.env("MUSTER_JOB_ID", &id).envs(variables.iter().copied());
        Started::spawn(command).finish()
    };
    for variables in [[("MUSTER_LEASE", "77")], [("MUSTER_TOKEN", "mj1.made.up.token")]] {
        let refused = save(&variables);
        assert_eq!((refused.code(), refused.stdout.as_str()), (1, ""), "{refused:?}");
        assert!(refused.stderr.contains("1 bytes was not saved"), "{refused:?}");
    }
    assert_eq!(save(&[("MUSTER_LEASE", "1")]).ok().line(), "saved 1 bytes");
    up.run(&["cancel", &id]).ok();
}
