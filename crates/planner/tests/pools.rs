//! Pools whose workers nobody shares are as if each had a planner of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{
    GangId, JobId, KeptRoom, PoolAt, Requirement, Resources, Span, Timestamp, Unit, WorkerId,
};
use muster_planner::policy::{Allowances, Policies, Policy, PolicyName, Pool};
use muster_planner::{
    Candidate, GangCandidate, Occupant, Sight, View, Waiting, WorkerView, outlook, place, place_gangs,
};
use proptest::prelude::*;

const NOW: u32 = 1_000;

fn at(seconds: u32) -> Timestamp {
    Timestamp::default() + Span::from_secs(seconds)
}

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn tag(pool: u16) -> BTreeSet<String> {
    BTreeSet::from([format!("pool-{pool}")])
}

/// Work that runs or waits.
#[derive(Debug, Clone, Copy)]
struct Work {
    number: u8,
    pool: u16,
    priority: i32,
    gpus: u64,
    tasks: u32,
    length: Option<u32>,
}

/// Two pools of two workers with eight GPUs each, what runs on each worker, and what waits.
#[derive(Debug, Clone)]
struct Cluster {
    policies: [PolicyName; 2],
    runs: Vec<Option<Work>>,
    waits: Vec<Work>,
    by_level: bool,
}

fn any_work(number: u8, pool: Option<u16>) -> impl Strategy<Value = Work> {
    let length = prop::option::of(1_u32..200);
    let pool = pool.map_or((0_u16..2).boxed(), |pool| Just(pool).boxed());
    (pool, -2_i32..3, 1_u64..9, 1_u32..3, length).prop_map(move |(pool, priority, gpus, tasks, length)| {
        Work { number, pool, priority, gpus, tasks, length }
    })
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    let name = || prop::sample::select(PolicyName::ALL.to_vec());
    let runs: Vec<_> =
        (0..4_u8).map(|on| prop::option::of(any_work(100 + on, Some(u16::from(on) / 2)))).collect();
    let waits = prop::collection::vec(any_work(0, None), 0..8);
    (name(), name(), runs, waits, any::<bool>()).prop_map(|(one, other, runs, waits, by_level)| {
        let waits = waits.into_iter().enumerate();
        let waits = waits.map(|(at, work)| Work { number: at as u8, ..work }).collect();
        Cluster { policies: [one, other], runs, waits, by_level }
    })
}

impl Cluster {
    fn policy(&self, pool: u16) -> Policy {
        let name = self.policies[usize::from(pool)];
        Policy { name, preempt_by_level: self.by_level, ..Policy::default() }
    }

    fn both(&self) -> Policies {
        let pool = |at: u16| Pool { name: at.to_string(), tags: tag(at), policy: self.policy(at) };
        Policies::new(Policy::default(), vec![pool(0), pool(1)]).unwrap()
    }

    /// The cluster without the other pool.
    fn only(&self, pool: u16) -> Self {
        let runs = self.runs.iter().map(|work| work.filter(|work| work.pool == pool)).collect();
        let waits = self.waits.iter().copied().filter(|work| work.pool == pool).collect();
        Self { runs, waits, ..self.clone() }
    }

    /// Those of one pool, or of both.
    fn workers(&self, pool: Option<u16>, kept: &BTreeMap<usize, KeptRoom>) -> Vec<WorkerView> {
        let on = (0..4).filter(|on| pool.is_none_or(|pool| usize::from(pool) == on / 2));
        let view = |on: usize| {
            let held = self.runs[on].map_or(0, |work| work.gpus);
            WorkerView {
                id: Some(WorkerId::new(format!("w{on}"))),
                total: Some(gpus(8)),
                used: gpus(held),
                running: u32::from(held > 0),
                tags: tag((on / 2) as u16),
                wants: 4,
                kept: kept.get(&on).cloned(),
                ..WorkerView::default()
            }
        };
        on.map(view).collect()
    }

    fn occupants(&self, from: usize, pool: impl Fn(u16) -> PoolAt) -> Vec<Occupant> {
        let there = self.runs.iter().enumerate().filter_map(|(on, work)| Some((on, (*work)?)));
        there
            .map(|(on, work)| Occupant {
                worker: on - from,
                held: gpus(work.gpus),
                devices: None,
                ends: work.length.map(|length| at(NOW + length)),
                unit: work.unit(false),
                pool: pool(work.pool),
                priority: work.priority,
                seat: None,
                since: Some(at(0)),
                ready: at(0),
                saved: None,
                stopping: false,
                preemptible: true,
                level: (work.gpus % 3) as u8,
                pinned: false,
            })
            .collect()
    }

    fn gangs(&self, pool: impl Fn(u16) -> PoolAt) -> Vec<GangCandidate> {
        self.waits.iter().map(|work| work.gang(pool(work.pool))).collect()
    }

    fn waiting(&self, pool: impl Fn(u16) -> PoolAt) -> Vec<Waiting> {
        let waiting = |unit| Waiting { unit, since: at(0), level: 0, stopped_for: None };
        self.gangs(pool).into_iter().map(waiting).collect()
    }
}

impl Work {
    fn unit(self, gang: bool) -> Unit {
        let bytes = [self.number; 16];
        if gang { Unit::Gang(GangId::from_random(bytes)) } else { Unit::Job(JobId::from_random(bytes)) }
    }

    fn requirement(self) -> Requirement {
        Requirement { resources: gpus(self.gpus), tags: tag(self.pool), ..Requirement::default() }
    }

    fn gang(self, pool: PoolAt) -> GangCandidate {
        GangCandidate {
            unit: self.unit(true),
            tasks: self.tasks,
            least: self.tasks,
            per_worker: 1,
            priority: self.priority,
            pool,
            rank: -i64::from(self.priority),
            seq: u64::from(self.number),
            requirement: self.requirement(),
            limits: Vec::new(),
            avoid: Vec::new(),
            ends: self.length.map(|length| at(NOW + length)),
            seat: None,
            fixed: false,
            topology: None,
        }
    }

    fn single(self, pool: PoolAt) -> Candidate {
        let gang = self.gang(pool);
        Candidate {
            id: JobId::from_random([self.number; 16]),
            priority: gang.priority,
            pool,
            rank: gang.rank,
            seq: gang.seq,
            requirement: gang.requirement,
            limits: Vec::new(),
            avoid: Vec::new(),
            seat: None,
            fixed: false,
            ends: gang.ends,
        }
    }
}

/// What was decided: who stops for whom, which room is kept for whom until when, and who starts where.
type Decided = (BTreeSet<(Unit, Unit)>, BTreeMap<usize, (Unit, Option<Timestamp>)>, BTreeSet<(u8, String)>);

/// A look, then singles and gangs that come to the workers as it left them. `from` is the first worker.
fn decide(
    cluster: &Cluster,
    policies: &Policies,
    pool: Option<u16>,
    place_of: impl Fn(u16) -> PoolAt,
) -> Decided {
    let from = pool.map_or(0, |pool| usize::from(pool) * 2);
    let workers = cluster.workers(pool, &BTreeMap::new());
    let mut allowances = Allowances::default();
    for at_pool in policies.all() {
        // As much for each pool, whoever else there is.
        allowances.of_mut(at_pool).fill(16_000 * 16, 40, at(NOW));
    }
    let occupants = cluster.occupants(from, &place_of);
    let sight = Sight { workers: &workers, occupants: &occupants, ledger: None, allowances: &allowances };
    let found = outlook(sight, &cluster.waiting(&place_of), policies, at(NOW));
    let rooms: BTreeMap<usize, KeptRoom> =
        found.rooms.into_iter().map(|(on, room)| (on + from, room)).collect();
    let workers = cluster.workers(pool, &rooms);
    let mut starts = BTreeSet::new();
    let name = |on: usize| workers[on].id.clone().unwrap().into_string();
    let candidates = cluster.waits.iter().map(|work| work.single(place_of(work.pool))).collect();
    let view = View { workers: workers.clone(), candidates, limits: Vec::new(), ledger: None };
    for placed in place(&view, policies) {
        starts.insert((cluster.waits[placed.candidate].number, name(placed.worker)));
    }
    for placed in place_gangs(&workers, &[], None, &cluster.gangs(&place_of), policies) {
        for on in placed.workers {
            starts.insert((200 + cluster.waits[placed.candidate].number, name(on)));
        }
    }
    let stops = found.stops.iter().map(|stop| (stop.victim, stop.incoming)).collect();
    (stops, rooms.into_iter().map(|(on, room)| (on, (room.unit, room.until))).collect(), starts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn pools_that_share_no_worker_decide_as_if_alone(cluster in any_cluster()) {
        let together = decide(&cluster, &cluster.both(), None, PoolAt);
        let alone = |pool: u16| {
            decide(&cluster.only(pool), &cluster.policy(pool).into(), Some(pool), |_| PoolAt(0))
        };
        let (mut one, other) = (alone(0), alone(1));
        one.0.extend(other.0);
        one.1.extend(other.1);
        one.2.extend(other.2);
        prop_assert_eq!(together, one);
    }
}
