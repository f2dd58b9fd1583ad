//! Every "no" of the rules, typed. The API maps each to one status and one stable code.

use crate::account::Worthless;
use crate::ids::{CredentialId, GangId, JobId, Lease, QueueName, SetId, WebhookId, WorkerId};
use crate::phase::Status;

/// Why a command was refused. A refused command has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("job not found")]
    JobNotFound { id: JobId },
    #[error("worker not found")]
    WorkerNotFound { id: WorkerId },
    #[error("job is not running")]
    NotRunning { status: Status },
    #[error("job is {status}, and only a running job can be entered")]
    NotEnterable { status: Status },
    #[error(
        "the job runs in no terminal: it was not submitted with pty (`muster run --pty`); exec runs a program beside it"
    )]
    NoTerminal,
    #[error("lease {given} is stale: the job is now at lease {current}")]
    StaleLease { given: Lease, current: Lease },
    #[error("lease {given} already ended with another report")]
    ContradictsReport { given: Lease },
    #[error("the job is held by {}, not by worker {given}", holder_name(.holder.as_ref()))]
    NotHolder { given: WorkerId, holder: Option<WorkerId> },
    #[error(
        "an earlier holder lost the job and may still run it, so a report must say whose it is: \
         add ?lease={current} if it is yours, or ?worker_id="
    )]
    AnonymousAfterLoss { current: Lease },
    #[error("job is {status}, no stop was ordered")]
    NotStopping { status: Status },
    #[error("preemption epoch {given} does not match the current epoch {current}")]
    EpochMismatch { given: i64, current: u32 },
    #[error("job is {status}, it cannot be claimed")]
    NotPending { status: Status },
    #[error("a gang task starts only with its gang")]
    GangTask,
    #[error("gang not found")]
    GangNotFound { id: GangId },
    #[error("the gang cannot be placed: {task} is {status}")]
    GangNotReady { task: JobId, status: Status },
    #[error("reservation {given} is over: the gang is now at {current}")]
    StaleReservation { given: u32, current: u32 },
    #[error("job already ended as {status}")]
    AlreadyEnded { status: Status },
    #[error("job is {status}, it does not wait for dependencies")]
    NotBlocked { status: Status },
    #[error("job is {status}, it does not wait any more")]
    NotWaiting { status: Status },
    #[error("job is {status}, it has not ended")]
    NotEnded { status: Status },
    #[error("the job ended because of {ancestor}: retry that one, and this one waits for it again")]
    EndedByAncestor { ancestor: JobId },
    #[error("job is still within its bounds")]
    NotOverdue,
    #[error("dependency \"{name}\" does not exist")]
    UnknownDependency { name: String },
    #[error("the idempotency key {key:?} names {first} already, which differs in {}", .fields.join(", "))]
    KeyReused { key: String, first: String, fields: Vec<&'static str> },
    /// The waiting job that a newcomer wants to replace is another user's.
    #[error(
        "the unique key {key:?} is that of a waiting job of another user, which this one may not replace; use another key"
    )]
    KeyOfAnother { key: String },
    #[error("cycle detected: {}", .path.join("->"))]
    DependencyCycle { path: Vec<String> },
    #[error("the reference \"{name}\" is used by more than one job of the batch")]
    DuplicateReference { name: String },
    #[error("the pipeline or array {id} does not exist")]
    SetNotFound { id: SetId },
    #[error("the pipeline has a step {name:?} already")]
    DuplicateStep { name: String },
    #[error("queue {queue} is full: {queued} jobs wait, at most {limit} may")]
    QueueFull { queue: String, queued: u64, limit: u64 },
    #[error("the scheduler is full: {queued} jobs wait, at most {limit} may")]
    TooManyQueued { queued: u64, limit: u64 },
    #[error("user {user} has {queued} jobs waiting in queue {queue}, at most {limit} may")]
    UserFull { queue: String, user: String, queued: u64, limit: u64 },
    #[error("queue {queue} does not exist")]
    QueueNotFound { queue: QueueName },
    #[error("queue {queue} cannot be removed: queue {child} is below it")]
    QueueHasQueues { queue: QueueName, child: QueueName },
    #[error("queue {queue} cannot be removed: it has jobs that have not ended, such as {job}")]
    QueueHasJobs { queue: QueueName, job: JobId },
    #[error("a queue cannot be below itself: {}", spelled(.path))]
    QueueCycle { path: Vec<QueueName> },
    #[error("queue {queue} would be {depth} queues below its root, at most {limit} are allowed")]
    QueueTooDeep { queue: QueueName, depth: usize, limit: usize },
    #[error("webhook {id} does not exist")]
    WebhookNotFound { id: WebhookId },
    #[error("there are {limit} webhooks already, which is the most: remove one first")]
    TooManyWebhooks { limit: usize },
    #[error("there is no secret {name:?}")]
    SecretNotFound { name: String },
    #[error(
        "the secret {name:?} is at version {current}, so that version {} follows, not {given}: somebody may have changed it just now",
        current + 1
    )]
    SecretVersion { name: String, given: u64, current: u64 },
    #[error("there are {limit} secrets already, which is the most: remove one first")]
    TooManySecrets { limit: usize },
    #[error("the attempt has {limit} artifacts, which is the most (--artifact-files)")]
    TooManyArtifacts { limit: u64 },
    #[error("{who} has {used} bytes of artifacts and may have {limit}: there is no room for {wanted} more")]
    ArtifactsFull { who: String, used: u64, wanted: u64, limit: u64 },
    #[error("there is no upload {id}: send it first, as `muster submit --upload DIR` does")]
    UploadNotFound { id: String },
    #[error("the upload {id} is not complete: send what is missing, then say that it is complete")]
    UploadIncomplete { id: String },
    #[error("old uploads are being removed: try again in some seconds")]
    UploadsSwept,
    #[error("user {name} exists already")]
    AccountExists { name: String },
    #[error("user {name} does not exist")]
    AccountNotFound { name: String },
    #[error("{name} is the last admin: make another one first")]
    LastAdmin { name: String },
    #[error("user {name} is disabled: an admin can enable it again")]
    AccountDisabled { name: String },
    #[error(
        "user {name} exists already and is not linked to your subject {subject:?} at the provider: an admin can link it with \
         `muster user set {name} --oidc-subject {subject}`"
    )]
    AccountNotLinked { name: String, subject: String },
    #[error(
        "user {name} is linked to this subject already: end that with `muster user set {name} --oidc-subject \"\"` first"
    )]
    SubjectTaken { name: String },
    #[error("credential {id} does not exist")]
    CredentialNotFound { id: CredentialId },
    #[error("there are {limit} {kind} credentials already, which is the most: revoke some first")]
    TooManyCredentials { kind: &'static str, limit: usize },
    #[error("the join token cannot be used: {cause}")]
    CannotJoin { cause: Worthless },
    #[error("worker {worker} has a key already: revoke it first, or choose another id for this worker")]
    WorkerHasKey { worker: WorkerId },
    #[error("the {role} is led by another scheduler: term {given} is over, it is now {current}")]
    LeadershipLost { role: &'static str, given: u64, current: u64 },
    #[error("another job of the batch was refused, so none was taken: {cause}")]
    BatchRefused { cause: Box<Rejection> },
}

fn spelled(path: &[QueueName]) -> String {
    path.iter().map(QueueName::as_str).collect::<Vec<_>>().join(" -> ")
}

fn holder_name(holder: Option<&WorkerId>) -> String {
    holder.map_or_else(|| "nobody known".to_owned(), |worker| format!("worker {worker}"))
}

impl Rejection {
    /// Whether this refuses a report that came too late: the lease is gone or belongs to someone else.
    pub const fn is_stale_report(&self) -> bool {
        matches!(
            self,
            Self::StaleLease { .. }
                | Self::ContradictsReport { .. }
                | Self::NotHolder { .. }
                | Self::AnonymousAfterLoss { .. }
        )
    }
}
