//! The order in which jobs are considered: priority, then age.

use std::cmp::Reverse;

use muster_domain::{JobId, Requirement, WorkerId};

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
}

impl Candidate {
    /// Sorts first what goes first.
    pub fn key(&self) -> (Reverse<i32>, u64, JobId) {
        (Reverse(self.priority), self.seq, self.id)
    }
}
