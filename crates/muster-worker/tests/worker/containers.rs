//! No container outlives its attempt, whoever is killed or stopped.

use std::path::PathBuf;

use muster_protocol::ReportKind;
use muster_seal::{Context, PublicKey, SecretValue, seal};
use muster_tests::{ContainerEngine, IMAGE, ImageRegistry};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::executors::contained_worker;
use crate::process::{Worker, eventually, is_alive};
use crate::scheduler::Scheduler;

fn submit(scheduler: &Scheduler, command: &str, extra: &Value) -> String {
    let mut extra = extra.clone();
    extra["image"] = json!(IMAGE);
    scheduler.submit(command, &extra)
}

fn data(worker: &Worker) -> PathBuf {
    worker.directory().join("data").canonicalize().unwrap()
}

fn nothing_is_left(engine: &ContainerEngine, worker: &Worker) {
    let directory = data(worker);
    eventually("the container is gone", || engine.containers_of(&directory).is_empty().then_some(()));
}

/// Starts a job that runs until it is ended, and waits until it does.
fn running(scheduler: &Scheduler, extra: &Value) -> String {
    let id = submit(scheduler, "echo begun; while :; do sleep 0.1; done", extra);
    scheduler.output_with(&id, "stdout", "begun");
    id
}

/// The process that looks after the only container of a worker.
fn runner(worker: &Worker) -> Pid {
    let directory = format!("MUSTER_WORKER_DIR={}", data(worker).display());
    eventually("the runner", || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).map(Pid::from_raw).find(
            |pid| {
                let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let has = |text: &[u8], part: &[u8]| text.split(|byte| *byte == 0).any(|word| word == part);
                has(&read("cmdline"), b"__container") && has(&read("environ"), directory.as_bytes())
            },
        )
    })
}

#[test]
fn a_runner_that_is_killed_takes_its_container_with_it_at_no_cost() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    let id = running(&scheduler, &json!({}));
    assert_eq!(engine.containers_of(&data(&worker)).len(), 1);
    kill(runner(&worker), Signal::SIGKILL).unwrap();
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Released, "{report:?}");
    assert!(engine.containers_of(&data(&worker)).is_empty(), "it is gone before the end is told");
    worker.no_file_is_left();
    let once = running(&scheduler, &json!({"retry": {"lost": false}}));
    kill(runner(&worker), Signal::SIGKILL).unwrap();
    assert_eq!(scheduler.report_of(&once).kind, ReportKind::Lost, "it is not to run twice");
}

#[test]
fn a_keeper_that_is_killed_leaves_no_container() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    let id = running(&scheduler, &json!({}));
    kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Lost);
    nothing_is_left(engine, &worker);
}

#[test]
fn without_its_agent_a_keeper_that_is_killed_leaves_no_container() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let mut worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    running(&scheduler, &json!({}));
    worker.kill9();
    kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
    nothing_is_left(engine, &worker);
}

#[test]
fn without_agent_keeper_and_guard_the_runner_ends_the_container() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let mut worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    running(&scheduler, &json!({}));
    let (keeper, guard, runner) = (worker.keeper().unwrap(), worker.guard().unwrap(), runner(&worker));
    kill(guard, Signal::SIGSTOP).unwrap();
    worker.kill9();
    kill(keeper, Signal::SIGKILL).unwrap();
    kill(guard, Signal::SIGKILL).unwrap();
    nothing_is_left(engine, &worker);
    eventually("the runner has ended", || (!is_alive(runner.as_raw())).then_some(()));
}

#[test]
fn when_all_are_killed_the_next_worker_removes_what_is_left() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let mut worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    running(&scheduler, &json!({}));
    let (keeper, guard, runner) = (worker.keeper().unwrap(), worker.guard().unwrap(), runner(&worker));
    // None of them can do anything when the others are killed.
    for pid in [guard, runner] {
        kill(pid, Signal::SIGSTOP).unwrap();
    }
    worker.kill9();
    for pid in [keeper, guard, runner] {
        kill(pid, Signal::SIGKILL).unwrap();
    }
    assert_eq!(engine.containers_of(&data(&worker)).len(), 1, "nobody is left who could end it");
    worker.restart();
    nothing_is_left(engine, &worker);
}

#[test]
fn a_lease_that_is_lost_ends_the_container() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    let id = running(&scheduler, &json!({}));
    scheduler.with(|inner| inner.lost.insert(id.clone()));
    nothing_is_left(engine, &worker);
}

#[test]
fn an_engine_that_is_killed_hands_its_jobs_back_at_no_cost() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::start(&[]));
    let worker = contained_worker(&scheduler, &engine, &["--workers=1"]);
    let id = running(&scheduler, &json!({}));
    engine.end(Signal::SIGKILL);
    engine.restart();
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Released, "{report:?}");
    nothing_is_left(&engine, &worker);
    // And it goes on.
    let next = submit(&scheduler, "echo again", &json!({}));
    assert_eq!(scheduler.end_of(&next).kind, ReportKind::Done);
}

#[test]
fn an_engine_that_is_stopped_hands_its_jobs_back_at_no_cost() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::start(&[]));
    let mut worker = contained_worker(&scheduler, &engine, &["--workers=2"]);
    let id = running(&scheduler, &json!({}));
    engine.end(Signal::SIGTERM);
    // A worker that had an engine starts without it and runs what needs none.
    worker.kill9();
    worker.restart();
    let plain = scheduler.submit("true", &json!({}));
    assert_eq!(scheduler.end_of(&plain).kind, ReportKind::Done);
    engine.restart();
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Released, "{report:?}");
    nothing_is_left(&engine, &worker);
}

#[test]
fn an_engine_that_keeps_its_containers_loses_no_job_and_no_byte() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::start(&["--live-restore"]));
    let worker = contained_worker(&scheduler, &engine, &["--workers=1"]);
    let command =
        "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; echo word $i >&2; sleep 0.1; done; exit 5";
    let id = submit(&scheduler, command, &json!({}));
    scheduler.output_with(&id, "stdout", "line 9\n");
    engine.end(Signal::SIGKILL);
    engine.restart();
    let report = scheduler.report_of(&id);
    assert_eq!((report.kind, report.exit_code), (ReportKind::Failed, Some(5)), "{report:?}");
    for (stream, word) in [("stdout", "line"), ("stderr", "word")] {
        let expected: Vec<String> = (1..=60).map(|number| format!("{word} {number}\n")).collect();
        let expected = expected.concat();
        assert_eq!(scheduler.output_with(&id, stream, &format!("{word} 60\n")), expected);
    }
    nothing_is_left(&engine, &worker);
}

#[test]
fn an_engine_that_hangs_keeps_no_job_alive() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::start(&[]));
    let worker = contained_worker(&scheduler, &engine, &["--workers=1"]);
    let id =
        submit(&scheduler, "echo begun; sleep 86313", &json!({"timeout_seconds": 3.0, "grace_seconds": 1}));
    scheduler.output_with(&id, "stdout", "begun");
    engine.signal(Signal::SIGSTOP);
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::TimedOut);
    let alive = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\086313\0"));
    assert!(!alive, "its processes are ended although the engine hangs");
    engine.signal(Signal::SIGCONT);
    // What the engine still knows goes at the latest with the next worker.
    drop(worker);
}

#[test]
fn mounts_are_those_that_the_worker_allows() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let shared = tempfile::tempdir().unwrap();
    let path = shared.path().display().to_string();
    std::fs::write(shared.path().join("in"), "here").unwrap();
    let allowed = format!("--allow-mount={path}:ro");
    let _worker = contained_worker(&scheduler, engine, &["--workers=2", &allowed]);
    let mounts = |mount: String| json!({"container": {"mounts": [mount], "read_only": true, "user": "1000"}});
    let good = submit(&scheduler, "cat /in/in; id -u; touch /x /in/x", &mounts(format!("{path}:/in:ro")));
    assert_eq!(scheduler.report_of(&good).kind, ReportKind::Failed);
    assert_eq!(scheduler.output_with(&good, "stdout", "here"), "here1000\n");
    let errors = scheduler.output_with(&good, "stderr", "/in/x");
    assert_eq!(errors.matches("Read-only file system").count(), 2, "{errors}");
    for wrong in [format!("{path}:/in"), "/etc:/in:ro".to_owned()] {
        let id = submit(&scheduler, "true", &mounts(wrong));
        let report = scheduler.report_of(&id);
        assert_eq!(report.kind, ReportKind::Failed, "{report:?}");
        assert!(report.message.unwrap_or_default().contains("mount"));
    }
}

#[test]
fn an_image_that_is_nowhere_is_told_by_who_looked() {
    let (scheduler, engine) = (Scheduler::start(), ContainerEngine::shared());
    let _worker = contained_worker(&scheduler, engine, &["--workers=1"]);
    let extra = json!({"image": "muster-none:1", "container": {"pull": "never"}});
    let id = scheduler.submit("true", &extra);
    let report = scheduler.report_of(&id);
    assert_eq!(report.kind, ReportKind::Failed);
    assert!(report.message.unwrap_or_default().contains("muster-none:1"));
}

/// A secret as it comes with a job, sealed to the key of the only worker.
fn sealed(scheduler: &Scheduler, name: &str, value: &str) -> Value {
    let key = scheduler.with(|inner| inner.registrations[0]["sealing_keys"][0].clone());
    let text = |field: &str| key[field].as_str().unwrap().to_owned();
    let public = PublicKey::announced(&text("public_key"), &text("id")).unwrap();
    let context = Context { name: name.to_owned(), queue: None, owner: None, version: 1 };
    let boxes = seal(&SecretValue::new(value.as_bytes().to_vec()), &context, &[public]).unwrap();
    json!([{"name": name, "version": 1, "boxes": boxes}])
}

#[test]
fn images_are_pulled_once_and_with_credentials() {
    let (scheduler, engine, registry) =
        (Scheduler::start(), ContainerEngine::shared(), ImageRegistry::start());
    let name = registry.push(engine, "team/app:1");
    let worker = contained_worker(&scheduler, engine, &["--workers=4"]);
    // Without credentials, and for what is not there: for good, in the words of the registry.
    let denied = scheduler.submit("true", &json!({"image": name}));
    let report = scheduler.report_of(&denied);
    assert_eq!(report.kind, ReportKind::Refused, "{report:?}");
    assert!(report.message.clone().unwrap_or_default().contains("no basic auth credentials"), "{report:?}");
    let sealed = sealed(&scheduler, "hub", &registry.credentials());
    let wanted = |image: &str| json!({"image": image, "container": {"credentials": "hub"}, "sealed": sealed});
    let none = scheduler.submit("true", &wanted(&format!("{}/team/none:1", registry.host())));
    let report = scheduler.report_of(&none);
    assert_eq!(report.kind, ReportKind::Refused, "{report:?}");
    let ids: Vec<String> = (0..4).map(|_| scheduler.submit("echo pulled", &wanted(&name))).collect();
    for id in &ids {
        let report = scheduler.report_of(id);
        assert_eq!(report.kind, ReportKind::Done, "{report:?}");
    }
    assert!(registry.manifests_given("team/app") <= 2, "one pull for all of them");
    assert!(!worker.log().contains("sesame"));
}
