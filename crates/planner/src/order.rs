//! The order in which work is considered: priority, then age. Gangs may be asked for by size instead.

use std::cmp::Reverse;

use muster_domain::{Entrant, JobId, Requirement, Timestamp, Turn, Unit, WorkerId};
use serde::{Deserialize, Serialize};

/// Which of several waiting gangs goes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Priority, then age, whatever their size. Room is kept for a gang that does not fit.
    #[default]
    Turn,
    /// The one with most tasks, then priority, then age. Small gangs may starve.
    LargestGang,
}

/// A pending job, reduced to what placement looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub id: JobId,
    pub priority: i32,
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
    pub fn key(&self) -> (Reverse<i32>, u64, JobId) {
        (Reverse(self.priority), self.seq, self.id)
    }

    pub fn entrant(&self) -> Entrant<'_> {
        Entrant {
            unit: Unit::Job(self.id),
            turn: Turn::new(self.priority, self.seq),
            need: &self.requirement.resources,
            ends: self.ends,
        }
    }
}
