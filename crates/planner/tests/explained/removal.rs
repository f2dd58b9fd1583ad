//! The causes that a reason names taken away, and changes made as they were suggested.

use muster_domain::{Amounts, Dimension, Queue, Reason, SuggestedChange as Change, Unit};
use muster_planner::Gate;

use crate::cluster::{Cluster, NOW, Node, State, rank};

const PLENTY: u64 = 100_000;

fn open(cluster: &mut Cluster, named: impl Fn(&Gate) -> bool) {
    cluster.gates.retain(|gate| !named(gate));
}

/// Takes away what the reason names.
pub(crate) fn remove(cluster: &mut Cluster, reason: &Reason) {
    match reason {
        Reason::QueuePaused { .. } => open(cluster, |gate| matches!(gate, Gate::Paused { .. })),
        Reason::RateLimited { .. } => open(cluster, |gate| matches!(gate, Gate::Rate { .. })),
        Reason::QueueRuns { .. } => open(cluster, |gate| matches!(gate, Gate::Running { .. })),
        Reason::UserRuns { .. } => open(cluster, |gate| matches!(gate, Gate::UserRunning { .. })),
        Reason::Concurrency { .. } => open(cluster, |gate| matches!(gate, Gate::Key { .. })),
        Reason::Quota(_) => {
            let own = &mut cluster.queues[0].terms;
            (own.nominal, own.borrow) = (Some([(Dimension::MemoryMb, PLENTY)].into_iter().collect()), None);
        }
        Reason::Quarantined { worker, .. } => release(cluster, worker.as_str()),
        Reason::Busy { closest, .. } => {
            let at: usize = closest.as_str()[1..].parse().unwrap();
            cluster.jobs.retain(|job| job.node != at);
        }
        Reason::GangRoom(_) | Reason::GangDomains(_) => cluster.jobs.clear(),
        Reason::Kept { unit, .. } => forget_kept(cluster, |kept| kept == *unit),
        Reason::NoWorkers
        | Reason::Tags { .. }
        | Reason::Impossible { .. }
        | Reason::GangImpossible(_)
        | Reason::GangDomainsImpossible(_) => add_ideal_workers(cluster),
        // Nothing stands in the way: it waits for the next round, or for an ask.
        Reason::NobodyAsks { .. } | Reason::GangFits { .. } | Reason::Foreseen { .. } => {}
        other => panic!("{other:?} is not of the planner"),
    }
}

fn release(cluster: &mut Cluster, worker: &str) {
    let at: usize = worker[1..].parse().unwrap();
    cluster.nodes[at].state = State::Working;
}

fn forget_kept(cluster: &mut Cluster, named: impl Fn(Unit) -> bool) {
    for node in &mut cluster.nodes {
        node.kept = node.kept.take().filter(|kept| !named(kept.unit));
    }
}

/// Workers that could run anything, as many in each rack as there are tasks.
fn add_ideal_workers(cluster: &mut Cluster) {
    for rack in ["r1", "r2"] {
        for _ in 0..cluster.unit.tasks {
            cluster.nodes.push(Node {
                state: State::Working,
                memory: PLENTY,
                gpus: vec![PLENTY; 8],
                devices: true,
                slots: None,
                tags: vec!["a", "b"],
                rack: Some(rack),
                kept: None,
            });
        }
    }
}

/// Makes a change as it was suggested.
pub(crate) fn apply(cluster: &mut Cluster, change: &Change) {
    let unit = &mut cluster.unit;
    match change {
        Change::Less { dimension, to, .. } => {
            let resources = &mut unit.requirement.resources;
            match dimension {
                Dimension::MemoryMb => resources.memory_mb = *to,
                Dimension::Gpus => resources.gpus = *to,
                Dimension::VramMb => resources.vram_mb = *to,
                other => panic!("nobody asked for {other}"),
            }
        }
        Change::FewerTasks { to, .. } => unit.least = *to,
        Change::MoreOnOne { to, .. } => unit.per_worker = *to,
        Change::WithoutTags { tags } => unit.requirement.tags.retain(|tag| !tags.contains(tag)),
        Change::NotExclusive => unit.requirement.exclusive = false,
        Change::Anywhere { .. } => unit.topology.as_mut().unwrap().required = false,
        Change::TimeLimit { limit, .. } => unit.ends = Some(NOW + *limit),
        Change::Priority { to, stops, .. } => {
            (unit.priority, unit.rank) = (*to, rank(*to));
            let gone = |unit: &Unit| stops.contains(unit);
            for job in cluster.jobs.iter().filter(|job| gone(&job.unit)) {
                assert!(job.preemptible && job.priority < *to, "{job:?} may not be stopped");
            }
            cluster.jobs.retain(|job| !gone(&job.unit));
            if !stops.is_empty() {
                // The look ahead that stops them gives the room to who goes first.
                forget_kept(cluster, |_| true);
            }
        }
        Change::Preemptible => unit.fixed = false,
        Change::Resume { .. } => open(cluster, |gate| matches!(gate, Gate::Paused { .. })),
        Change::MoreRunning { user, from, to, .. } => set_limit(cluster, user.is_some(), *from, *to),
        Change::MoreOfKey { from, to, .. } => {
            for gate in &mut cluster.gates {
                if let Gate::Key { limit, .. } = gate
                    && limit == from
                {
                    *limit = *to;
                }
            }
        }
        Change::MoreQuota { borrow, amounts, .. } => {
            let to: Amounts = amounts.iter().map(|(kind, _, to)| (kind.clone(), *to)).collect();
            let Queue { terms, .. } = &mut cluster.queues[0];
            *(if *borrow { &mut terms.borrow } else { &mut terms.nominal }) = Some(to);
        }
        Change::Release { worker } => release(cluster, worker.as_str()),
    }
}

fn set_limit(cluster: &mut Cluster, of_user: bool, from: u32, to: u32) {
    for gate in &mut cluster.gates {
        match gate {
            Gate::Running { limit, .. } if !of_user && *limit == from => *limit = to,
            Gate::UserRunning { limit, .. } if of_user && *limit == from => *limit = to,
            _ => {}
        }
    }
}

/// The cluster with one step less of the change, where that is still a change.
pub(crate) fn one_step_less(cluster: &Cluster, change: &Change) -> Option<Cluster> {
    let less = match change.clone() {
        Change::Less { dimension, from, to } if to + 1 < from => Change::Less { dimension, from, to: to + 1 },
        Change::FewerTasks { from, to } if to + 1 < from => Change::FewerTasks { from, to: to + 1 },
        Change::MoreOnOne { from, to } if to > from + 1 => Change::MoreOnOne { from, to: to - 1 },
        Change::MoreRunning { queue, user, from, to } => {
            Change::MoreRunning { queue, user, from, to: to - 1 }
        }
        Change::MoreOfKey { key, from, to } => Change::MoreOfKey { key, from, to: to - 1 },
        Change::MoreQuota { queue, borrow, amounts } => {
            let amounts = amounts.into_iter().map(|(kind, from, to)| (kind, from, to - 1)).collect();
            Change::MoreQuota { queue, borrow, amounts }
        }
        _ => return None,
    };
    let mut changed = cluster.clone();
    apply(&mut changed, &less);
    Some(changed)
}
