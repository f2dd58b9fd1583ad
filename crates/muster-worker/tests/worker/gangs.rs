//! What the tasks of a gang are told, the ports that are kept for them, and claims whose answer is lost.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};

use muster_protocol::ReportKind;
use serde_json::{Value, json};

use crate::process::{Worker, eventually};
use crate::scheduler::{Happened, LostBy, Scheduler};

/// What the worker inherited from a launcher and was told to pass on.
const PASS: &str = "--pass-env=RANK,WORLD_SIZE,LOCAL_RANK,SLURM_JOB_ID,PET_NNODES";

/// Listens on the port of its task until the test lets it go on.
const LISTEN: &str = "import os, socket, time\n\
    s = socket.socket(); s.bind(('', int(os.environ['MASTER_PORT']))); s.listen(); print('listening', flush=True)\n\
    while not os.path.exists(os.environ['GO_ON']): time.sleep(0.02)";

/// The task with this index of a gang of two, of which the second is elsewhere.
fn task(worker: &str, index: u32, port: u16, extra: &Value) -> Value {
    let launch = extra.get("launch").cloned().unwrap_or(json!("per_node"));
    let peers = json!([
        {"index": 0, "worker_id": worker, "host": "127.0.0.1", "port": port, "address": format!("127.0.0.1:{port}")},
        {"index": 1, "worker_id": "elsewhere", "host": "10.0.0.9", "port": 29_000, "address": "10.0.0.9:29000"},
    ]);
    let mut job = json!({"gang": {"gang_id": "gang-7", "size": 2, "index": index, "round": 2, "launch": launch,
            "slurm_env": extra.get("slurm_env").is_some(), "peers": peers},
        "env": {"GANG_ID": "gang-7", "GANG_SIZE": "2", "GANG_INDEX": index.to_string(),
            "GANG_PEERS": format!("127.0.0.1:{port},10.0.0.9:29000")}});
    let own = job.as_object_mut().unwrap();
    for (name, value) in extra.as_object().unwrap() {
        match (own.get_mut(name), value) {
            (Some(Value::Object(before)), Value::Object(more)) => before.extend(more.clone()),
            _ => {
                own.insert(name.clone(), value.clone());
            }
        }
    }
    job
}

/// The environment of a job that prints it.
fn environment(scheduler: &Scheduler, extra: &Value) -> BTreeMap<String, String> {
    let mut extra = extra.clone();
    extra["argv"] = json!(["env"]);
    let id = scheduler.submit("", &extra);
    scheduler.report_of(&id);
    let output = scheduler.output_with(&id, "stdout", "MUSTER_JOB_ID");
    output.lines().filter_map(|line| line.split_once('=')).map(|(a, b)| (a.into(), b.into())).collect()
}

/// What a job has in its environment besides what any job has there.
fn added(scheduler: &Scheduler, extra: &Value) -> Vec<String> {
    let plain = environment(scheduler, &json!({}));
    let found = environment(scheduler, extra);
    let new = found.iter().filter(|(name, _)| !plain.contains_key(*name));
    new.map(|(name, value)| format!("{name}={value}")).collect()
}

fn kept_ports(scheduler: &Scheduler) -> Vec<u16> {
    scheduler.until("a registration", |inner| {
        let body = inner.registrations.last()?;
        serde_json::from_value(body["ports"].clone()).ok()
    })
}

#[test]
fn a_task_sees_exactly_the_variables_of_its_mode() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=2", "--worker-id=w", "--cpus=8"]);
    let resources = json!({"cpus": 6, "gpus": 3});
    let per_node = task("w", 0, 20_001, &json!({"resources": resources}));
    let mut found = added(&scheduler, &per_node);
    let hostfile = found.iter().position(|line| line.starts_with("MUSTER_HOSTFILE=/")).unwrap();
    found.remove(hostfile);
    let mut expected = vec![
        "GANG_ID=gang-7",
        "GANG_INDEX=0",
        "GANG_PEERS=127.0.0.1:20001,10.0.0.9:29000",
        "GANG_SIZE=2",
        "JAX_COORDINATOR_ADDRESS=127.0.0.1:20001",
        "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=20001",
        "MUSTER_GANG_ID=gang-7",
        "MUSTER_GANG_ROUND=2",
        "NNODES=2",
        "NODE_RANK=0",
        "OMP_NUM_THREADS=2",
        "PET_MASTER_ADDR=127.0.0.1",
        "PET_MASTER_PORT=20001",
        "PET_MAX_RESTARTS=0",
        "PET_NNODES=2",
        "PET_NODE_RANK=0",
        "PET_NPROC_PER_NODE=3",
    ];
    assert_eq!(found, expected);

    let per_rank = task("w", 0, 20_001, &json!({"resources": resources, "launch": "per_rank"}));
    let found = added(&scheduler, &per_rank);
    expected.retain(|line| !line.starts_with("PET_") && !line.starts_with("OMP_"));
    expected.extend([
        "JAX_COORDINATOR_PORT=20001",
        "JAX_LOCAL_DEVICE_IDS=0,1,2",
        "LOCAL_RANK=0",
        "LOCAL_WORLD_SIZE=1",
        "OMP_NUM_THREADS=6",
        "RANK=0",
        "WORLD_SIZE=2",
    ]);
    expected.sort_unstable();
    let found: Vec<&String> = found.iter().filter(|line| !line.starts_with("MUSTER_HOSTFILE=")).collect();
    assert_eq!(found, expected.iter().collect::<Vec<_>>());
}

#[test]
fn what_launched_the_worker_does_not_reach_a_task_and_what_the_job_sets_wins() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1", "--worker-id=w", PASS]);
    let plain = environment(&scheduler, &json!({}));
    assert_eq!((&plain["RANK"][..], &plain["PET_NNODES"][..]), ("9", "9"), "a job that is alone gets them");
    let own = json!({"env": {"OMP_NUM_THREADS": "5", "MASTER_PORT": "1", "MUSTER_GANG_ROUND": "99"}});
    let told = environment(&scheduler, &task("w", 0, 20_001, &own));
    for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_JOB_ID"] {
        assert!(!told.contains_key(name), "{name}");
    }
    assert_eq!((&told["PET_NNODES"][..], &told["PET_MASTER_PORT"][..]), ("2", "20001"));
    assert_eq!((&told["OMP_NUM_THREADS"][..], &told["MASTER_PORT"][..]), ("5", "1"));
    assert_eq!(told["MUSTER_GANG_ROUND"], "2", "a fact");
}

#[test]
fn slurm_is_spoken_on_request_and_a_single_rank_is_a_world_of_one() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1", "--worker-id=w", PASS]);
    let asked = json!({"launch": "per_rank", "slurm_env": true, "name": "bash"});
    let told = environment(&scheduler, &task("w", 0, 20_001, &asked));
    assert_eq!(told["SLURM_JOB_NODELIST"], "127.0.0.1,10.0.0.9");
    assert_eq!((&told["SLURM_RESTART_COUNT"][..], &told["SLURM_JOB_NAME"][..]), ("1", "muster-bash"));
    assert!(told["SLURM_JOB_ID"].parse::<u32>().unwrap() > 9 && !told.contains_key("SLURM_JOBID"));

    let alone = environment(&scheduler, &json!({"launch": "per_rank"}));
    assert_eq!((&alone["RANK"][..], &alone["WORLD_SIZE"][..]), ("0", "1"));
    assert_eq!(alone["MASTER_ADDR"], "127.0.0.1");
    assert!(alone["MASTER_PORT"].parse::<u16>().unwrap() >= 1024);
    assert!(!alone.keys().any(|name| name.starts_with("SLURM") || name.starts_with("PET_")));
}

#[test]
fn the_hostfile_is_there_while_the_task_runs() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1", "--worker-id=w"]);
    let extra = task("w", 0, 20_001, &json!({"resources": {"gpus": 4}}));
    let id = scheduler.submit("cat $MUSTER_HOSTFILE; echo $MUSTER_HOSTFILE", &extra);
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    let output = scheduler.output_with(&id, "stdout", ".hosts");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], ["127.0.0.1 slots=4", "10.0.0.9 slots=4"]);
    assert!(!std::path::Path::new(lines[2]).exists(), "{}", lines[2]);
}

#[test]
fn a_port_is_kept_until_its_task_starts_and_another_takes_its_place() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2", "--worker-id=w"]);
    let before = kept_ports(&scheduler);
    assert_eq!(before.len(), 8);
    for port in &before {
        assert!(TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_err(), "{port} is kept");
    }
    let go_on = worker.directory().join("go-on");
    let extra = task("w", 0, before[3], &json!({"argv": ["python3", "-c", LISTEN], "env": {"GO_ON": go_on}}));
    let id = scheduler.submit("", &extra);
    scheduler.output_with(&id, "stdout", "listening");
    let after = scheduler.until("the new list of ports", |inner| inner.ports.last().cloned());
    let mut kept = before.clone();
    kept.retain(|port| *port != before[3]);
    assert!(kept.iter().all(|port| after.contains(port)) && after.len() == 8, "{before:?} {after:?}");
    assert!(!after.contains(&before[3]));
    std::fs::write(go_on, "").unwrap();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);

    // A task of another worker, or with a port that is not kept, changes nothing.
    let lists = scheduler.with(|inner| inner.ports.len());
    for (owner, port) in [("another", after[0]), ("w", 1)] {
        let id = scheduler.submit("true", &task(owner, 0, port, &json!({})));
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
    }
    assert_eq!(scheduler.with(|inner| inner.ports.len()), lists);
    assert!(TcpListener::bind((Ipv4Addr::UNSPECIFIED, after[0])).is_err());
}

#[test]
fn the_address_is_found_unless_it_is_given_and_told_again_with_the_ports() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=1", "--worker-id=w"]);
    let first = kept_ports(&scheduler);
    assert_eq!(scheduler.with(|inner| inner.registrations[0]["exec_addr"].clone()), "127.0.0.1");
    let id = scheduler.submit("true", &task("w", 0, first[0], &json!({})));
    scheduler.report_of(&id);
    scheduler.with(|inner| inner.known.clear());
    let again = scheduler.until("another registration", |inner| inner.registrations.get(1).cloned());
    assert_eq!(again["exec_addr"], "127.0.0.1");
    let ports: Vec<u16> = serde_json::from_value(again["ports"].clone()).unwrap();
    assert!(ports.len() == 8 && !ports.contains(&first[0]) && ports.contains(&first[1]));
    drop(worker);

    let other = Scheduler::start();
    let _worker = Worker::start(&other, &["--workers=1", "--exec-addr=gpu-01:9000"]);
    kept_ports(&other);
    assert_eq!(other.with(|inner| inner.registrations[0]["exec_addr"].clone()), "gpu-01:9000");
}

#[test]
fn w32_a_claim_whose_answer_was_lost_is_asked_for_again_under_its_key() {
    for lost_by in [LostBy::Gateway, LostBy::BreakingOff] {
        let scheduler = Scheduler::start();
        scheduler.with(|inner| inner.lose_answers = vec![lost_by; 2]);
        let worker = Worker::start(&scheduler, &["--workers=1"]);
        let runs = worker.directory().join("runs");
        let id = scheduler.submit(&format!("echo run >> {}", runs.display()), &json!({}));
        assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
        let claims = scheduler.with(|inner| inner.claims.clone());
        let key = &claims[0].0;
        assert_eq!(claims, [(key.clone(), false), (key.clone(), true), (key.clone(), true)]);
        let next = scheduler.submit("true", &json!({}));
        scheduler.report_of(&next);
        let fresh = scheduler.with(|inner| inner.claims.last().cloned()).unwrap();
        assert!(fresh.0 != *key && !fresh.1, "a new claim has a new key");
        eventually("it ran once", || (std::fs::read_to_string(&runs).ok()? == "run\n").then_some(()));
    }
}

#[test]
fn a_port_is_kept_while_the_checkpoint_of_its_task_is_on_its_way() {
    let scheduler = Scheduler::start();
    let worker = Worker::start(&scheduler, &["--workers=2", "--worker-id=w"]);
    let ports = kept_ports(&scheduler);
    let go_on = worker.directory().join("go-on");
    std::fs::write(&go_on, "").unwrap();
    scheduler.with(|inner| {
        inner.hold_fetches = true;
        inner.checkpoints.insert("job-1".to_owned(), b"state".to_vec());
    });
    let extra = |port| {
        task(
            "w",
            0,
            port,
            &json!({"argv": ["python3", "-c", LISTEN], "env": {"GO_ON": go_on}, "checkpoint_bytes": 5}),
        )
    };
    let goes_on = scheduler.submit("", &extra(ports[0]));
    let stopped = scheduler.submit("", &extra(ports[1]));
    for id in [&goes_on, &stopped] {
        let fetched = |event: &Happened| matches!(event, Happened::Fetched { job_id } if job_id == id);
        scheduler
            .until("the checkpoint is asked for", |inner| inner.history.iter().any(fetched).then_some(()));
    }
    for port in &ports {
        assert!(TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_err(), "{port} is kept");
    }
    // A task that never starts needs a port no more, and nobody else was promised that one.
    scheduler.stop(&stopped, 60_000);
    assert_eq!(scheduler.report_of(&stopped).kind, ReportKind::Preempted);
    scheduler.until("the port is replaced", |inner| {
        inner
            .ports
            .last()
            .is_some_and(|kept| !kept.contains(&ports[1]) && kept.contains(&ports[0]))
            .then_some(())
    });
    scheduler.with(|inner| inner.hold_fetches = false);
    assert_eq!(scheduler.report_of(&goes_on).kind, ReportKind::Done, "it could listen");
    scheduler.until("the other is replaced", |inner| {
        inner.ports.last().is_some_and(|kept| !kept.contains(&ports[0]) && kept.len() == 8).then_some(())
    });
}

#[test]
fn the_ring_example_meets_at_kept_ports_and_goes_on_from_its_checkpoint() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=3", "--worker-id=w"]);
    let ports = kept_ports(&scheduler);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gang/ring.py");
    let saved = br#"{"step": 2, "last": 6, "sum": 21}"#.to_vec();
    // One rank is enough to know what was reached.
    scheduler.with(|inner| inner.checkpoints.insert("job-2".to_owned(), saved));
    let peers: Vec<Value> = (0..3)
        .map(|index| json!({"index": index, "worker_id": "w", "host": "127.0.0.1", "port": ports[index]}))
        .collect();
    let addresses: Vec<String> = ports[..3].iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let tasks: Vec<String> = (0..3)
        .map(|index| {
            let env = json!({"GANG_ID": "gang-7", "GANG_SIZE": "3", "GANG_INDEX": index.to_string(),
                "GANG_PEERS": addresses.join(","), "STEPS": "5"});
            let gang = json!({"gang_id": "gang-7", "size": 3, "index": index, "round": 2, "peers": peers});
            let bytes = if index == 1 { 33 } else { 0 };
            let argv = ["python3", script];
            scheduler.submit("", &json!({"argv": argv, "env": env, "gang": gang, "checkpoint_bytes": bytes}))
        })
        .collect();
    for id in &tasks {
        let output = scheduler.output_with(id, "stdout", "up to 15 is 120\n");
        assert!(output.contains("starts at step 2 with 21"), "{output}");
        assert_eq!(scheduler.report_of(id).kind, ReportKind::Done);
        let left = scheduler.with(|inner| inner.checkpoints[id].clone());
        assert_eq!(
            serde_json::from_slice::<Value>(&left).unwrap(),
            json!({"step": 5, "last": 15, "sum": 120})
        );
    }
}
