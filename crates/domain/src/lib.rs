//! The rules of Muster as pure code: jobs, workers, resources, leases and the state machine.
//!
//! Guarantees: no I/O, no clock, no randomness and no panics; a job changes its phase only in
//! [`lifecycle::transition`]; every refusal is a typed [`Rejection`].

pub mod dependency;
pub mod event;
pub mod explain;
pub mod ids;
pub mod invariants;
pub mod job;
pub mod lifecycle;
pub mod limits;
pub mod rejection;
pub mod resources;
pub mod time;
pub mod worker;

pub use event::{Event, EventKind, RequeueCause};
pub use explain::Reason;
pub use ids::{GangId, JobId, Lease, QueueName, WorkerId};
pub use job::{
    ClosedLease, EndReason, Exit, GangMembership, Job, JobSpec, Phase, Program, ReportKind, ShapeId, Status,
    StopReason,
};
pub use lifecycle::{Caller, Change, Patience, Trigger, transition};
pub use rejection::Rejection;
pub use resources::{Dimension, Requirement, Resources, Shortfall};
pub use time::{Span, Timestamp};
pub use worker::{Worker, WorkerStatus};
