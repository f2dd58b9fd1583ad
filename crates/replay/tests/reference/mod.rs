//! Traces and figures for the tests of the replay.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed")]
#![allow(dead_code, reason = "each test uses its part")]

use std::path::PathBuf;
use std::process::Command;

use muster_domain::{Resources, Span, Timestamp};
use muster_planner::policy::{Policy, PolicyName};
use muster_replay::{Cluster, NodeGroup, Outcome, Settings, TraceJob, Workload, replay};

/// The text of a trace; `None`, and a loud word, when it is not there.
pub(crate) fn trace(name: &str) -> Option<String> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let default = || here.join("../../../shared/traces");
    let folder = std::env::var_os("MUSTER_TRACES").map_or_else(default, PathBuf::from);
    let path = folder.join(name);
    if !path.exists() {
        eprintln!(
            "NOT RUN: this test needs the trace {name}, and there is no {}. Put it there, or say with \
             MUSTER_TRACES in which folder it is.",
            path.display()
        );
        return None;
    }
    let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().expect("gzip is installed");
    assert!(unpacked.status.success(), "{} cannot be unpacked", path.display());
    Some(String::from_utf8(unpacked.stdout).expect("a trace is plain text"))
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

fn number(field: &str) -> u32 {
    field.parse().expect("a number")
}

fn job(submit: u32, run: u32, tasks: u32, need: Resources) -> TraceJob {
    TraceJob {
        submit: Timestamp::default() + Span::from_secs(submit),
        run: Span::from_secs(run),
        limit: None,
        tasks,
        need,
        queue: 0,
        user: 0,
        priority: 0,
        preemptible: true,
    }
}

pub(crate) fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

pub(crate) fn cpus(cpus: u64) -> Resources {
    Resources { cpu_millis: cpus * 1000, ..Resources::default() }
}

/// KTH-SP2: processors and users' limits.
pub(crate) fn kth() -> Option<Workload> {
    let text = trace("kth_sp2.csv.gz")?;
    let of_row = |row: Vec<&str>| TraceJob {
        limit: Some(Span::from_secs(number(row[2]))),
        ..job(number(row[0]), number(row[1]), number(row[3]), cpus(1))
    };
    Some(workload(rows(&text).map(of_row).collect()))
}

/// Philly: tasks of up to 8 GPUs, or single GPUs when the pool is one.
pub(crate) fn philly(pooled: bool) -> Option<Workload> {
    let text = trace("philly.csv.gz")?;
    let mut queues = Vec::new();
    let of_row = |row: Vec<&str>| {
        let (tasks, each) = (number(row[2]), number(row[3]));
        let (tasks, each) = if pooled { (tasks * each, 1) } else { (tasks, each) };
        let queue = queues.iter().position(|queue| queue == row[4]).unwrap_or_else(|| {
            queues.push(row[4].to_owned());
            queues.len() - 1
        }) as u32;
        TraceJob { queue, ..job(number(row[0]), number(row[1]), tasks, gpus(u64::from(each))) }
    };
    let jobs = rows(&text).map(of_row).collect();
    Some(Workload { jobs, queues, users: vec!["anyone".to_owned()] })
}

pub(crate) fn workload(jobs: Vec<TraceJob>) -> Workload {
    Workload { jobs, queues: vec!["all".to_owned()], users: vec!["anyone".to_owned()] }
}

pub(crate) fn cluster(count: u32, each: Resources) -> Cluster {
    Cluster { nodes: vec![NodeGroup { count, each, ..NodeGroup::default() }], ..Cluster::default() }
}

pub(crate) fn play(workload: &Workload, cluster: &Cluster, name: PolicyName, settings: &Settings) -> Outcome {
    play_policy(workload, cluster, &Policy::named(name), settings)
}

pub(crate) fn play_policy(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    settings: &Settings,
) -> Outcome {
    replay(workload, cluster, policy, settings, &mut |_| {}).expect("it can be played")
}

/// Averages over all jobs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) wait: f64,
    /// From submission to end.
    pub(crate) flow: f64,
    pub(crate) slowdown: f64,
    pub(crate) worst_slowdown: f64,
    pub(crate) worst_wait: f64,
    /// The wait of gangs of 9 to 32 GPUs.
    pub(crate) gang_wait: f64,
}

pub(crate) fn figures(workload: &Workload, outcome: &Outcome) -> Figures {
    let mut sums = Figures::default();
    let mut gangs = 0.0;
    for (job, result) in workload.jobs.iter().zip(&outcome.jobs) {
        let (run, flow) = (job.run.as_secs_f64(), result.end.since(job.submit).as_secs_f64());
        let slowdown = (flow / run.max(10.0)).max(1.0);
        sums.wait += flow - run;
        sums.flow += flow;
        sums.slowdown += slowdown;
        sums.worst_slowdown = sums.worst_slowdown.max(slowdown);
        sums.worst_wait = sums.worst_wait.max(flow - run);
        if (9..=32).contains(&(u64::from(job.tasks) * job.need.gpus)) {
            sums.gang_wait += flow - run;
            gangs += 1.0;
        }
    }
    let jobs = workload.jobs.len() as f64;
    Figures {
        wait: sums.wait / jobs,
        flow: sums.flow / jobs,
        slowdown: sums.slowdown / jobs,
        gang_wait: sums.gang_wait / f64::max(gangs, 1.0),
        ..sums
    }
}
