//! Gangs as the API shows them, and what a claimed task learns about its peers.

use std::collections::BTreeMap;

use muster_domain as domain;
use muster_domain::{Job, Status};
use muster_protocol as wire;

use crate::clock::to_wire;

/// Where a gang stands as a whole.
pub(crate) fn state(tasks: &[Job]) -> wire::GangState {
    let any = |wanted: &[Status]| tasks.iter().any(|task| wanted.contains(&task.status()));
    let spared = |task: &Job| task.was_spared();
    if any(&[Status::Preempting, Status::Preempted]) {
        wire::GangState::Draining
    } else if any(&[Status::Reserved]) {
        wire::GangState::Starting
    } else if any(&[Status::Running, Status::Finished]) {
        wire::GangState::Running
    } else if tasks.iter().any(|task| !task.is_terminal()) {
        wire::GangState::Waiting
    } else if any(&[Status::Failed]) {
        wire::GangState::Failed
    } else if tasks.iter().any(|task| task.status() == Status::Cancelled && !spared(task)) {
        wire::GangState::Cancelled
    } else {
        wire::GangState::Done
    }
}

pub(crate) fn summary(id: domain::GangId, tasks: &[Job]) -> Option<wire::GangSummary> {
    let first = tasks.first()?;
    let spec = &first.spec;
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for task in tasks {
        *counts.entry(task.status().wire_name().to_owned()).or_default() += 1;
    }
    let blamed = |task: &&Job| !task.was_spared() && task.root_cause() == task.id;
    let reason = tasks.iter().filter(blamed).chain(tasks).find_map(Job::reason);
    Some(wire::GangSummary {
        id: id.to_string(),
        state: state(tasks),
        size: spec.gang.as_ref().map_or(0, |gang| gang.size),
        min: spec.gang.as_ref().and_then(|gang| gang.min),
        command: spec.program.to_line(),
        name: spec.name.clone(),
        queue_name: spec.queue.as_ref().map(|queue| queue.as_str().to_owned()),
        priority: spec.priority,
        rounds: tasks.iter().map(|task| task.reservation_epoch).max().unwrap_or(0),
        preemption_epoch: tasks.iter().map(|task| task.preemption_epoch).max().unwrap_or(0),
        created_at: to_wire(first.created_at),
        reason,
        tasks: counts,
    })
}

/// The facts of the round that a claimed task is part of; `None` for a job on its own.
pub(crate) fn assignment(job: &Job, peers: &[Job]) -> Option<wire::GangAssignment> {
    let gang = job.spec.gang.as_ref()?;
    let size = job.round.as_ref().map_or(gang.size, |round| round.size);
    let peer = |task: &Job| {
        let round = task.round.as_ref();
        wire::GangPeer {
            index: task.spec.gang.as_ref().map_or(0, |gang| gang.index),
            worker_id: task.worker().map(|worker| worker.as_str().to_owned()).unwrap_or_default(),
            host: round.map(|round| round.host.clone()).unwrap_or_default(),
            port: round.and_then(|round| round.port),
            address: round.map(|round| round.address.clone()).unwrap_or_default(),
            devices: task.devices.as_ref().map(|grant| grant.indices().to_vec()).unwrap_or_default(),
        }
    };
    Some(wire::GangAssignment {
        gang_id: gang.id.to_string(),
        size,
        index: gang.index,
        round: job.reservation_epoch,
        launch: match job.spec.launch.mode {
            domain::LaunchMode::PerNode => wire::LaunchMode::PerNode,
            domain::LaunchMode::PerRank => wire::LaunchMode::PerRank,
        },
        slurm_env: job.spec.launch.slurm_env,
        peers: peers.iter().map(peer).collect(),
    })
}

/// What every worker, also an old one, puts into the environment of a task.
pub(crate) fn environment(assignment: &wire::GangAssignment) -> [(String, String); 4] {
    let address = |index: u32| {
        let peer = assignment.peers.iter().find(|peer| peer.index == index);
        peer.map(|peer| peer.address.clone()).unwrap_or_default()
    };
    let peers: Vec<String> = (0..assignment.size).map(address).collect();
    [
        ("GANG_ID".to_owned(), assignment.gang_id.clone()),
        ("GANG_SIZE".to_owned(), assignment.size.to_string()),
        ("GANG_INDEX".to_owned(), assignment.index.to_string()),
        ("GANG_PEERS".to_owned(), peers.join(",")),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_domain::{EndReason, JobId, JobSpec, Needs, Phase, StopReason, Timestamp, WorkerId};

    use super::*;

    fn tasks(phases: Vec<Phase>) -> Vec<Job> {
        let spec = Arc::new(JobSpec::shell("x"));
        let task = |(index, phase): (usize, Phase)| {
            Job::new(JobId::from_random([index as u8; 16]), Arc::clone(&spec), phase, Timestamp::default())
        };
        phases.into_iter().enumerate().map(task).collect()
    }

    #[test]
    fn the_state_of_the_whole() {
        let at = Timestamp::default();
        let (worker, stop) = (WorkerId::new("w"), StopReason::Deadline);
        let blocked = || Phase::Blocked { needs: Needs::default() };
        let reserved = || Phase::Reserved { worker: worker.clone(), reserved_at: at, claim: None };
        let running = || Phase::Running { worker: None, last_heartbeat: None };
        let preempted = || Phase::Preempted { drain_started_at: at, stop: stop.clone(), finished: false };
        let done = || Phase::Done { at };
        let failed = || Phase::Failed { at, reason: EndReason::Timeout };
        let cancelled = |reason| Phase::Cancelled { at, reason };
        let cases = [
            (vec![blocked(), blocked()], wire::GangState::Waiting),
            (vec![blocked(), done()], wire::GangState::Waiting),
            (vec![reserved(), running()], wire::GangState::Starting),
            (vec![running(), done()], wire::GangState::Running),
            (vec![Phase::Finished { at }, running()], wire::GangState::Running),
            (vec![preempted(), blocked()], wire::GangState::Draining),
            (vec![done(), done()], wire::GangState::Done),
            (vec![done(), cancelled(EndReason::NotNeeded)], wire::GangState::Done),
            (vec![done(), failed()], wire::GangState::Failed),
            (vec![done(), cancelled(EndReason::Cancelled { message: None })], wire::GangState::Cancelled),
        ];
        for (phases, expected) in cases {
            let tasks = tasks(phases);
            assert_eq!(state(&tasks), expected, "{tasks:#?}");
        }
    }
}
