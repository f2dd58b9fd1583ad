//! The objects that cross HTTP, and nothing else: shapes with serde and OpenAPI, no rules.
//!
//! Guarantee: keys keep the spelling that clients of the original API know (`last_heart_beat` on a
//! job, `last_heartbeat` on a worker); optional values are left out rather than sent as `null`.

mod accounts;
mod artifacts;
mod containers;
mod devices;
mod events;
mod gangs;
mod inputs;
mod jobs;
mod keys;
mod logs;
mod oidc;
mod overview;
mod problem;
mod queues;
mod retry;
mod secrets;
mod sets;
mod summary;
mod sync;
mod system;
mod terminals;
mod uploads;
mod usage;
mod webhooks;
mod why;
mod workers;

pub use accounts::{
    AuditEntry, Credential, Issued, JoinRequest, JoinTokenRequest, LoginRequest, PasswordChange,
    TokenRequest, User, UserRequest, UserUpdate, WhoAmI,
};
pub use artifacts::{
    ArrivedPart, Artifact, ArtifactCompletion, ArtifactKept, ArtifactList, ArtifactOffer, ArtifactPlace,
    ArtifactPlaces, ArtifactUrl, ArtifactsCompleted, BlobLink, CompletedArtifact, OfferedArtifact,
    OfferedPart, SentArtifact, SentArtifactPart,
};
pub use containers::{
    Container, ContainerEngine, ContainerNetwork, ImagePull, ImagePulled, ImageReport, PullPolicy,
};
pub use devices::{Gpu, GpuState, JobDevice, Topology, TopologyMode};
pub use events::{Event, EventData, EventGap};
pub use gangs::{
    GangAssignment, GangPeer, GangPolicy, GangState, GangSubmitted, GangSummary, JobStatusName, LaunchMode,
    Notice, OnPreemptExit0, SignalScope,
};
pub use inputs::{ArtifactInput, InputFile, InputList};
pub use jobs::{
    BatchItem, BatchRequest, BatchResult, CancelResult, DependencyRule, IfUnmet, Job, JobStatus, OpenMode,
    Resources, SubmitRequest,
};
pub use keys::{Concurrency, OnConflict, Unique};
pub use logs::{
    HEADER_LOG_LENGTH, HEADER_LOG_MISSING, HEADER_LOG_TIMES, HEADER_LOG_UNREACHABLE, LogAppended, LogGap,
    LogGapCause, LogMessage, LogPiece, LogRun, LogStream,
};
pub use oidc::{AuthMethods, DeviceLogin, DeviceProgress, DeviceQuestion, OidcMethod};
pub use overview::{FreeCount, IdleRoom, InLine, KeptFor, Overview, Pool, WaitingCause};
pub use problem::Problem;
pub use queues::{Queue, QueueUpdate, Quota, RateLimit};
pub use retry::Retry;
pub use secrets::{
    FleetKey, SealedBox, SealedSecret, SealingKey, SecretRequest, SecretSummary, SecretUse, SecretWish,
};
pub use sets::{
    ArrayRequest, BulkFilter, BulkResult, Counts, JobEdit, JobSet, Pipeline, SetKind, Step, StepNeed,
};
pub use summary::Summary;
pub use sync::{
    HeartbeatAction, JobReport, LeaseRef, ReportKind, ReportResult, StopOrder, SyncRequest, SyncResponse,
};
pub use system::{Health, Version};
pub use terminals::{
    BadFrame, HEADER_TERMINAL_SECRET, MAX_TERMINAL_FRAME, TERMINAL_UPGRADE, TerminalEnd, TerminalFrame,
    TerminalKind, TerminalOpen, TerminalOrder, TerminalSize,
};
pub use uploads::{ChunkRequest, EntryKind, Upload, UploadChunk, UploadEntry, UploadLimits, UploadManifest};
pub use usage::{Attempt, JobUsage, Usage, UsageReport, UsageRow};
pub use webhooks::{
    DeadLetter, DeadLetterCount, HEADER_WEBHOOK_DELIVERY, HEADER_WEBHOOK_EVENT, HEADER_WEBHOOK_SIGNATURE,
    HEADER_WEBHOOK_TIMESTAMP, Webhook, WebhookPayload, WebhookRequest, WebhookTest, WebhookUpdate,
};
pub use why::{AmountChange, Holder, Reason, Shortfall, Start, Suggestion, Why, WorkerClass};
pub use workers::{Quarantine, RUN_AS_SUBMITTER, RegisterRequest, Worker, WorkerStatus};

/// Response header with the lease of a single claimed job.
pub const HEADER_LEASE: &str = "x-muster-lease";
/// Request header that has unknown fields and parameters ignored, when it is `true`.
pub const HEADER_LENIENT: &str = "muster-lenient";
/// Request header that names the calling worker, for reports without a lease.
pub const HEADER_WORKER_ID: &str = "x-worker-id";
/// Response header with the cursor of the next page of a list; absent on the last page.
pub const HEADER_NEXT_CURSOR: &str = "x-next-cursor";
/// Response header with a fresh id on every response.
pub const HEADER_REQUEST_ID: &str = "x-request-id";
/// Request header with the token of a job, an alternative to `Authorization: Bearer`.
pub const HEADER_JOB_TOKEN: &str = "x-muster-token";
/// Request header that makes a submit safe to repeat.
pub const HEADER_IDEMPOTENCY_KEY: &str = "idempotency-key";
