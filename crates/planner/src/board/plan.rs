//! What a pass decided.

use muster_domain::Timestamp;

use super::ids::{NodeId, UnitId};
pub use crate::policy::Cause;

/// A unit that starts. Where, the board says: [`super::Board::places`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub unit: UnitId,
    /// Those that must have let go of their places before.
    pub after: Vec<UnitId>,
}

/// A unit that gives way to another one. It waits again, with its age, level and past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub unit: UnitId,
    pub for_whom: UnitId,
    pub cause: Cause,
}

/// Room that is kept for a unit that does not fit yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub unit: UnitId,
    /// When it will start if estimates hold; `None` while nobody knows.
    pub at: Option<Timestamp>,
    /// The nodes that it counts on.
    pub nodes: Vec<NodeId>,
}

/// All that a pass decided, in the order in which it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub stops: Vec<Stop>,
    pub starts: Vec<Start>,
    /// When time alone may change the decisions: look again then.
    pub look_again: Option<Timestamp>,
}

impl Plan {
    /// Asks for a pass at a time, unless one comes earlier anyway.
    pub(crate) fn look_again_at(&mut self, at: Timestamp, now: Timestamp) {
        if at > now {
            self.look_again = Some(self.look_again.map_or(at, |known| known.min(at)));
        }
    }
}
