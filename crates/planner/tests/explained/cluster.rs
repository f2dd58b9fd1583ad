//! Small random clusters with one job or gang that waits, as plain lists; and the placement as the last word.

use std::collections::BTreeSet;

use muster_domain::{
    Amounts, Device, Dimension, GangId, Grant, JobId, KeptRoom, Queue, QueueName, Requirement, Resources,
    Span, Terms, Timestamp, Topology, TopologyMode, Unit, WorkerId,
};
use muster_planner::policy;
use muster_planner::{
    Aside, Candidate, Case, Devices, GangCandidate, Gate, Held, Ledger, Occupant, View, WorkerView, place,
    place_gangs,
};
use proptest::prelude::*;

pub(crate) const NOW: Timestamp = Timestamp::from_micros(10_000_000_000);

pub(crate) fn after(minutes: u32) -> Timestamp {
    NOW + Span::from_secs(60 * minutes)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Working,
    Quarantined,
    Offline,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) state: State,
    pub(crate) memory: u64,
    /// Memory of each GPU.
    pub(crate) gpus: Vec<u64>,
    /// GPUs are told apart.
    pub(crate) devices: bool,
    pub(crate) slots: Option<u32>,
    pub(crate) tags: Vec<&'static str>,
    pub(crate) rack: Option<&'static str>,
    pub(crate) kept: Option<KeptRoom>,
}

/// A job that runs.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) node: usize,
    pub(crate) need: Requirement,
    pub(crate) grant: Option<Grant>,
    pub(crate) ends: Option<Timestamp>,
    pub(crate) unit: Unit,
    pub(crate) priority: i32,
    pub(crate) preemptible: bool,
    pub(crate) since: Timestamp,
}

#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) jobs: Vec<Running>,
    pub(crate) unit: GangCandidate,
    pub(crate) gates: Vec<Gate>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) held: Vec<Held>,
}

/// The rank of such a priority.
pub(crate) fn rank(priority: i32) -> i64 {
    policy::rank(policy::PolicyName::Muster, policy::Standing { priority, ..policy::Standing::default() })
}

pub(crate) fn own_queue() -> QueueName {
    QueueName::new("own")
}

fn memory_and_gpus(memory_mb: u64, gpus: u64, vram_mb: u64) -> Resources {
    Resources { memory_mb, gpus, vram_mb, ..Resources::default() }
}

impl Node {
    pub(crate) fn total(&self) -> Resources {
        memory_and_gpus(self.memory, self.gpus.len() as u64, self.gpus.iter().sum())
    }

    fn view(&self, at: usize) -> WorkerView {
        let device = |(index, vram_mb): (u32, &u64)| Device { index, vram_mb: *vram_mb, ..Device::default() };
        let devices: Vec<Device> = (0..).zip(&self.gpus).map(device).collect();
        WorkerView {
            id: Some(name(at)),
            total: Some(self.total()),
            slots: self.slots,
            tags: self.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            kept: self.kept.clone(),
            devices: (self.devices && !devices.is_empty()).then(|| Devices::idle(&devices)),
            labels: self.rack.iter().map(|rack| ("rack".to_owned(), (*rack).to_owned())).collect(),
            ..WorkerView::default()
        }
    }
}

pub(crate) fn name(at: usize) -> WorkerId {
    WorkerId::new(format!("w{at}"))
}

impl Cluster {
    /// The workers with what runs on them.
    pub(crate) fn views(&self) -> Vec<WorkerView> {
        let mut views: Vec<WorkerView> =
            self.nodes.iter().enumerate().map(|(at, node)| node.view(at)).collect();
        for job in &self.jobs {
            let view = &mut views[job.node];
            view.used.add(&job.need.resources);
            view.running += 1;
            view.exclusive |= job.need.exclusive;
            if let (Some(devices), true) = (&mut view.devices, job.need.resources.gpu_need().is_some()) {
                devices.hold(job.grant.as_ref());
            }
        }
        views
    }

    pub(crate) fn case(&self) -> Case {
        let mut case = Case::new(self.unit.clone(), Vec::new(), NOW);
        let mut places = vec![usize::MAX; self.nodes.len()];
        for (at, view) in self.views().into_iter().enumerate() {
            match self.nodes[at].state {
                State::Working => {
                    places[at] = case.workers.len();
                    case.workers.push(view);
                }
                State::Quarantined => case.aside.push(Aside { view, quarantined_until: Some(after(5)) }),
                State::Offline => case.aside.push(Aside { view, quarantined_until: None }),
            }
        }
        let occupant = |job: &Running| {
            (places[job.node] != usize::MAX).then(|| Occupant {
                pool: muster_domain::PoolAt::default(),
                worker: places[job.node],
                held: job.need.resources.clone(),
                devices: job.grant.clone(),
                ends: job.ends,
                unit: job.unit,
                priority: job.priority,
                since: Some(job.since),
                ready: job.since,
                saved: None,
                stopping: false,
                preemptible: job.preemptible,
                seat: None,
                level: 0,
                pinned: false,
            })
        };
        case.occupants = self.jobs.iter().filter_map(occupant).collect();
        (case.gates, case.queues, case.held) = (self.gates.clone(), self.queues.clone(), self.held.clone());
        case.queue = (!self.queues.is_empty()).then(own_queue);
        case
    }

    /// Whether the placement starts it when every worker asks for work.
    pub(crate) fn starts(&self) -> bool {
        let workers: Vec<WorkerView> = self
            .views()
            .into_iter()
            .zip(&self.nodes)
            .filter(|(_, node)| node.state == State::Working)
            .map(|(view, _)| WorkerView { wants: 1, ..view })
            .collect();
        let ledger = (!self.queues.is_empty()).then(|| Ledger::new(&self.queues, &self.held));
        let mut unit = self.unit.clone();
        unit.limits = (0..self.gates.len()).collect();
        unit.seat = ledger.as_ref().and_then(|ledger| ledger.seat(Some(&own_queue())));
        let limits: Vec<u32> = self.gates.iter().map(Gate::left).collect();
        match unit.unit {
            Unit::Gang(_) => {
                !place_gangs(&workers, &limits, ledger.as_ref(), &[unit], &policy::Policies::default())
                    .is_empty()
            }
            Unit::Job(id) => {
                let candidates = vec![single(id, unit)];
                !place(&View { workers, candidates, limits, ledger }, &policy::Policies::default()).is_empty()
            }
        }
    }
}

fn single(id: JobId, unit: GangCandidate) -> Candidate {
    Candidate {
        id,
        priority: unit.priority,
        pool: unit.pool,
        rank: unit.rank,
        seq: unit.seq,
        requirement: unit.requirement,
        limits: unit.limits,
        avoid: unit.avoid,
        seat: unit.seat,
        fixed: unit.fixed,
        ends: unit.ends,
    }
}

// Made-up clusters.

const TAGS: [&str; 2] = ["a", "b"];

fn tags() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![2 => Just(Vec::new()), 3 => prop::sample::subsequence(TAGS.to_vec(), 0..=2)]
}

fn node() -> impl Strategy<Value = Node> {
    let state =
        prop_oneof![8 => Just(State::Working), 2 => Just(State::Quarantined), 1 => Just(State::Offline)];
    let slots = prop_oneof![3 => Just(None), 1 => (0_u32..4).prop_map(Some)];
    let rack = prop_oneof![Just(Some("r1")), Just(Some("r2")), Just(None)];
    let gpus = prop::collection::vec(prop_oneof![Just(40_u64), Just(80)], 0..4);
    let kept = prop_oneof![2 => Just(None), 1 => kept().prop_map(Some)];
    (state, 1_u64..20, gpus, any::<bool>(), slots, tags(), rack, kept).prop_map(
        |(state, memory, gpus, devices, slots, tags, rack, kept)| Node {
            state,
            memory,
            gpus,
            devices,
            slots,
            tags,
            rack,
            kept,
        },
    )
}

fn unit_that_waits(gang: bool) -> Unit {
    if gang { Unit::Gang(GangId::from_random([9; 16])) } else { Unit::Job(JobId::from_random([9; 16])) }
}

fn kept() -> impl Strategy<Value = KeptRoom> {
    let unit = prop_oneof![
        3 => Just(Unit::Gang(GangId::from_random([7; 16]))),
        1 => any::<bool>().prop_map(unit_that_waits)
    ];
    let spare = (0_u64..10, 0_u64..2, 0_u64..60).prop_map(|(m, g, v)| memory_and_gpus(m, g, v));
    let until = prop::option::of((1_u32..60).prop_map(after));
    (unit, -1_i32..3, 0_u64..20, until, spare, prop::option::of(0_u32..3)).prop_map(
        |(unit, priority, seq, until, spare, spare_slots)| KeptRoom {
            unit,
            priority,
            pool: muster_domain::PoolAt::default(),
            rank: rank(priority),
            seq,
            tasks: 1,
            resources: Resources::default(),
            until,
            spare,
            spare_slots,
        },
    )
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let gpus = prop_oneof![3 => Just((0_u64, 0_u64)), 2 => (1_u64..4, prop_oneof![Just(0_u64), Just(60)]), 1 => (Just(0_u64), 1_u64..90)];
    (0_u64..16, gpus, tags(), prop::bool::weighted(0.15)).prop_map(
        |(memory, (gpus, vram), tags, exclusive)| Requirement {
            resources: memory_and_gpus(memory, gpus, vram),
            tags: tags.into_iter().map(str::to_owned).collect(),
            exclusive,
        },
    )
}

fn unit() -> impl Strategy<Value = GangCandidate> {
    let mode = prop_oneof![Just(TopologyMode::Pack), Just(TopologyMode::Spread)];
    let topology = prop_oneof![2 => Just(None), 2 => (mode, prop::bool::weighted(0.7)).prop_map(Some)];
    let ends = prop::option::of((1_u32..60).prop_map(after));
    (
        any::<bool>(),
        requirement(),
        1_u32..5,
        0_u32..4,
        1_u32..3,
        -1_i32..3,
        topology,
        ends,
        prop::bool::weighted(0.3),
    )
        .prop_map(|(gang, requirement, tasks, fewer, per_worker, priority, topology, ends, fixed)| {
            let tasks = if gang { tasks } else { 1 };
            let topology =
                topology.map(|(mode, required)| Topology { label: "rack".to_owned(), mode, required });
            GangCandidate {
                unit: unit_that_waits(gang),
                tasks,
                least: tasks.saturating_sub(fewer).max(1),
                per_worker: if gang { per_worker } else { 1 },
                priority,
                pool: muster_domain::PoolAt::default(),
                rank: rank(priority),
                seq: 10,
                requirement,
                limits: Vec::new(),
                avoid: Vec::new(),
                ends,
                seat: None,
                fixed,
                topology: topology.filter(|_| gang),
            }
        })
}

fn gates() -> impl Strategy<Value = Vec<Gate>> {
    let queue = own_queue;
    let holders = |count: usize| (0..count).map(|at| JobId::from_random([at as u8; 16])).collect();
    let gate = prop_oneof![
        Just(Gate::Paused { queue: queue() }),
        (0_u32..6).prop_map(move |left| Gate::Rate { queue: queue(), left, until: after(1) }),
        (0_u32..4, 0_u32..8).prop_map(move |(running, limit)| Gate::Running {
            queue: queue(),
            running,
            limit
        }),
        (0_u32..4, 0_u32..8).prop_map(move |(running, limit)| Gate::UserRunning {
            queue: queue(),
            user: "ann".to_owned(),
            running,
            limit
        }),
        (0_usize..3, 1_u32..6).prop_map(move |(running, limit)| Gate::Key {
            key: "k".to_owned(),
            limit,
            holders: holders(running)
        }),
    ];
    // All have the same names here, and a job has one gate of each kind and name.
    let once = |mut gates: Vec<Gate>| {
        let mut kinds = Vec::new();
        gates.retain(|gate| {
            let kind = std::mem::discriminant(gate);
            let is_new = !kinds.contains(&kind);
            kinds.push(kind);
            is_new
        });
        gates
    };
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(gate, 1..3).prop_map(once)]
}

fn amount(memory: u64) -> Amounts {
    [(Dimension::MemoryMb, memory)].into_iter().collect()
}

type Quotas = (Vec<Queue>, Vec<Held>);

/// Two queues below one that has nothing itself; memory is what they share.
fn quotas() -> impl Strategy<Value = Quotas> {
    let limit = || prop::option::of(0_u64..20);
    let some = (0_u64..30, 0_u64..30, limit(), limit(), 0_u64..20, 0_u64..20, any::<bool>()).prop_map(
        |(own, other, borrow, lend, uses, other_uses, fixed)| {
            let queue = |name: &str, nominal: u64, borrow: Option<u64>, lend: Option<u64>| Queue {
                terms: Terms {
                    parent: Some(QueueName::new("top")),
                    nominal: Some(amount(nominal)),
                    borrow: borrow.map(amount),
                    lend: lend.map(amount),
                    ..Terms::default()
                },
                tree: Some(QueueName::new("top")),
                ..Queue::new(QueueName::new(name))
            };
            let held = |name: &str, memory: u64, fixed: bool| Held {
                queue: Some(QueueName::new(name)),
                need: memory_and_gpus(memory, 0, 0),
                fixed,
                jobs: 1,
            };
            let top = Queue { tree: Some(QueueName::new("top")), ..Queue::new(QueueName::new("top")) };
            let queues = vec![queue("own", own, borrow, None), queue("other", other, None, lend), top];
            (queues, vec![held("own", uses.min(own), fixed), held("other", other_uses.min(other), false)])
        },
    );
    prop_oneof![2 => Just((Vec::new(), Vec::new())), 1 => some]
}

#[derive(Debug, Clone)]
struct Job {
    node: prop::sample::Index,
    need: Requirement,
    ends: Option<u32>,
    unit: u8,
    priority: i32,
    preemptible: bool,
}

fn job() -> impl Strategy<Value = Job> {
    let ends = prop::option::of(1_u32..60);
    (any::<prop::sample::Index>(), requirement(), ends, 0_u8..3, -2_i32..3, prop::bool::weighted(0.8))
        .prop_map(|(node, need, ends, unit, priority, preemptible)| Job {
            node,
            need,
            ends,
            unit,
            priority,
            preemptible,
        })
}

/// A cluster in which every job that runs has room.
pub(crate) fn cluster() -> impl Strategy<Value = Cluster> {
    let nodes = prop::collection::vec(node(), 0..4);
    let jobs = prop::collection::vec(job(), 0..8);
    (nodes, jobs, unit(), gates(), quotas()).prop_map(|(nodes, jobs, unit, gates, (queues, held))| {
        let mut cluster = Cluster { nodes, jobs: Vec::new(), unit, gates, queues, held };
        if cluster.nodes.is_empty() {
            return cluster;
        }
        for job in jobs {
            let node = job.node.index(cluster.nodes.len());
            let need = Requirement { tags: BTreeSet::default(), ..job.need };
            let mut view = cluster.views().swap_remove(node);
            view.kept = None;
            if !view.has_room_for(&need) {
                continue;
            }
            let grant = view.take(&need);
            let unit = match job.unit {
                // Some run as tasks of one gang.
                0 => Unit::Gang(GangId::from_random([3; 16])),
                _ => Unit::Job(JobId::from_random([100 + cluster.jobs.len() as u8; 16])),
            };
            let gang = matches!(unit, Unit::Gang(_));
            cluster.jobs.push(Running {
                node,
                need,
                grant,
                ends: job.ends.map(after),
                unit,
                priority: if gang { 0 } else { job.priority },
                preemptible: gang || job.preemptible,
                since: NOW - Span::from_secs(3_600),
            });
        }
        cluster
    })
}
