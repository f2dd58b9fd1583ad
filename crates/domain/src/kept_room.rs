//! Room on a worker that is kept for work which goes first and does not fit yet.
//!
//! Guarantee: whoever enters such a worker is gone before the room is wanted, leaves enough of it, or goes
//! before the one that it is kept for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{GangId, JobId};
use crate::resources::Resources;
use crate::time::Timestamp;

/// What is decided upon as one: a job outside gangs, or a whole gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unit {
    #[serde(rename = "job")]
    Job(JobId),
    #[serde(rename = "gang")]
    Gang(GangId),
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => id.fmt(f),
            Self::Gang(id) => id.fmt(f),
        }
    }
}

/// The place of a pool among those that were configured; what belongs to none of them is in the pool behind the
/// last. Without any, all is in the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PoolAt(pub u16);

impl PoolAt {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    const fn is_first(&self) -> bool {
        self.0 == 0
    }
}

/// The place of a unit in the line: what sorts first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Turn {
    pool: PoolAt,
    rank: i64,
    seq: u64,
}

impl Turn {
    /// The pool, since ranks of different policies cannot be compared; the rank that the policy of the pool gives;
    /// then the order of submission. Smaller goes first.
    pub const fn new(pool: PoolAt, rank: i64, seq: u64) -> Self {
        Self { pool, rank, seq }
    }
}

/// Room that one worker keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRoom {
    pub unit: Unit,
    pub priority: i32,
    /// The pool of the unit, by whose policy others may pass.
    #[serde(default, skip_serializing_if = "PoolAt::is_first")]
    pub pool: PoolAt,
    /// The rank and the number of the unit, which say who goes before it. Rooms that were written before there
    /// were ranks let nobody go before, until the next look writes them again.
    #[serde(default)]
    pub rank: i64,
    pub seq: u64,
    /// What is kept, for so many tasks.
    pub tasks: u32,
    pub resources: Resources,
    /// When the unit is expected to start; `None` when nobody can say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What those may take that stay longer.
    #[serde(default)]
    pub spare: Resources,
    /// How many of those may come; `None` is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_slots: Option<u32>,
}

/// Somebody who would enter a worker that keeps room.
#[derive(Debug, Clone, Copy)]
pub struct Entrant<'a> {
    pub unit: Unit,
    pub turn: Turn,
    pub need: &'a Resources,
    /// When it will have ended; `None` when nobody can say.
    pub ends: Option<Timestamp>,
}

impl KeptRoom {
    /// The place in the line of the unit that it is kept for.
    pub const fn turn(&self) -> Turn {
        Turn::new(self.pool, self.rank, self.seq)
    }

    /// Whether the entrant need not care: the room is its own, it goes first, or it is gone in time.
    pub fn is_open_to(&self, entrant: &Entrant<'_>) -> bool {
        let in_time = entrant.ends.zip(self.until).is_some_and(|(ends, until)| ends <= until);
        self.unit == entrant.unit || entrant.turn < self.turn() || in_time
    }

    pub fn admits(&self, entrant: &Entrant<'_>) -> bool {
        let spare = self.spare_slots != Some(0) && entrant.need.fits_in(&self.spare);
        self.is_open_to(entrant) || spare
    }

    /// Counts one that was admitted; whether that changed anything.
    pub fn enter(&mut self, entrant: &Entrant<'_>) -> bool {
        if self.is_open_to(entrant) {
            return false;
        }
        self.spare = self.spare.minus(entrant.need);
        self.spare_slots = self.spare_slots.map(|slots| slots.saturating_sub(1));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(memory_mb: u64) -> Resources {
        Resources { memory_mb, ..Resources::default() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn kept() -> KeptRoom {
        KeptRoom {
            unit: Unit::Job(JobId::from_random([1; 16])),
            priority: 5,
            pool: PoolAt(1),
            rank: 5,
            seq: 10,
            tasks: 1,
            resources: memory(100),
            until: Some(at(60)),
            spare: memory(30),
            spare_slots: None,
        }
    }

    fn entrant(need: &Resources, ends: Option<Timestamp>) -> Entrant<'_> {
        Entrant {
            unit: Unit::Job(JobId::from_random([2; 16])),
            turn: Turn::new(PoolAt(1), 5, 11),
            need,
            ends,
        }
    }

    #[test]
    fn those_who_end_in_time_or_leave_the_room_may_enter() {
        let (small, large) = (memory(30), memory(31));
        assert!(kept().admits(&entrant(&large, Some(at(60)))));
        assert!(!kept().admits(&entrant(&large, Some(at(61)))));
        assert!(!kept().admits(&entrant(&large, None)));
        assert!(kept().admits(&entrant(&small, None)));
    }

    #[test]
    fn those_who_go_first_and_the_one_it_is_kept_for_may_enter() {
        let need = memory(100);
        let later = entrant(&need, None);
        assert!(kept().admits(&Entrant { unit: kept().unit, ..later }));
        let turn = |pool, rank, seq| Turn::new(PoolAt(pool), rank, seq);
        assert!(kept().admits(&Entrant { turn: turn(1, 4, 99), ..later }));
        assert!(kept().admits(&Entrant { turn: turn(1, 5, 9), ..later }));
        assert!(!kept().admits(&Entrant { turn: turn(1, 6, 9), ..later }));
        assert!(kept().admits(&Entrant { turn: turn(0, 6, 99), ..later }), "of a pool that goes before");
        assert!(!kept().admits(&Entrant { turn: turn(2, 4, 9), ..later }), "ranks of pools are not compared");
    }

    #[test]
    fn what_stays_longer_uses_up_what_is_spare() {
        let (mut room, need) = (kept(), memory(20));
        assert!(!room.enter(&entrant(&need, Some(at(10)))));
        assert!(room.enter(&entrant(&need, None)));
        assert!(!room.admits(&entrant(&need, None)));
        let mut bounded = KeptRoom { spare_slots: Some(1), ..kept() };
        let nothing = memory(0);
        assert!(bounded.admits(&entrant(&nothing, None)) && bounded.enter(&entrant(&nothing, None)));
        assert!(!bounded.admits(&entrant(&nothing, None)));
    }
}
