//! Which variables a process gets in each mode: exactly these, and none of the others.

use std::collections::BTreeMap;

use muster_protocol::Job;
use serde_json::{Value, json};

use super::round::{Machine, Rendezvous, needs_local_port, own_port, rendezvous};

fn machine() -> Machine {
    Machine { cpus: 16.0, slots: 4, hostname: Some("node-a".to_owned()) }
}

fn job(extra: &Value) -> Job {
    let mut value = json!({"id": "job-1", "command": "x", "status": "running", "attempts": 1, "max_retries": 3,
        "created_at": "2026-01-01T00:00:00Z", "lease": 7});
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn peer(index: u32, worker: &str) -> Value {
    let host = format!("10.0.0.{}", worker.trim_start_matches('w'));
    let port = 20_000 + index;
    json!({"index": index, "worker_id": worker, "host": host, "port": port, "address": format!("{host}:{port}")})
}

/// A task of a gang whose tasks are on these workers.
fn task(index: u32, workers: &[&str], launch: &str, extra: &Value) -> Job {
    let peers: Vec<Value> = (0..).zip(workers).map(|(index, worker)| peer(index, worker)).collect();
    let gang = json!({"gang_id": "gang-1", "size": workers.len(), "index": index, "round": 3, "launch": launch,
        "slurm_env": extra.get("slurm_env").is_some(), "peers": peers});
    let mut job = job(extra);
    job.gang = Some(serde_json::from_value(gang).unwrap());
    job
}

fn told(job: &Job) -> Rendezvous {
    rendezvous(job, &machine(), "/home/w", Some(29_999)).unwrap()
}

fn variables(job: &Job) -> BTreeMap<String, String> {
    told(job).variables.into_iter().collect()
}

/// Compares names and values at once; `expected` is `NAME=value` in any order.
fn check(job: &Job, expected: &[&str]) {
    let found: Vec<String> =
        variables(job).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn per_node_speaks_of_nodes_only() {
    let job = task(1, &["w1", "w2", "w3"], "per_node", &json!({"resources": {"cpus": 32, "gpus": 8}}));
    check(
        &job,
        &[
            "PET_NNODES=3",
            "PET_NPROC_PER_NODE=8",
            "PET_NODE_RANK=1",
            "PET_MASTER_ADDR=10.0.0.1",
            "PET_MASTER_PORT=20000",
            "PET_MAX_RESTARTS=0",
            "MASTER_ADDR=10.0.0.1",
            "MASTER_PORT=20000",
            "NNODES=3",
            "NODE_RANK=1",
            "JAX_COORDINATOR_ADDRESS=10.0.0.1:20000",
            "OMP_NUM_THREADS=4",
        ],
    );
    let told = told(&job);
    assert_eq!(told.hostfile.as_deref(), Some("10.0.0.1 slots=8\n10.0.0.2 slots=8\n10.0.0.3 slots=8\n"));
    let facts = [("MUSTER_GANG_ID", "gang-1"), ("MUSTER_GANG_ROUND", "3")];
    assert_eq!(told.facts, facts.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn per_rank_speaks_of_ranks_only() {
    let workers = ["w2", "w1", "w2", "w1"];
    let job = task(2, &workers, "per_rank", &json!({"resources": {"cpus": 6.5, "gpus": 2}}));
    check(
        &job,
        &[
            "RANK=2",
            "WORLD_SIZE=4",
            "LOCAL_RANK=1",
            "LOCAL_WORLD_SIZE=2",
            "MASTER_ADDR=10.0.0.2",
            "MASTER_PORT=20000",
            "NNODES=2",
            "NODE_RANK=0",
            "JAX_COORDINATOR_ADDRESS=10.0.0.2:20000",
            "JAX_COORDINATOR_PORT=20000",
            "JAX_LOCAL_DEVICE_IDS=2,3",
            "OMP_NUM_THREADS=6",
        ],
    );
    assert_eq!(told(&job).hostfile.as_deref(), Some("10.0.0.2 slots=2\n10.0.0.1 slots=2\n"));
}

#[test]
fn slurm_speaks_on_request_and_only_per_rank() {
    let extra = json!({"slurm_env": true, "name": "train", "queue_name": "gpu", "array_id": "array-1",
        "array_index": 5, "started_at": "1970-01-01T00:01:40Z", "timeout_seconds": 59.5,
        "deadline": "1970-01-01T01:00:00Z", "resources": {"cpus": 4, "gpus": 1}});
    let job = task(2, &["w1", "w1", "w2"], "per_rank", &extra);
    let slurm: BTreeMap<String, String> =
        variables(&job).into_iter().filter(|(name, _)| name.starts_with("SLURM")).collect();
    let number = |name: &str| slurm[name].parse::<u32>().unwrap();
    assert!(number("SLURM_JOB_ID") > 0 && number("SLURM_ARRAY_JOB_ID") != number("SLURM_JOB_ID"));
    let rest: Vec<String> = slurm
        .iter()
        .filter(|(name, _)| !["SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        rest,
        [
            "SLURMD_NODENAME=10.0.0.2",
            "SLURM_ARRAY_TASK_ID=5",
            "SLURM_CPUS_ON_NODE=4",
            "SLURM_CPUS_PER_TASK=4",
            "SLURM_GPUS_ON_NODE=1",
            "SLURM_JOB_END_TIME=160",
            "SLURM_JOB_NAME=train",
            "SLURM_JOB_NODELIST=10.0.0.1,10.0.0.2",
            "SLURM_JOB_NUM_NODES=2",
            "SLURM_JOB_PARTITION=gpu",
            "SLURM_JOB_START_TIME=100",
            "SLURM_LAUNCH_NODE_IPADDR=10.0.0.1",
            "SLURM_LOCALID=0",
            "SLURM_NNODES=2",
            "SLURM_NODEID=1",
            "SLURM_NODELIST=10.0.0.1,10.0.0.2",
            "SLURM_NTASKS=3",
            "SLURM_NTASKS_PER_NODE=2",
            "SLURM_PROCID=2",
            "SLURM_RESTART_COUNT=2",
            "SLURM_STEP_NODELIST=10.0.0.1,10.0.0.2",
            "SLURM_SUBMIT_DIR=/home/w",
        ]
    );
    let per_node = task(0, &["w1", "w2"], "per_node", &json!({"slurm_env": true}));
    assert!(!variables(&per_node).keys().any(|name| name.starts_with("SLURM")));
}

#[test]
fn slurm_says_nothing_that_is_not_known_and_keeps_its_number_over_rounds() {
    let mut job = task(0, &["w1", "w2"], "per_rank", &json!({"slurm_env": true}));
    let number = variables(&job)["SLURM_JOB_ID"].clone();
    job.gang.as_mut().unwrap().round = 1;
    let first = variables(&job);
    assert_eq!(first["SLURM_JOB_ID"], number);
    assert_eq!((&first["SLURM_JOB_NAME"][..], &first["SLURM_CPUS_ON_NODE"][..]), ("gang-1", "4"));
    for absent in [
        "SLURM_JOBID",
        "SLURM_RESTART_COUNT",
        "SLURM_JOB_START_TIME",
        "SLURM_JOB_END_TIME",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_JOB_PARTITION",
        "SLURM_CPUS_PER_TASK",
        "SLURM_GPUS_ON_NODE",
        "SLURM_JOB_GPUS",
    ] {
        assert!(!first.contains_key(absent), "{absent}");
    }
    job.devices = serde_json::from_value(json!([{"index": 2}, {"index": 5}])).unwrap();
    let with_gpus = variables(&job);
    assert_eq!((&with_gpus["SLURM_JOB_GPUS"][..], &with_gpus["SLURM_GPUS_ON_NODE"][..]), ("2,5", "2"));
    for name in ["bash", "interactive", " Interactive "] {
        job.name = Some(name.to_owned());
        assert!(variables(&job)["SLURM_JOB_NAME"].starts_with("muster-"), "{name}");
    }
}

#[test]
fn no_mode_sets_what_belongs_to_the_other_or_to_a_launcher() {
    const LAUNCHERS_OWN: [&str; 14] = [
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "ROLE_NAME",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_ERROR_FILE",
        "TORCHELASTIC_USE_AGENT_STORE",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TF_CONFIG",
        "SLURM_JOBID",
        "SLURM_JOB_GPUS",
    ];
    for (launch, forbidden) in [
        ("per_node", &["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_"][..]),
        ("per_rank", &["PET_"][..]),
    ] {
        let job = task(0, &["w1", "w2"], launch, &json!({"slurm_env": true, "resources": {"gpus": 4}}));
        for name in variables(&job).keys() {
            assert!(!LAUNCHERS_OWN.contains(&name.as_str()), "{name} per {launch}");
            let refused = |part: &&str| name == part || (part.ends_with('_') && name.starts_with(part));
            assert!(!forbidden.iter().any(refused), "{name} per {launch}");
        }
    }
}

#[test]
fn tasks_that_stay_done_leave_no_hole() {
    let mut job = task(3, &["w1", "w2", "w3", "w4"], "per_node", &json!({}));
    let gang = job.gang.as_mut().unwrap();
    gang.peers.retain(|peer| peer.index % 2 == 1);
    let node = variables(&job);
    assert_eq!((&node["NODE_RANK"][..], &node["NNODES"][..], &node["PET_NNODES"][..]), ("1", "2", "2"));
    assert_eq!(node["MASTER_ADDR"], "10.0.0.2", "the first that starts");
    job.gang.as_mut().unwrap().launch = muster_protocol::LaunchMode::PerRank;
    let rank = variables(&job);
    assert_eq!((&rank["RANK"][..], &rank["WORLD_SIZE"][..]), ("1", "2"));
}

#[test]
fn a_job_that_is_alone_is_told_nothing_unless_it_asked_to_be_a_rank() {
    for extra in [json!({}), json!({"launch": "per_node"}), json!({"slurm_env": true})] {
        assert_eq!(rendezvous(&job(&extra), &machine(), "/", None), None);
        assert!(!needs_local_port(&job(&extra)));
    }
    let alone = job(&json!({"launch": "per_rank", "resources": {"cpus": 2}}));
    assert!(needs_local_port(&alone));
    check(
        &alone,
        &[
            "RANK=0",
            "WORLD_SIZE=1",
            "LOCAL_RANK=0",
            "LOCAL_WORLD_SIZE=1",
            "MASTER_ADDR=127.0.0.1",
            "MASTER_PORT=29999",
            "NNODES=1",
            "NODE_RANK=0",
            "JAX_COORDINATOR_ADDRESS=127.0.0.1:29999",
            "JAX_COORDINATOR_PORT=29999",
            "OMP_NUM_THREADS=2",
        ],
    );
    let slurm = variables(&job(&json!({"launch": "per_rank", "slurm_env": true, "attempts": 3})));
    assert_eq!((&slurm["SLURM_NTASKS"][..], &slurm["SLURM_RESTART_COUNT"][..]), ("1", "2"));
    assert!(told(&alone).hostfile.is_none() && told(&alone).facts.is_empty());
}

#[test]
fn threads_follow_the_cores_of_the_job_or_of_its_slot() {
    let threads = |resources: Value, machine: &Machine| {
        let job = task(0, &["w1", "w2"], "per_node", &json!({"resources": resources}));
        let told = rendezvous(&job, machine, "/", None).unwrap();
        told.variables.into_iter().find(|(name, _)| name == "OMP_NUM_THREADS").unwrap().1
    };
    assert_eq!(threads(json!({"cpus": 9.9, "gpus": 3}), &machine()), "3");
    assert_eq!(threads(json!({"cpus": 0.5}), &machine()), "1");
    assert_eq!(threads(json!({}), &machine()), "4", "16 cores for 4 slots");
    let crowded = Machine { cpus: 2.0, slots: 64, hostname: None };
    assert_eq!(threads(json!({}), &crowded), "1");
}

#[test]
fn peers_without_an_address_still_count() {
    let mut job = task(0, &["w1", "w2"], "per_rank", &json!({"slurm_env": true}));
    for peer in &mut job.gang.as_mut().unwrap().peers {
        (peer.host, peer.port, peer.address) = (String::new(), None, String::new());
    }
    let told = variables(&job);
    assert_eq!((&told["WORLD_SIZE"][..], &told["SLURM_JOB_NODELIST"][..]), ("2", "w1,w2"));
    for absent in ["MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS", "SLURM_LAUNCH_NODE_IPADDR"] {
        assert!(!told.contains_key(absent), "{absent}");
    }
}

#[test]
fn brackets_are_where_torchrun_wants_them() {
    let mut job = task(1, &["w1", "w2"], "per_node", &json!({}));
    job.gang.as_mut().unwrap().peers[0].host = "[fe80::1]".to_owned();
    let told = variables(&job);
    assert_eq!((&told["MASTER_ADDR"][..], &told["PET_MASTER_ADDR"][..]), ("fe80::1", "[fe80::1]"));
    assert_eq!(told["JAX_COORDINATOR_ADDRESS"], "[fe80::1]:20000");
}

#[test]
fn a_port_is_ours_only_on_our_worker() {
    let job = task(1, &["w1", "w2"], "per_node", &json!({}));
    assert_eq!((own_port(&job, "w2"), own_port(&job, "w1")), (Some(20_001), None));
    assert_eq!(own_port(&self::job(&json!({})), "w1"), None);
}
