//! Gangs whose tasks run in containers: they find each other, begin together, and go on together after one of them has died.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_tests::{
    ContainerEngine, Gang, IMAGE, Scheduler, Settings, StoreKind, Worker, WorkerSettings, until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(120);

fn worker(scheduler: &Scheduler, name: &str, engine: &ContainerEngine, shared: &Path) -> Worker {
    let settings = WorkerSettings::new(name, 1)
        .set("containers", "docker")
        .set("container-socket", &engine.socket().to_string_lossy())
        .set("allow-mount", &shared.to_string_lossy());
    Worker::start(scheduler, settings)
}

fn submit(scheduler: &Scheduler, shared: &Path, command: &str, extra: &Value) -> Gang {
    let mut request = json!({"command": command, "image": IMAGE, "gang_size": 2, "max_retries": 4,
        "container": {"mounts": [format!("{}:/shared", shared.display())]}});
    request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    scheduler.submit_gang_with(&request)
}

fn log(scheduler: &Scheduler, task: &str) -> String {
    scheduler.http().get(&format!("/jobs/{task}/logs")).expect(200).text()
}

fn await_statuses(scheduler: &Scheduler, gang: &Gang, status: &str) {
    until(&format!("the gang is {status}"), BOUND, || {
        scheduler.gang_statuses(gang).iter().all(|now| now == status)
    });
}

/// The processes that look after the containers of a task.
fn runners(task: &str) -> Vec<Pid> {
    let mark = format!("MUSTER_JOB_ID={task}");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    let has = |pid: &Pid, file: &str, part: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.split(|byte| *byte == 0).any(|word| word == part.as_bytes())
    };
    pids.filter(|pid| has(pid, "cmdline", "__container") && has(pid, "environ", &mark)).collect()
}

#[test]
fn ranks_in_containers_find_each_other() {
    let (scheduler, shared) = (Scheduler::start(StoreKind::Memory), TempDir::new().unwrap());
    let engine = ContainerEngine::shared();
    let _workers = ["w0", "w1"].map(|name| worker(&scheduler, name, engine, shared.path()));
    let command = "cmp /job/hostfile $MUSTER_HOSTFILE && wc -l < /job/hostfile; echo $RANK of $WORLD_SIZE\n\
        if [ $RANK = 0 ]; then nc -l -p $MASTER_PORT\n\
        else until echo hello from $RANK | nc $MASTER_ADDR $MASTER_PORT; do sleep 0.1; done; fi";
    let gang = submit(&scheduler, shared.path(), command, &json!({"launch": "per_rank"}));
    await_statuses(&scheduler, &gang, "done");
    let first = log(&scheduler, &gang.tasks[0]);
    assert!(first.contains("0 of 2\nhello from 1\n"), "{first}");
    let hosts = first.lines().next().unwrap().trim().parse::<usize>().unwrap();
    assert!((1..=2).contains(&hosts), "{first}");
    assert!(log(&scheduler, &gang.tasks[1]).contains("1 of 2\n"));
}

#[test]
fn no_container_of_a_gang_begins_while_an_image_is_missing() {
    let (scheduler, shared) = (Scheduler::start(StoreKind::Memory), TempDir::new().unwrap());
    let (engine, slow) = (ContainerEngine::shared(), ContainerEngine::start(&[]));
    let _workers =
        [worker(&scheduler, "w0", engine, shared.path()), worker(&scheduler, "w1", &slow, shared.path())];
    // It does not say whether it has the image.
    slow.signal(Signal::SIGSTOP);
    let gang = submit(&scheduler, shared.path(), "touch /shared/begun-$GANG_INDEX", &json!({}));
    let claimed = || scheduler.gang(&gang).iter().all(|task| task["worker_id"].is_string());
    until("both workers have their tasks", BOUND, claimed);
    std::thread::sleep(Duration::from_secs(2));
    let begun = || fs::read_dir(shared.path()).unwrap().count();
    assert_eq!(begun(), 0, "one of them waits for its image");
    slow.signal(Signal::SIGCONT);
    await_statuses(&scheduler, &gang, "done");
    assert_eq!(begun(), 2);
}

#[test]
fn a_gang_in_containers_goes_on_after_a_rank_ran_out_of_memory_and_a_runner_was_killed() {
    let settings = Settings::default().set("reaper-interval", "200ms").set("preempt-timeout", "20s");
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
    let shared = TempDir::new().unwrap();
    let engine = ContainerEngine::shared();
    let _workers = ["w0", "w1"].map(|name| worker(&scheduler, name, engine, shared.path()));
    let command = "set -o pipefail; [ -z \"$MUSTER_CHECKPOINT_FILE\" ] || echo from $(cat $MUSTER_CHECKPOINT_FILE)\n\
        trap 'echo round $MUSTER_GANG_ROUND > $MUSTER_CHECKPOINT_OUT; exit 0' TERM USR1\n\
        echo $MUSTER_GANG_ROUND >> /shared/rounds-$GANG_INDEX; n=$(wc -l < /shared/rounds-$GANG_INDEX); touch /shared/up-$n-$GANG_INDEX\n\
        until [ -e /shared/up-$n-0 ] && [ -e /shared/up-$n-1 ]; do sleep 0.05; done\n\
        [ $n = 3 ] && { echo over; exit 0; }\n\
        if [ $n-$GANG_INDEX = 1-1 ]; then sleep 1; head -c 600000000 /dev/zero | tail -c 600000000 | wc -c; exit 1; fi\n\
        while :; do sleep 0.1; done";
    let extra = json!({"resources": {"memory_mb": 64}, "grace_seconds": 15, "retry": {"oom": true}});
    let gang = submit(&scheduler, shared.path(), command, &extra);
    let up = |round: u32| {
        until(&format!("all ranks are in round {round}"), BOUND, || {
            (0..2).all(|rank| shared.path().join(format!("up-{round}-{rank}")).exists())
        });
    };
    up(1);
    // One of them wants more than it may have; both begin anew.
    up(2);
    let killed = runners(&gang.tasks[1]);
    assert_eq!(killed.len(), 1);
    kill(killed[0], Signal::SIGKILL).unwrap();
    up(3);
    await_statuses(&scheduler, &gang, "done");
    for task in &gang.tasks {
        assert!(log(&scheduler, task).contains("over\n"));
        let label = format!("label=muster.job={task}");
        assert!(
            engine.docker_says(&["ps", "--all", "--quiet", "--filter", &label]).is_empty(),
            "nothing is left"
        );
    }
    let history = scheduler.http().get(&format!("/jobs/{}/events", gang.tasks[1])).expect(200).text();
    assert!(history.contains("out of memory") && history.contains("64 MiB"), "{history}");
    assert!(log(&scheduler, &gang.tasks[0]).contains("from round "), "it goes on from its checkpoint");
}
