//! The rules of Muster as pure code: jobs, workers, resources, leases and the state machine.
//!
//! Guarantees: no I/O, no clock, no randomness and no panics; a job changes its phase only in
//! [`lifecycle::transition`]; every refusal is a typed [`Rejection`].

pub mod access;
pub mod account;
pub mod amounts;
pub mod artifact;
pub mod by;
pub mod container;
pub mod dependency;
pub mod devices;
pub mod edit;
pub mod event;
pub mod explain;
pub mod gang_domains;
pub mod gang_room;
pub mod health;
pub mod history;
pub mod ids;
pub mod image;
pub mod inputs;
pub mod invariants;
pub mod job;
pub mod kept_room;
pub mod leadership;
pub mod lifecycle;
pub mod limits;
pub mod memory_growth;
pub mod output_path;
pub mod overview;
pub mod phase;
pub mod queue;
pub mod queue_access;
pub mod queue_tree;
pub mod quota_room;
pub mod rejection;
mod repeat;
pub mod resources;
pub mod retry;
pub mod rule;
pub mod secrets;
pub mod set;
pub mod sign_in;
pub mod signal;
pub mod spec;
pub mod suggestion;
pub mod terminal;
pub mod time;
pub mod topology;
pub mod usage;
pub mod visibility;
pub mod webhook;
pub mod worker;
pub mod worker_class;

pub use account::{
    Account, AccountChange, Actor, Bearer, Credential, Deed, LoginMethod, OidcSubject, Worthless,
};
pub use amounts::{Amounts, Quantity};
pub use artifact::{
    Artifact, ArtifactBounds, ArtifactContent, InvalidArtifactName, InvalidArtifactPattern,
    check_artifact_name, check_artifact_pattern,
};
pub use by::By;
pub use devices::{Device, GpuNeed, Grant};
pub use edit::{Edit, edit};
pub use event::{Event, EventKind, RequeueCause};
pub use explain::{Explanation, Reason, Start};
pub use gang_domains::GangDomains;
pub use gang_room::GangRoom;
pub use health::{Health, Quarantine};
pub use history::{RunTimes, Series};
pub use ids::{CredentialId, GangId, JobId, Lease, QueueName, SetId, WebhookId, WorkerId};
pub use inputs::{ArtifactInput, Inputs, InvalidInput, UploadRef};
pub use job::{ClosedLease, Exit, Job, Member, ReportKind, Round, Strays};
pub use kept_room::{Entrant, KeptRoom, PoolAt, Turn, Unit};
pub use leadership::{Bid, LeaderLease, LeaderTerm, Role};
pub use lifecycle::{
    Caller, Change, Effects, GangChange, Patience, Place, Trigger, gang_ended, gang_transition, speaks_for,
    transition,
};
pub use memory_growth::MemoryGrowth;
pub use output_path::OutputFiles;
pub use overview::{Idle, IdleRoom, InLine, KeptFor, Overview, Pool, WaitingCause};
pub use phase::{EndReason, GangCause, GangStop, Hold, Phase, Preparation, Status, StopReason};
pub use queue::{Promised, Queue, RateLimit};
pub use queue_access::{QueueAccess, QueueLists};
pub use queue_tree::Terms;
pub use quota_room::{Borrower, QuotaRoom, ShareOf};
pub use rejection::Rejection;
pub use repeat::differences;
pub use resources::{Dimension, Requirement, Resources, Shortfall};
pub use rule::{Ended, IfUnmet, Needs, Rule, Tally, Verdict};
pub use secrets::{SealedBox, SealedSecret, SealingKey, SecretDenied, SecretUse};
pub use set::{JobSet, SetKind, StepOutline};
pub use spec::{
    Concurrency, GangMembership, JobSpec, Launch, LaunchMode, OnDisconnect, Program, Shape, ShapeId,
    SignalScope, Unique,
};
pub use suggestion::{Change as SuggestedChange, Suggestion};
pub use terminal::{TerminalKind, TerminalSize};
pub use time::{Span, Timestamp};
pub use topology::{Topology, TopologyMode};
pub use usage::{EndedAttempt, JobSpent, Measured, Spent, UsageSum};
pub use webhook::{DeadLetter, DeliveryId, DeliveryPolicy, Fate, Progress, Secret, Sent, Webhook};
pub use worker::{Ports, Worker, WorkerStatus};
pub use worker_class::{Holder, WorkerClass};
