//! The cluster as a whole: what waits for what, who holds kept room, what is free and why nobody uses it.
//! Numbers count everything; the lists name a few.

use std::fmt;

use crate::explain::{Reason, Start};
use crate::ids::QueueName;
use crate::kept_room::Unit;
use crate::resources::Resources;
use crate::time::Timestamp;

/// Work that waits for one kind of reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCause {
    /// The code of the reason.
    pub code: &'static str,
    pub jobs: u64,
    pub gangs: u64,
    /// The reason of the first of them; `None` where only their number is known.
    pub example: Option<(Unit, Reason)>,
}

/// One that is near the head of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InLine {
    pub unit: Unit,
    pub queue: Option<QueueName>,
    pub user: Option<String>,
    pub priority: i32,
    pub tasks: u32,
    /// Of one task.
    pub need: Resources,
    pub reasons: Vec<Reason>,
    pub start: Option<Start>,
}

/// Room that is kept for one that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFor {
    pub unit: Unit,
    pub workers: u32,
    pub resources: Resources,
    pub until: Option<Timestamp>,
}

/// Workers of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// What each has at least.
    pub has: Resources,
    pub workers: u32,
    /// Those that get work.
    pub active: u32,
    pub free: Resources,
    /// What is free on workers where nothing that waits finds room for a task.
    pub stranded: Resources,
    /// How many workers have so many GPUs free, where they have any; else so many whole CPUs.
    pub by_free: Vec<(u64, u32)>,
}

/// Why something is free and not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Idle {
    /// It fits something that waits: the worker has not asked, or the next pass places it.
    NotAsked,
    /// It is kept for one that goes first.
    Kept(Unit),
    /// What would fit must wait before a gate: a quota, a limit, a pause.
    Gated,
    /// It fits a task of a gang that finds no room for the others.
    PartOfGang(Unit),
    /// Nothing that waits fits.
    DoesNotFit,
    /// All slots of the worker are taken, or one job has it for itself.
    NoSlot,
    NobodyWaits,
    Quarantined,
    Offline,
}

impl Idle {
    /// Stable word for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::Kept(_) => "kept",
            Self::Gated => "gated",
            Self::PartOfGang(_) => "part_of_gang",
            Self::DoesNotFit => "does_not_fit",
            Self::NoSlot => "no_slot",
            Self::NobodyWaits => "nobody_waits",
            Self::Quarantined => "quarantined",
            Self::Offline => "offline",
        }
    }

    /// The one that it is about.
    pub const fn unit(self) -> Option<Unit> {
        match self {
            Self::Kept(unit) | Self::PartOfGang(unit) => Some(unit),
            Self::NotAsked
            | Self::Gated
            | Self::DoesNotFit
            | Self::NoSlot
            | Self::NobodyWaits
            | Self::Quarantined
            | Self::Offline => None,
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("fits what waits; the workers have not asked yet"),
            Self::Kept(unit) => write!(f, "kept for {unit}"),
            Self::Gated => f.write_str("fits only what a quota, a limit or a pause keeps back"),
            Self::PartOfGang(unit) => write!(f, "has room for some tasks of {unit}, not for all"),
            Self::DoesNotFit => f.write_str("fits nothing that waits"),
            Self::NoSlot => f.write_str("all slots are taken"),
            Self::NobodyWaits => f.write_str("nobody waits"),
            Self::Quarantined => f.write_str("in quarantine"),
            Self::Offline => f.write_str("offline"),
        }
    }
}

/// What is free for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleRoom {
    pub why: Idle,
    pub workers: u32,
    pub free: Resources,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    pub total: Resources,
    pub free: Resources,
    pub stranded: Resources,
    /// Most first.
    pub waiting: Vec<WaitingCause>,
    /// Jobs of shapes that were not looked at.
    pub not_looked_at: u64,
    pub line: Vec<InLine>,
    pub kept: Vec<KeptFor>,
    pub pools: Vec<Pool>,
    pub more_pools: u32,
    pub idle: Vec<IdleRoom>,
}
