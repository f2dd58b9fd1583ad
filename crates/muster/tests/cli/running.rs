//! `muster run` against a scheduler: output, exit codes, Ctrl-C.

use std::process::Command;

use muster_tests::{eventually, until};
use nix::sys::signal::Signal;

use crate::harness::{BOUND, Started, Up};

#[test]
fn output_goes_into_files_of_the_submitter_as_well() {
    let up = Up::start();
    let here = up.directory.path();
    let read = |name: &str| {
        std::fs::read_to_string(here.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let script = "echo out; echo err >&2";
    let both = up.run(&["run", "-o", "%x.log", "--name", "n", "--", "sh", "-c", script]).ok();
    assert_eq!((both.stdout.as_str(), both.stderr.as_str()), ("out\n", "err\n"), "it is shown all the same");
    assert_eq!(read("n.log").lines().collect::<std::collections::BTreeSet<_>>(), ["err", "out"].into());
    up.run(&["run", "-o", "o", "--error", "e", "--", "sh", "-c", script]).ok();
    assert_eq!((read("o"), read("e")), ("out\n".to_owned(), "err\n".to_owned()));
    up.run(&["run", "-o", "o", "--open-mode", "append", "--", "echo", "more"]).ok();
    assert_eq!(read("o"), "out\nmore\n");
    up.run(&["run", "-o", "o", "--", "true"]).ok();
    assert_eq!(read("o"), "", "an attempt begins anew");

    std::fs::create_dir(here.join("d")).unwrap();
    up.run(&["run", "--array", "8-10", "-o", "d/%3a", "--", "sh", "-c", "echo $MUSTER_ARRAY_INDEX"]).ok();
    assert_eq!([read("d/008"), read("d/009"), read("d/010")], ["8\n", "9\n", "10\n"]);
    let large = up.submit(&[
        "-o",
        "%j",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 200000 ]; do echo line $i; i=$((i+1)); done",
    ]);
    up.run(&["wait", &large]).ok();
    let lines = (0..200_000).map(|number| format!("line {number}"));
    assert!(read(&large).lines().eq(lines), "every byte is there when the job has ended");

    let missing = up.run(&["run", "--max-retries", "1", "-o", "no/such/file", "--", "touch", "ran"]);
    assert_ne!(missing.code(), 0, "{missing:?}");
    assert!(
        missing.stderr.contains(&format!("the directory {} does not exist", here.join("no/such").display())),
        "{missing:?}"
    );
    assert!(!here.join("ran").exists(), "it was not started");
    let wrong = up.run(&["run", "-o", "%q", "--", "true"]);
    assert!(wrong.code() != 0 && wrong.stderr.contains("%j (job)"), "{wrong:?}");
}

#[test]
fn an_activated_virtual_environment_goes_with_the_job_when_all_is_exported() {
    let up = Up::start();
    let directory = tempfile::tempdir().unwrap();
    let venv = directory.path().canonicalize().unwrap().join("venv");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "python3 with venv is needed: apt install python3-venv"
    );
    let path = format!("{}:{}", venv.join("bin").display(), std::env::var("PATH").unwrap());
    let prefix = |options: &[&str]| {
        let mut command = up.command(&["run"]);
        command.args(options).args([
            "--",
            "python3",
            "-c",
            "import os, sys; print(sys.prefix, os.environ.get('SHLVL'))",
        ]);
        command.env("PATH", &path).env("VIRTUAL_ENV", &venv).env("SHLVL", "7");
        Started::spawn(command).finish().ok().line()
    };
    let inside = format!("{} None", venv.display());
    assert_eq!(prefix(&["--export", "ALL"]), inside);
    assert_eq!(prefix(&["--export", "PATH,SHLVL=3"]), format!("{} 3", venv.display()));
    assert_ne!(prefix(&[]), inside, "nothing goes along by itself");
    let refused = up.run(&["run", "--export", "NO_SUCH_VARIABLE", "--", "true"]);
    assert_eq!((refused.code(), refused.stderr.contains("NO_SUCH_VARIABLE=VALUE")), (2, true), "{refused:?}");
}

#[test]
fn output_goes_where_the_job_wrote_it() {
    let up = Up::start();
    let script = "echo one; echo two >&2; printf three";
    let finished = up.run(&["run", "--", "sh", "-c", script]).ok();
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("one\nthree", "two\n"));
}

#[test]
fn the_exit_code_is_the_jobs() {
    let up = Up::start();
    assert_eq!(up.run(&["run", "--", "sh", "-c", "exit 3"]).code(), 3);
    assert_eq!(up.run(&["run", "--", "sh", "-c", "kill -9 $$"]).code(), 137);
    assert_eq!(up.run(&["run", "--", "sh", "-c", "kill -15 $$"]).code(), 143);
    let missing = up.run(&["run", "--", "/no/such/program"]);
    assert_eq!(missing.code(), 125);
    assert!(missing.stderr.contains("/no/such/program"), "{missing:?}");
}

#[test]
fn a_failing_run_is_not_repeated_unless_asked_for() {
    let up = Up::start();
    let script = "echo attempt; exit 3";
    assert_eq!(up.run(&["run", "--", "sh", "-c", script]).stdout, "attempt\n");
    let thrice = up.run(&["run", "--max-retries", "3", "--", "sh", "-c", script]);
    assert_eq!((thrice.stdout.as_str(), thrice.code()), ("attempt\nattempt\nattempt\n", 3));
}

#[test]
fn a_lone_argument_with_shell_characters_runs_in_a_shell() {
    let up = Up::start();
    assert_eq!(up.run(&["run", "echo a b | tr a-z A-Z"]).ok().stdout, "A B\n");
    assert_eq!(up.run(&["run", "--shell", "--", "echo", "$((1+2))"]).ok().stdout, "3\n");
    assert_eq!(up.run(&["run", "--", "echo", "$((1+2))"]).ok().stdout, "$((1+2))\n");
}

#[test]
fn directory_and_environment_are_the_callers() {
    let up = Up::start();
    let here = up.directory.path().canonicalize().unwrap();
    assert_eq!(up.run(&["run", "--", "pwd", "-P"]).ok().line(), here.to_str().unwrap());
    assert_eq!(up.run(&["run", "--workdir", "/", "--", "pwd"]).ok().stdout, "/\n");
    let finished = up.run(&["run", "--env", "A=b c", "--", "printenv", "A"]).ok();
    assert_eq!(finished.stdout, "b c\n");
    let url = up.run(&["run", "--", "printenv", "MUSTER_URL"]).ok().line();
    assert_eq!(url, up.url);
}

#[test]
fn output_is_seen_while_the_job_runs() {
    let up = Up::start();
    let gate = up.directory.path().join("gate");
    let seen = up.directory.path().join("seen");
    let script = format!("echo first; while [ ! -e {} ]; do sleep 0.01; done; echo last", gate.display());
    let mut command = up.command(&["run", "--", "sh", "-c", &script]);
    command.stdout(std::fs::File::create(&seen).unwrap());
    let mut child = command.spawn().unwrap();
    let content = || std::fs::read_to_string(&seen).unwrap();
    until("the first line is there", BOUND, || content() == "first\n");
    std::fs::write(&gate, "").unwrap();
    until("the run ends", BOUND, || child.try_wait().unwrap().is_some());
    assert_eq!(content(), "first\nlast\n");
}

#[test]
fn large_output_arrives_whole() {
    let up = Up::start();
    let finished = up.run(&["run", "--", "seq", "1", "300000"]).ok();
    assert!(finished.stdout.lines().map(|line| line.parse::<u32>().unwrap()).eq(1..=300_000));
}

#[test]
fn output_far_beyond_the_limit_arrives_whole_where_it_is_read_along() {
    let up = Up::start_configured("log-limit = 2000000");
    let gate = up.directory.path().join("gate");
    let seen = up.directory.path().join("seen");
    let script = format!("echo 0; while [ ! -e {} ]; do sleep 0.01; done; seq 1 3000000", gate.display());
    let mut command = up.command(&["run", "--", "sh", "-c", &script]);
    command.stdout(std::fs::File::create(&seen).unwrap());
    let mut child = command.spawn().unwrap();
    until("somebody reads along", BOUND, || std::fs::metadata(&seen).unwrap().len() > 0);
    std::fs::write(&gate, "").unwrap();
    let mut status = None;
    until("the run ends", BOUND, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let content = std::fs::read_to_string(&seen).unwrap();
    assert!(content.lines().map(|line| line.parse::<u32>().unwrap()).eq(0..=3_000_000), "{}", content.len());
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn ctrl_c_cancels_the_job() {
    let up = Up::start();
    let run = up.start_command(&["run", "--", "sleep", "60"]);
    let job = up.only_job();
    up.await_status(&job, "running");
    run.signal(Signal::SIGINT);
    let finished = run.finish();
    assert_eq!(finished.code(), 130, "{finished:?}");
    assert!(finished.stderr.contains("cancelling"), "{finished:?}");
    assert_eq!(up.show(&job)["status"], "cancelled");
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let up = Up::start();
    let script = "trap '' TERM; touch trapped; while :; do sleep 0.05; done";
    let run = up.start_command(&["run", "--grace", "30s", "--", "sh", "-c", script]);
    let job = up.only_job();
    until("the job has set its trap", BOUND, || up.directory.path().join("trapped").exists());
    run.signal(Signal::SIGINT);
    up.await_status(&job, "preempting");
    run.signal(Signal::SIGINT);
    let finished = run.finish();
    assert_eq!(finished.code(), 130, "{finished:?}");
    // It left while the job, which ignores its signal, still had its grace.
    assert_eq!(up.show(&job)["status"], "preempting");
}

#[test]
fn a_reader_that_leaves_ends_the_job_quietly() {
    let up = Up::start();
    let mut command = std::process::Command::new("sh");
    let line = format!("{} run -- yes | head -n 2", env!("CARGO_BIN_EXE_muster"));
    command.args(["-c", &line]).env("MUSTER_URL", &up.url);
    let finished = crate::harness::Started::spawn(command).finish();
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("y\ny\n", ""));
    let job = up.only_job();
    up.await_status(&job, "cancelled");
}

#[test]
fn json_has_the_output_and_the_end() {
    let up = Up::start();
    let finished = up.run(&["run", "--json", "--", "sh", "-c", "echo out; exit 2"]);
    assert_eq!(finished.code(), 2);
    let lines: Vec<serde_json::Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (stream, text) = (&lines[0]["stream"], &lines[0]["text"]);
    assert_eq!((stream, text), (&serde_json::json!("stdout"), &serde_json::json!("out\n")));
    assert_eq!((&lines[0]["attempt"], &lines[0]["offset"]), (&serde_json::json!(1), &serde_json::json!(0)));
    assert_eq!(lines[1]["job"]["exit_code"], 2);
}

#[test]
fn a_detached_run_prints_the_id_and_goes_on() {
    let up = Up::start();
    let id = up.run(&["run", "--detach", "--", "true"]).ok().line();
    assert!(id.starts_with("job-") && id.len() == 40, "{id}");
    up.await_status(&id, "done");
}

#[test]
fn a_run_survives_the_death_of_the_scheduler() {
    let mut up = Up::start();
    let gate = up.directory.path().join("gate");
    let script = "seq 1 1000; touch written; while [ ! -e gate ]; do sleep 0.01; done; echo last; exit 7";
    let run = up.start_command(&["run", "--", "sh", "-c", script]);
    until("the job has written", BOUND, || up.directory.path().join("written").exists());
    let job = up.only_job();
    until("its output is kept", BOUND, || up.run(&["logs", &job]).ok().stdout.ends_with("1000\n"));
    up.kill_and_restart();
    std::fs::write(gate, "").unwrap();
    let finished = run.finish();
    assert_eq!(finished.code(), 7, "{finished:?}");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!((lines.len(), lines[999], lines[1000]), (1001, "1000", "last"), "{finished:?}");
}

#[test]
fn a_job_that_does_not_start_is_explained() {
    let up = Up::start();
    let told = up.directory.path().join("told");
    let mut command = up.command(&["run", "--tag", "a100", "--", "true"]);
    command.stderr(std::fs::File::create(&told).unwrap());
    let mut child = command.spawn().unwrap();
    until("the reason is told", BOUND, || std::fs::read_to_string(&told).unwrap().contains("a100"));
    let job = up.only_job();
    up.run(&["cancel", &job]).ok();
    let status = eventually("the run ends", BOUND, || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_job_that_takes_more_memory_than_it_asked_for_ends_with_both_numbers() {
    let up = Up::start();
    let hungry = "x = b'x' * 600_000_000";
    let killed = up.run(&["run", "--memory", "64M", "--", "python3", "-c", hungry]);
    assert_eq!(killed.code(), 137, "{killed:?}");
    assert!(killed.stderr.contains("out of memory: used 64 MiB of its limit of 64 MiB"), "{killed:?}");
    let id = up.submit(&["--max-retries", "2", "--memory", "64M", "--", "python3", "-c", hungry]);
    up.run(&["wait", &id]);
    let events = up.run(&["events", &id, "--json"]).ok().json();
    let causes: Vec<_> =
        events.as_array().unwrap().iter().filter_map(|event| event["data"]["cause"].as_str()).collect();
    assert_eq!(causes, ["oom", "oom"], "{events}");
    assert_eq!(up.run(&["run", "--memory", "800M", "--", "python3", "-c", hungry]).code(), 0);
}

#[test]
fn a_job_that_ran_out_of_memory_gets_more_and_ends_well() {
    let up = Up::start();
    let hungry = "x = b'x' * 300_000_000";
    let done = up.run(&["run", "--memory", "200M", "--oom-memory", "x2", "--", "python3", "-c", hungry]);
    assert_eq!(done.code(), 0, "{done:?}");
    let id = up.only_job();
    let events = up.run(&["events", &id]).ok().stdout;
    assert!(events.contains("memory_mb 200 to 400, because an attempt ran out of it"), "{events}");
    let shown = up.run(&["show", &id, "--json"]).ok().json();
    assert_eq!((&shown["attempts"], &shown["resources"]["memory_mb"]), (&2.into(), &400.into()), "{shown}");
    // `run` repeats nothing else.
    let failed = up.run(&["run", "--memory", "200M", "--oom-memory", "x2", "--", "false"]);
    assert_eq!(failed.code(), 1, "{failed:?}");
    let refused = up.run(&["run", "--oom-memory", "x2", "--", "true"]);
    assert!(refused.stderr.contains("ask for memory_mb too"), "{refused:?}");
}
