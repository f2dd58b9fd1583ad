//! What a job is promised wherever it runs: one suite, for processes of the host and for containers.

use std::path::Path;

use muster_protocol::{JobReport, ReportKind};
use muster_tests::{ContainerEngine, IMAGE, PodmanEngine};
use serde_json::{Value, json};

use crate::process::{Worker, eventually};
use crate::scheduler::Scheduler;

/// Where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Executor {
    Process,
    Container,
    /// The same, by another engine.
    Podman,
}

impl Executor {
    pub(crate) fn worker(self, scheduler: &Scheduler, flags: &[&str]) -> Worker {
        match self {
            Self::Process => Worker::start(scheduler, flags),
            Self::Container => contained_worker(scheduler, ContainerEngine::shared(), flags),
            Self::Podman => worker_of(scheduler, "podman", &PodmanEngine::shared().socket(), flags),
        }
    }

    pub(crate) fn submit(self, scheduler: &Scheduler, command: &str, extra: &Value) -> String {
        let mut extra = extra.clone();
        if self != Self::Process {
            extra["image"] = json!(IMAGE);
        }
        scheduler.submit(command, &extra)
    }

    /// How the end by a signal is told: the engine tells exit codes only.
    fn ended_by(self, report: &JobReport, signal: i32) -> bool {
        match self {
            Self::Process => report.signal == Some(signal) && report.exit_code.is_none(),
            Self::Container | Self::Podman => report.exit_code == Some(128 + signal),
        }
    }
}

/// A worker that runs containers by this engine.
pub(crate) fn contained_worker(scheduler: &Scheduler, engine: &ContainerEngine, flags: &[&str]) -> Worker {
    worker_of(scheduler, "docker", &engine.socket(), flags)
}

fn worker_of(scheduler: &Scheduler, engine: &str, socket: &Path, flags: &[&str]) -> Worker {
    let (engine, socket) =
        (format!("--containers={engine}"), format!("--container-socket={}", socket.display()));
    let flags: Vec<&str> = flags.iter().copied().chain([engine.as_str(), socket.as_str()]).collect();
    Worker::start(scheduler, &flags)
}

/// Makes a test for each place where jobs run.
macro_rules! for_each_executor {
    ($(fn $name:ident($executor:ident) $body:block)+) => {$(
        mod $name {
            use super::*;

            pub(super) fn scenario($executor: Executor) $body

            #[test]
            fn process() {
                scenario(Executor::Process);
            }

            #[test]
            fn container() {
                scenario(Executor::Container);
            }
        }
    )+};
}

fn output(scheduler: &Scheduler, id: &str, stream: &str) -> Vec<u8> {
    scheduler.with(|inner| inner.output.get(&(id.to_owned(), stream.to_owned())).cloned().unwrap_or_default())
}

fn text(scheduler: &Scheduler, id: &str) -> String {
    String::from_utf8(output(scheduler, id, "stdout")).unwrap()
}

for_each_executor! {
    fn exit_codes_and_signals_are_told(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=3"]);
        let done = executor.submit(&scheduler, "true", &json!({}));
        let code = executor.submit(&scheduler, "exit 7", &json!({}));
        let signal = executor.submit(&scheduler, "kill -USR1 $$", &json!({}));
        let report = scheduler.report_of(&done);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Done, Some(0)), "{report:?}");
        let report = scheduler.report_of(&code);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(7)), "{report:?}");
        let report = scheduler.report_of(&signal);
        assert!(report.kind == ReportKind::Failed && executor.ended_by(&report, 10), "{report:?}");
    }

    fn output_comes_byte_for_byte_and_both_streams_apart(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=2"]);
        let id = executor.submit(&scheduler, "printf 'a\\000\\377b\\r\\n\\n'; printf 'oops' >&2; printf end", &json!({}));
        let big = executor.submit(&scheduler, "seq 1 200000", &json!({}));
        scheduler.report_of(&id);
        assert_eq!(output(&scheduler, &id, "stdout"), b"a\0\xffb\r\n\nend");
        assert_eq!(output(&scheduler, &id, "stderr"), b"oops");
        scheduler.report_of(&big);
        let expected: Vec<u8> = (1..=200_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
        assert!(output(&scheduler, &big, "stdout") == expected);
    }

    fn output_comes_while_the_job_runs(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let id = executor.submit(&scheduler, "echo first; while :; do sleep 0.1; done", &json!({}));
        scheduler.output_with(&id, "stdout", "first\n");
        assert!(scheduler.with(|inner| inner.reports(&id).is_empty()));
        scheduler.stop(&id, 10_000);
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::Preempted);
    }

    fn arguments_are_not_read_by_a_shell(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let id = executor.submit(&scheduler, "x", &json!({"argv": ["echo", "a  b", "$HOME", "*"]}));
        scheduler.report_of(&id);
        assert_eq!(text(&scheduler, &id), "a  b $HOME *\n");
    }

    fn the_environment_is_the_jobs_own(executor) {
        let scheduler = Scheduler::start();
        let worker = executor.worker(&scheduler, &["--workers=1"]);
        let id = executor.submit(&scheduler, "env", &json!({"env": {"COLOUR": "blue  sky", "MUSTER_LEASE": "99"}}));
        scheduler.report_of(&id);
        let env = text(&scheduler, &id);
        let has = |line: &str| env.lines().any(|known| known == line);
        let url = format!("MUSTER_URL=http://{}", scheduler.address);
        let id_line = format!("MUSTER_JOB_ID={id}");
        for line in ["COLOUR=blue  sky", "MUSTER_LEASE=1", "MUSTER_ATTEMPT=1", &id_line, &url] {
            assert!(has(line), "{line} is not in\n{env}");
        }
        assert!(!env.contains("hush") && !env.contains("RANK=9"), "{env}");
        let of_the_host = env.lines().any(|line| line == "LC_TEST=passed");
        assert_eq!(of_the_host, executor == Executor::Process, "{env}");
        drop(worker);
    }

    fn a_checkpoint_goes_in_and_comes_out(executor) {
        let scheduler = Scheduler::start();
        let worker = executor.worker(&scheduler, &["--workers=1"]);
        let command = "cat $MUSTER_CHECKPOINT_FILE; echo kept > $MUSTER_CHECKPOINT_DIR/x; \
                       printf after > $MUSTER_CHECKPOINT_OUT";
        scheduler.with(|inner| inner.checkpoints.insert("job-1".to_owned(), b"before".to_vec()));
        let id = executor.submit(&scheduler, command, &json!({"checkpoint_bytes": 6}));
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
        assert_eq!(text(&scheduler, &id), "before");
        assert_eq!(scheduler.with(|inner| inner.checkpoints[&id].clone()), b"after");
        let kept = worker.directory().join("data/checkpoints").join(&id).join("x");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "kept\n");
        worker.no_file_is_left();
    }

    fn a_stop_is_told_and_may_be_answered(executor) {
        let scheduler = Scheduler::start();
        let worker = executor.worker(&scheduler, &["--workers=1"]);
        let command = "trap 'cat $MUSTER_PREEMPT_FILE; touch $MUSTER_DONE_FILE; exit 3' TERM; echo ready; \
                       while :; do sleep 0.1; done";
        let id = executor.submit(&scheduler, command, &json!({}));
        scheduler.output_with(&id, "stdout", "ready");
        scheduler.preempt(&id, 30_000, |_| ());
        let report = scheduler.report_of(&id);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Finished, Some(3)), "{report:?}");
        assert!(text(&scheduler, &id).contains("\"comes_back\":true"), "{}", text(&scheduler, &id));
        worker.no_file_is_left();
    }

    fn a_signal_of_the_jobs_choice_asks_it_to_stop(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let command = "trap 'echo asked; exit 0' INT; echo ready; while :; do sleep 0.1; done";
        let id = executor.submit(&scheduler, command, &json!({"stop_signal": "SIGINT"}));
        scheduler.output_with(&id, "stdout", "ready");
        scheduler.stop(&id, 30_000);
        assert_eq!(scheduler.report_of(&id).exit_code, Some(0));
        assert_eq!(text(&scheduler, &id), "ready\nasked\n");
    }

    fn a_stop_reaches_what_the_job_has_started(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let inner = "trap \"echo inner; exit 0\" TERM; echo ready; while :; do sleep 0.1; done";
        let command = format!("trap 'echo outer' TERM; sh -c '{inner}' & wait; wait");
        let id = executor.submit(&scheduler, &command, &json!({}));
        scheduler.output_with(&id, "stdout", "ready");
        scheduler.stop(&id, 30_000);
        scheduler.report_of(&id);
        let told = text(&scheduler, &id);
        assert!(["ready", "inner", "outer"].iter().all(|word| told.contains(word)), "{told}");
    }

    fn what_does_not_listen_is_killed_after_its_grace(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let id = executor.submit(&scheduler, "trap '' TERM; echo ready; while :; do sleep 1; done", &json!({}));
        scheduler.output_with(&id, "stdout", "ready");
        scheduler.stop(&id, 500);
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::Preempted);
    }

    fn what_takes_too_long_is_stopped(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let extra = json!({"timeout_seconds": 1.0, "grace_seconds": 1});
        let id = executor.submit(&scheduler, "trap '' TERM; while :; do sleep 1; done", &extra);
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::TimedOut);
    }

    fn values_are_handed_on(executor) {
        let scheduler = Scheduler::start();
        let worker = executor.worker(&scheduler, &["--workers=1"]);
        let id = executor.submit(&scheduler, "echo rows=5 >> $MUSTER_OUTPUT", &json!({}));
        assert_eq!(scheduler.report_of(&id).outputs, Some(json!({"rows": "5"})));
        worker.no_file_is_left();
    }

    fn nothing_that_a_job_started_outlives_it(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=1"]);
        let seconds = match executor {
            Executor::Process => "86311",
            Executor::Container => "86312",
            Executor::Podman => "86318",
        };
        let command = format!("setsid sleep {seconds} & (setsid sh -c 'trap \"\" TERM HUP; sleep {seconds}; true' &) ; sleep 0.2; echo on");
        let id = executor.submit(&scheduler, &command, &json!({}));
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
        eventually("all processes are gone", || (!is_running(&["sleep", seconds])).then_some(()));
    }

    fn what_cannot_start_says_why(executor) {
        let scheduler = Scheduler::start();
        let _worker = executor.worker(&scheduler, &["--workers=2"]);
        let missing = executor.submit(&scheduler, "x", &json!({"argv": ["/no/such/program"]}));
        let named = executor.submit(&scheduler, "x", &json!({"argv": ["no-such-program"]}));
        for (id, words) in [(missing, "/no/such/program"), (named, "no-such-program")] {
            let report = scheduler.report_of(&id);
            let message = report.message.clone().unwrap_or_default() + &String::from_utf8_lossy(&output(&scheduler, &id, "stderr"));
            assert_eq!(report.kind, ReportKind::Failed);
            // The init of Podman does not say what it could not execute.
            let is_told = message.contains(words) || (executor == Executor::Podman && message.contains("failed to exec"));
            assert!(is_told, "{report:?} {message}");
        }
    }

    fn jobs_survive_their_agent(executor) {
        let scheduler = Scheduler::start();
        let mut worker = executor.worker(&scheduler, &["--workers=1"]);
        let id = executor.submit(&scheduler, "echo begun; sleep 3; echo ended; exit 4", &json!({}));
        scheduler.output_with(&id, "stdout", "begun");
        worker.kill9();
        worker.restart();
        let report = scheduler.report_of(&id);
        assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(4)), "{report:?}");
        assert_eq!(text(&scheduler, &id), "begun\nended\n");
    }
}

/// Whether a process with these arguments runs anywhere on the machine.
fn is_running(arguments: &[&str]) -> bool {
    let wanted: Vec<u8> = arguments.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .into_iter()
        .any(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
}

#[test]
fn half_a_core_is_half_a_core_in_a_container() {
    let scheduler = Scheduler::start();
    let _worker = Executor::Container.worker(&scheduler, &["--workers=1", "--cpus=2"]);
    let command = "timeout 4 sh -c 'while :; do :; done'; for f in /sys/fs/cgroup/cpuacct/cpuacct.usage /sys/fs/cgroup/cpu.stat; do cat $f 2>/dev/null; done";
    let id = Executor::Container.submit(&scheduler, command, &json!({"resources": {"cpus": 0.5}}));
    scheduler.report_of(&id);
    let told = text(&scheduler, &id);
    let first = told.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    let seconds = if told.contains("usage_usec") { first / 1e6 } else { first / 1e9 };
    // On a busy machine it may get less.
    assert!((0.2..2.6).contains(&seconds), "{seconds} s of processor time in 4 s: {told}");
}

/// The other engine: what it does in its own way.
mod podman {
    use super::*;

    macro_rules! on_podman {
        ($($name:ident,)+) => {$(
            #[test]
            fn $name() {
                super::$name::scenario(Executor::Podman);
            }
        )+};
    }

    on_podman! {
        exit_codes_and_signals_are_told,
        output_comes_byte_for_byte_and_both_streams_apart,
        a_checkpoint_goes_in_and_comes_out,
        a_signal_of_the_jobs_choice_asks_it_to_stop,
        a_stop_reaches_what_the_job_has_started,
        what_does_not_listen_is_killed_after_its_grace,
        nothing_that_a_job_started_outlives_it,
        what_cannot_start_says_why,
        jobs_survive_their_agent,
    }

    #[test]
    fn more_memory_than_allowed_is_the_end() {
        more_memory_than_allowed_is_the_end_in(Executor::Podman);
    }

    #[test]
    fn no_container_is_left() {
        let scheduler = Scheduler::start();
        let worker = Executor::Podman.worker(&scheduler, &["--workers=1"]);
        let containers = || PodmanEngine::shared().containers_of(&worker.directory().join("data"));
        let id = Executor::Podman.submit(&scheduler, "echo ready; while :; do sleep 0.1; done", &json!({}));
        scheduler.output_with(&id, "stdout", "ready");
        assert_eq!(containers().len(), 1);
        scheduler.stop(&id, 30_000);
        scheduler.report_of(&id);
        assert!(containers().is_empty(), "the end is told when it is removed");
    }
}

#[test]
fn more_memory_than_allowed_is_the_end_in_a_container() {
    more_memory_than_allowed_is_the_end_in(Executor::Container);
}

fn more_memory_than_allowed_is_the_end_in(executor: Executor) {
    let scheduler = Scheduler::start();
    let _worker = executor.worker(&scheduler, &["--workers=1", "--memory-mb=1000"]);
    let command = "head -c 600000000 /dev/zero | tail -c 600000000 | wc -c";
    let extra =
        json!({"resources": {"memory_mb": 64}, "argv": ["sh", "-c", format!("set -o pipefail; {command}")]});
    let id = executor.submit(&scheduler, "x", &extra);
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Oom, "{report:?}");
    assert_eq!(report.exit_code, Some(137), "{report:?}");
    let message = report.message.unwrap_or_default();
    assert!(message.contains("out of memory") && message.contains("64 MiB"), "{message}");
}
