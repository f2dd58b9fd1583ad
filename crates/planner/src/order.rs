//! Work that waits, and the order in which it is considered: by the rank that the policy gave it, then by age.

use muster_domain::{Entrant, JobId, PoolAt, Requirement, Timestamp, Turn, Unit, WorkerId};

/// A pending job, reduced to what placement looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub id: JobId,
    pub priority: i32,
    pub pool: PoolAt,
    /// Its place by the policy of its pool: smaller goes first.
    pub rank: i64,
    /// Order of submission: smaller is older.
    pub seq: u64,
    pub requirement: Requirement,
    /// Positions in the view's `limits` that a start counts against.
    pub limits: Vec<usize>,
    /// Workers on which it failed before: taken only when no other one asks.
    pub avoid: Vec<WorkerId>,
    /// The place of its queue in the view's ledger, where one is kept.
    pub seat: Option<usize>,
    /// Not preemptible.
    pub fixed: bool,
    /// When it will have ended if it starts now; `None` when nobody can say.
    pub ends: Option<Timestamp>,
}

impl Candidate {
    /// Sorts first what goes first.
    pub const fn key(&self) -> (Turn, JobId) {
        (self.turn(), self.id)
    }

    pub const fn turn(&self) -> Turn {
        Turn::new(self.pool, self.rank, self.seq)
    }

    pub fn entrant(&self) -> Entrant<'_> {
        Entrant {
            unit: Unit::Job(self.id),
            turn: self.turn(),
            need: &self.requirement.resources,
            ends: self.ends,
        }
    }
}
