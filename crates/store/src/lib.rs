//! The store: what the server asks for, what a backend provides, and the verbs between the two.
//!
//! * [`Store`] is the server's side: batches of [`Command`]s in, one answer each, one transaction;
//!   [`Query`]s in, [`Reply`]s out.
//! * [`Tx`] is the backend's side: a small set of primitives on rows. Backends hold facts, not rules.
//! * [`engine`] is the only place where verbs are written; it asks `muster_domain` for every decision.
//! * [`compliance`] is the suite that every backend must pass.

pub mod accounts;
pub mod applied;
pub mod artifacts;
pub mod command;
#[cfg(feature = "compliance")]
pub mod compliance;
pub mod engine;
pub mod error;
pub mod event_text;
pub mod faults;
pub mod memory;
pub mod output;
pub mod query;
pub mod records;
pub mod row;
pub mod secrets;
pub mod store;
pub mod tx;
pub mod uploads;
pub mod webhooks;

pub use muster_planner::policy::{Allowance, Allowances};

pub use accounts::{
    AccountCommand, AccountOutcome, AccountVerb, AuditEntry, KnownCredential, MAX_CREDENTIALS,
};
pub use applied::{Applied, DrainCause, GangNote, GangStep, Wake};
pub use artifacts::{ArtifactFilter, ArtifactRun, ArtifactsOf, ExpireArtifacts, KeepArtifacts};
pub use command::{
    AccessChange, Answer, Ask, Attributed, CheckpointPart, Claimed, Command, Content, HeartbeatReply, Input,
    Instance, NewJob, Outcome, PARTS_PREFIX, PlanPass, PlanSummary, QueueSettings, Removal, Report, SetPart,
    Stopped, Submit, Submitted, Sweep, SweepSummary, TermsChange,
};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use output::{ExpireOutput, ExpiredOutput, Moved, MovedOutput, OutputContent, OutputTx};
pub use query::{
    CancelPreview, Counts, EndedFilter, EventFilter, FinishedJob, GangFilter, GangView, JobFilter, JobPage,
    JobView, Query, QueueStanding, Reply, SetCount, SetFilter, SetView, UsageFilter, UsageLine, WorkerUsage,
};
pub use records::{AuditFilter, AuditLine, Chosen, Record, RecordKind};
pub use secrets::{SecretCommand, SecretOutcome, WorkerKeys};
pub use store::{Store, StoreExt};
pub use tx::{
    Apart, Changed, Edge, HeldJob, LeaseEnds, LeaseLock, Oldest, Tx, Usage, UsageEntry, WaitingGang,
};
pub use uploads::{UploadCommand, UploadOutcome, UploadUse, UploadView};
pub use webhooks::{Delivered, LetterChoice, LetterFilter, WebhookCommand, WebhookOutcome, WebhookView};
