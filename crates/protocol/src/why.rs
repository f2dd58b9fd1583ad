//! Why something does not run, on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::{JobStatus, Resources};

/// What is missing of one kind of resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shortfall {
    /// `cpus`, `memory_mb`, `gpus`, `vram_mb`, `slots`, or the name of a counter.
    pub resource: String,
    pub needed: f64,
    pub available: f64,
}

/// One reason why a job is not running. What a reason does not speak of is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Reason {
    /// Stable word for programs, such as `dependency` or `resources`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// The job or gang that it waits for, or for which room is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The worker that comes closest, or the one that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How many workers are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// When it ends, or when something is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// Jobs and gangs that go first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gangs: Option<u64>,
    /// Tasks that must start at once, and tasks for which there is room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<u64>,
    /// What runs, and what may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// What the worker that comes closest lacks, or the quota.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shortfalls: Vec<Shortfall>,
    /// Tags that no worker carries, or no worker together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Work that holds workers of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Holder {
    /// A job or a gang.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Workers of the class that it is on.
    pub workers: u32,
    /// When it will have ended, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ends_at: Option<Timestamp>,
}

/// Workers that are alike in what the job needs. Each worker is counted once, and once in one of `with_room`, `kept`,
/// `busy`, `quarantined` and `offline` if it could run the job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct WorkerClass {
    /// A sentence for people.
    pub message: String,
    pub workers: u32,
    /// What each has at least in all, of the kinds that are needed.
    pub has: Resources,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Whether such a worker could run it when it is empty.
    pub able: bool,
    /// What it lacks even then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<Shortfall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_tags: Vec<String>,
    pub with_room: u32,
    /// With room that is kept for somebody who goes first.
    pub kept: u32,
    pub busy: u32,
    pub quarantined: u32,
    pub offline: u32,
    /// When the first of the busy ones is expected to have room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub free_at: Option<Timestamp>,
    /// Busy ones of which nobody can say when they will have room.
    pub no_end_known: u32,
    /// Who is on the busy ones, those on most of them first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// Holders that are not listed.
    pub more_holders: u32,
}

/// One amount that would have to change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AmountChange {
    /// A kind of resource as in a shortfall; `tasks`, `tasks_per_worker`, `priority`, `running`, `concurrency` or
    /// `timeout_seconds`.
    pub what: String,
    pub from: f64,
    pub to: f64,
}

/// A change that would let the job start now; it was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Suggestion {
    /// Stable word for programs, such as `less` or `release_worker`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<AmountChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The concurrency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The worker to put back to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the room is wanted that is kept for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// Jobs and gangs that it would go before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Jobs and gangs that would stop for it first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<String>,
    /// Some of the workers that it would start on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// Those that are not listed.
    pub more_workers: u32,
    /// The code of a second change, where only both together help; what it is about is in the same fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
}

/// When it is expected to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Start {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Whether room is kept for it then; without that others may come before it.
    pub kept: bool,
    /// Whether it depends on how long runs before took, of work that has no time limit.
    #[serde(default)]
    pub by_history: bool,
}

/// The answer to `GET /jobs/{id}/why` and `GET /gangs/{id}/why`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    pub id: String,
    pub status: JobStatus,
    pub reasons: Vec<Reason>,
    /// Of a job that waits for room: the workers by what they have, those first that could run it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<WorkerClass>,
    /// Classes that are not listed, and the workers in them.
    #[serde(default)]
    pub more_classes: u32,
    #[serde(default)]
    pub more_workers: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// How long it is expected to run once it starts, as the last runs of its user, queue and name did; absent where
    /// it has a time limit, which counts instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
}
