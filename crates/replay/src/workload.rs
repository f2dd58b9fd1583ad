//! What is played: jobs with their times, needs and owners.

use muster_domain::{Resources, Span, Timestamp};

/// One job, which is a gang when it has several tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// Time since the start of the trace.
    pub submit: Timestamp,
    /// How long it runs when nobody stops it.
    pub run: Span,
    /// The time limit that its user gave.
    pub limit: Option<Span>,
    pub tasks: u32,
    /// Of one task.
    pub need: Resources,
    /// Position in [`Workload::queues`].
    pub queue: u32,
    /// Position in [`Workload::users`].
    pub user: u32,
    /// Higher is more important.
    pub priority: i32,
    /// Whether it may be stopped for others.
    pub preemptible: bool,
}

/// Jobs in the order of the trace, which is the order of ties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    pub jobs: Vec<TraceJob>,
    pub queues: Vec<String>,
    pub users: Vec<String>,
}
