//! The variables that Slurm would set, for programs that look for them; only on request, and only per rank.
//!
//! `SLURM_JOBID`, the old spelling, is never set: Open MPI takes it as the word to start everything by `srun`.
//! What is not known is left out rather than made up: `SLURM_JOB_GPUS` where a worker only counts its GPUs.

use std::net::IpAddr;

use muster_protocol::Job;

use super::round::{Machine, Share, Variables};
use super::topology::Topology;
use crate::visible_devices::visible;

/// Job names by which Lightning knows a session that somebody types in, where it starts its own ranks.
const INTERACTIVE: [&str; 2] = ["bash", "interactive"];

/// One task of a round, as Slurm would see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) job: &'a Job,
    /// The gang, or the job where there is none: the same over all rounds.
    pub(super) id: &'a str,
    /// How often it was started before.
    pub(super) restarts: u32,
    pub(super) directory: &'a str,
}

pub(super) fn variables(step: Step<'_>, place: &Topology<'_>, share: &Share, machine: &Machine) -> Variables {
    let mut variables = Variables::default();
    let names: Vec<&str> = place.nodes.iter().map(super::topology::Node::name).collect();
    let (list, local) = (names.join(","), place.local_size() as u64);
    variables.set("SLURM_JOB_ID", number_of(step.id));
    variables.set("SLURM_NTASKS", place.peers.len());
    variables.set("SLURM_PROCID", place.rank);
    variables.set("SLURM_LOCALID", place.local_rank);
    variables.set("SLURM_NODEID", place.node_rank);
    // Where the nodes differ, no single number is right; the largest is what was asked for.
    variables.set_known("SLURM_NTASKS_PER_NODE", place.nodes.iter().map(|node| node.tasks).max());
    for name in ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"] {
        variables.set(name, place.nodes.len());
    }
    for name in ["SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"] {
        variables.set(name, &list);
    }
    variables.set("SLURM_JOB_NAME", job_name(step));
    variables.set_known("SLURM_JOB_PARTITION", step.job.queue_name.as_ref());
    variables.set_known("SLURM_CPUS_PER_TASK", share.asked_cpus.then(|| share.threads(1)));
    variables.set("SLURM_CPUS_ON_NODE", share.cpus_of(local));
    let gpus = (share.gpus * local).max(visible(step.job).len() as u64);
    variables.set_known("SLURM_GPUS_ON_NODE", (gpus > 0).then_some(gpus));
    let seen: Vec<String> = visible(step.job).iter().map(ToString::to_string).collect();
    variables.set_known("SLURM_JOB_GPUS", (!seen.is_empty()).then(|| seen.join(",")));
    variables.set("SLURM_SUBMIT_DIR", step.directory);
    variables.set("SLURMD_NODENAME", node_name(place, machine));
    let first = place.meeting_point().and_then(|point| point.host.parse::<IpAddr>().ok());
    variables.set_known("SLURM_LAUNCH_NODE_IPADDR", first);
    variables.set_known("SLURM_RESTART_COUNT", (step.restarts > 0).then_some(step.restarts));
    array(&mut variables, step.job);
    times(&mut variables, step.job);
    variables
}

fn array(variables: &mut Variables, job: &Job) {
    if let (Some(array), Some(index)) = (&job.array_id, job.array_index) {
        variables.set("SLURM_ARRAY_JOB_ID", number_of(array));
        variables.set("SLURM_ARRAY_TASK_ID", index);
    }
}

/// Seconds since 1970. The end is when the attempt is stopped, if it is still running then.
fn times(variables: &mut Variables, job: &Job) {
    let Some(started) = job.started_at else { return };
    let start = started.as_second();
    variables.set("SLURM_JOB_START_TIME", start);
    let timeout = job.timeout_seconds.filter(|seconds| *seconds > 0.0);
    let mut end = timeout.map_or(i64::MAX, |seconds| start.saturating_add(seconds.ceil() as i64));
    if let Some(deadline) = job.deadline {
        end = end.min(deadline.as_second());
    }
    variables.set_known("SLURM_JOB_END_TIME", (end < i64::MAX).then_some(end));
}

/// A number that fits wherever Slurm's own do, and is never 0. The same id always has the same number.
fn number_of(id: &str) -> u32 {
    // FNV-1a, folded to 31 bits.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash ^ (hash >> 32)) as u32 & 0x7fff_ffff).max(1)
}

fn job_name(step: Step<'_>) -> String {
    let name = step.job.name.as_deref().or(step.job.step.as_deref()).unwrap_or(step.id);
    if INTERACTIVE.iter().any(|taken| name.trim().eq_ignore_ascii_case(taken)) {
        return format!("muster-{}", name.trim());
    }
    name.to_owned()
}

/// The entry of this task's node in the lists.
fn node_name<'a>(place: &Topology<'a>, machine: &'a Machine) -> &'a str {
    match (place.nodes[place.node_rank].name(), machine.hostname.as_deref()) {
        ("", Some(hostname)) => hostname,
        (name, _) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_positive_and_differ() {
        assert_eq!(number_of("gang-1"), number_of("gang-1"));
        assert_ne!(number_of("gang-1"), number_of("gang-2"));
        assert!((0..1000).all(|index| (1..=0x7fff_ffff).contains(&number_of(&index.to_string()))));
    }
}
