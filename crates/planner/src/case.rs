//! One job or gang that waits, with all that decides on its start, as a value; and the question whether it would
//! start if something were different.
//!
//! Guarantee: the question is answered by the placement that starts work, not by a second set of rules.

use std::borrow::Cow;
use std::collections::HashMap;

use muster_domain::{JobId, Queue, QueueName, Reason, Requirement, Timestamp, Unit, WorkerId};

use crate::fit::WorkerView;
use crate::gang::{GangCandidate, place_gangs};
use crate::order::Candidate;
use crate::place::{View, place};
use crate::policy::{Policies, Policy};
use crate::prospect::Occupant;
use crate::quota::{Held, Ledger};

/// Workers with room that are looked at for a job outside gangs: any of them would do.
const LOOKED_AT: usize = 32;

/// What bounds starts apart from room and quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    Paused {
        queue: QueueName,
    },
    /// So many may start now, and enough of them at the time given.
    Rate {
        queue: QueueName,
        left: u32,
        until: Timestamp,
    },
    Running {
        queue: QueueName,
        running: u32,
        limit: u32,
    },
    UserRunning {
        queue: QueueName,
        user: String,
        running: u32,
        limit: u32,
    },
    Key {
        key: String,
        limit: u32,
        holders: Vec<JobId>,
    },
}

impl Gate {
    /// How many more jobs it lets start.
    pub fn left(&self) -> u32 {
        match self {
            Self::Paused { .. } => 0,
            Self::Rate { left, .. } => *left,
            Self::Running { running, limit, .. } | Self::UserRunning { running, limit, .. } => {
                limit.saturating_sub(*running)
            }
            Self::Key { limit, holders, .. } => limit.saturating_sub(holders.len() as u32),
        }
    }

    pub(crate) fn reason(&self) -> Reason {
        match self.clone() {
            Self::Paused { queue } => Reason::QueuePaused { queue },
            Self::Rate { queue, until, .. } => Reason::RateLimited { queue, until },
            Self::Running { queue, running, limit } => Reason::QueueRuns { queue, running, limit },
            Self::UserRunning { queue, user, running, limit } => {
                Reason::UserRuns { queue, user, running, limit }
            }
            Self::Key { key, limit, holders } => Reason::Concurrency { key, limit, holders },
        }
    }
}

/// A worker that gets no work: in quarantine until a time, or not heard of lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    pub view: WorkerView,
    pub quarantined_until: Option<Timestamp>,
}

/// Whose work it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    pub queue: Option<QueueName>,
    pub user: Option<String>,
}

/// What stands before a unit apart from room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facing {
    pub gates: Vec<Gate>,
    /// The queues that its quota depends on, and what runs in them.
    pub queues: Vec<Queue>,
    pub held: Vec<Held>,
}

/// A unit that waits, and its surroundings.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its limits and its seat are those of this case, whatever it says of them.
    pub unit: GangCandidate,
    pub queue: Option<QueueName>,
    pub gates: Vec<Gate>,
    /// The queues that its quota depends on, and what runs in them.
    pub queues: Vec<Queue>,
    pub held: Vec<Held>,
    /// The workers that get work.
    pub workers: Vec<WorkerView>,
    pub aside: Vec<Aside>,
    /// Who is on `workers`.
    pub occupants: Vec<Occupant>,
    pub owners: HashMap<Unit, Owner>,
    /// The end of some of them is only what runs before let expect.
    pub by_history: bool,
    pub policies: Policies,
    pub now: Timestamp,
}

impl Case {
    /// A case without gates and quotas.
    pub fn new(unit: GangCandidate, workers: Vec<WorkerView>, now: Timestamp) -> Self {
        Self {
            unit,
            queue: None,
            gates: Vec::new(),
            queues: Vec::new(),
            held: Vec::new(),
            workers,
            aside: Vec::new(),
            occupants: Vec::new(),
            owners: HashMap::new(),
            by_history: false,
            policies: Policies::default(),
            now,
        }
    }

    /// The surroundings of nobody in particular.
    pub fn around(workers: Vec<WorkerView>, now: Timestamp) -> Self {
        let nobody = Unit::Job(JobId::from_random([0; 16]));
        Self::new(GangCandidate::plain(nobody, 0, 1, Requirement::default()), workers, now)
    }

    /// The policy that decides on it.
    pub(crate) fn policy(&self) -> &Policy {
        self.policies.at(self.unit.pool)
    }

    /// Puts it before these gates.
    pub fn face(&mut self, facing: Facing) {
        (self.gates, self.queues, self.held) = (facing.gates, facing.queues, facing.held);
    }

    /// Whether it would start as it is, on workers that ask for work.
    pub fn fits(&self) -> bool {
        self.trial().place().is_some()
    }

    /// The case as it is.
    pub(crate) fn trial(&self) -> Trial<'_> {
        let mut trial = Trial {
            unit: self.unit.clone(),
            limits: self.gates.iter().map(Gate::left).collect(),
            ledger: None,
            workers: Cow::Borrowed(&self.workers),
            policies: &self.policies,
        };
        trial.unit.limits = (0..trial.limits.len()).collect();
        trial.under(self.queue.as_ref(), self.ledger(&self.queues));
        trial
    }

    /// What the queues have and use, if they are as given.
    pub(crate) fn ledger(&self, queues: &[Queue]) -> Option<Ledger> {
        self.queue.as_ref().filter(|_| !queues.is_empty()).map(|_| Ledger::new(queues, &self.held))
    }

    /// The gates that do not let the fewest jobs start that make a start.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (usize, &Gate)> {
        self.gates.iter().enumerate().filter(|(_, gate)| gate.left() < self.unit.fewest())
    }
}

/// The case with something changed.
#[derive(Debug, Clone)]
pub(crate) struct Trial<'c> {
    pub(crate) unit: GangCandidate,
    pub(crate) limits: Vec<u32>,
    ledger: Option<Ledger>,
    pub(crate) workers: Cow<'c, [WorkerView]>,
    policies: &'c Policies,
}

impl Trial<'_> {
    pub(crate) fn under(&mut self, queue: Option<&QueueName>, ledger: Option<Ledger>) {
        self.unit.seat = ledger.as_ref().and_then(|ledger| ledger.seat(queue));
        self.ledger = ledger.filter(|_| self.unit.seat.is_some());
    }

    /// The workers that it would start on now, each once, in the order of their tasks; `None` when it would not.
    pub(crate) fn place(&self) -> Option<Vec<WorkerId>> {
        let places = match self.unit.unit {
            Unit::Job(id) => vec![self.place_one(id)?],
            Unit::Gang(_) => self.place_gang()?,
        };
        let mut names: Vec<WorkerId> = places;
        names.dedup();
        Some(names)
    }

    /// Whether gates and quota let it start, wherever there is room.
    pub(crate) fn may_start(&self) -> bool {
        let fewest = self.unit.fewest();
        let quota = self.ledger.as_ref().zip(self.unit.seat).map(|(ledger, seat)| {
            ledger.room(seat, &ledger.row(&self.unit.requirement.resources), self.unit.fixed)
        });
        self.limits.iter().copied().chain(quota).all(|left| left >= fewest)
    }

    fn place_one(&self, id: JobId) -> Option<WorkerId> {
        let unit = &self.unit;
        let candidate = Candidate {
            id,
            priority: unit.priority,
            pool: unit.pool,
            rank: unit.rank,
            seq: unit.seq,
            requirement: unit.requirement.clone(),
            limits: unit.limits.clone(),
            avoid: unit.avoid.clone(),
            seat: unit.seat,
            fixed: unit.fixed,
            ends: unit.ends,
        };
        let takes = |worker: &&WorkerView| {
            worker.id.is_some()
                && worker.has_room_for(&unit.requirement)
                && worker.admits(&candidate.entrant())
        };
        let workers: Vec<WorkerView> = self
            .workers
            .iter()
            .filter(takes)
            .take(LOOKED_AT)
            .map(|worker| WorkerView { wants: 1, ..worker.clone() })
            .collect();
        let view = View {
            workers,
            candidates: vec![candidate],
            limits: self.limits.clone(),
            ledger: self.ledger.clone(),
        };
        let placed = place(&view, self.policies).pop()?;
        view.workers[placed.worker].id.clone()
    }

    fn place_gang(&self) -> Option<Vec<WorkerId>> {
        // Which domains must take part hangs on workers without room too.
        let all = self.unit.topology.as_ref().is_some_and(|topology| topology.required);
        let roomy: Vec<WorkerView> = self
            .workers
            .iter()
            .filter(|worker| all || worker.has_room_for(&self.unit.requirement))
            .cloned()
            .collect();
        let gangs = std::slice::from_ref(&self.unit);
        let placed = place_gangs(&roomy, &self.limits, self.ledger.as_ref(), gangs, self.policies).pop()?;
        placed.workers.into_iter().map(|at| roomy[at].id.clone()).collect()
    }
}
