//! The cluster as a whole, on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::Resources;
use crate::why::{Reason, Start};

/// Work that waits for one kind of reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct WaitingCause {
    /// The code of the reason, as in `GET /jobs/{id}/why`.
    pub code: String,
    pub jobs: u64,
    pub gangs: u64,
    /// The first of them, and its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A job or gang near the head of the line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct InLine {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub priority: i32,
    /// 1 for a job outside gangs.
    pub tasks: u32,
    /// Of one task.
    pub needs: Resources,
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
}

/// Room that is kept for one that waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct KeptFor {
    pub id: String,
    pub workers: u32,
    pub resources: Resources,
    /// When it is expected to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
}

/// So many workers have so much free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FreeCount {
    /// GPUs, where the workers have any; else whole CPUs.
    pub free: u64,
    pub workers: u32,
}

/// Workers of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Pool {
    /// What each has at least.
    pub has: Resources,
    pub workers: u32,
    /// Those that get work.
    pub active: u32,
    pub free: Resources,
    /// What is free on workers where nothing that waits finds room for a task.
    pub stranded: Resources,
    pub by_free: Vec<FreeCount>,
}

/// What is free for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct IdleRoom {
    /// `not_asked`, `kept`, `gated`, `part_of_gang`, `does_not_fit`, `no_slot`, `nobody_waits`, `quarantined` or
    /// `offline`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// The job or gang that it is kept for, or that needs more of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    pub workers: u32,
    pub free: Resources,
}

/// The answer to `GET /explain`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Overview {
    /// Of the workers that get work.
    pub total: Resources,
    pub free: Resources,
    pub stranded: Resources,
    /// What waits for what, most first.
    pub waiting: Vec<WaitingCause>,
    /// Pending jobs that were only counted, because there are too many kinds of them.
    pub not_looked_at: u64,
    /// The first in line; of jobs of one kind only the first.
    pub line: Vec<InLine>,
    /// Who holds kept room.
    pub kept: Vec<KeptFor>,
    pub pools: Vec<Pool>,
    /// Pools that are not listed.
    pub more_pools: u32,
    /// What is free, by why nobody uses it.
    pub idle: Vec<IdleRoom>,
}
