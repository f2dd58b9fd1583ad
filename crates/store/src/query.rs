//! Questions that change nothing, and their replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_domain::access::Principal;
use muster_domain::{
    Account, Amounts, Artifact, Credential, DeadLetter, Event, Explanation, GangId, Grant, Job, JobId,
    JobSet, Overview, Queue, QueueName, Resources, SealedSecret, SetId, SetKind, Status, Timestamp,
    UploadRef, UsageSum, Worker, WorkerId,
};

use crate::accounts::{AuditEntry, KnownCredential};
use crate::artifacts::{ArtifactFilter, ArtifactRun};
use crate::command::Instance;
use crate::output::MovedOutput;
use crate::records::AuditFilter;
use crate::secrets::WorkerKeys;
use crate::uploads::{UploadUse, UploadView};
use crate::webhooks::{LetterFilter, WebhookView};

/// Which jobs to list: all conditions hold together; newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Empty means any.
    pub statuses: Vec<Status>,
    pub queue: Option<QueueName>,
    pub name: Option<String>,
    /// A tag that the job requires of its worker.
    pub tag: Option<String>,
    /// The worker that holds it, or ran it last.
    pub worker: Option<WorkerId>,
    /// The pipeline or array that it belongs to.
    pub set: Option<SetId>,
    /// The step of its pipeline.
    pub step: Option<String>,
    /// Created at or after this time.
    pub since: Option<Timestamp>,
    /// Only jobs submitted before this one (its `seq`): the cursor of the last page.
    pub before_seq: Option<u64>,
    /// At most this many; `None` lists all.
    pub limit: Option<usize>,
    /// Only what this caller may see. A page can then be shorter than asked for although more follow.
    pub seen_by: Option<Principal>,
}

/// Which pipelines and arrays to read: all conditions hold together; newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetFilter {
    /// Empty means any.
    pub ids: Vec<SetId>,
    pub kind: Option<SetKind>,
    pub idempotency_key: Option<String>,
    pub before_seq: Option<u64>,
    pub limit: Option<usize>,
    /// Only what this caller may see: sets of which it may see a job, and of them the steps of which it may see one.
    pub seen_by: Option<Principal>,
}

/// How many jobs of one step of a set are in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCount {
    pub set: SetId,
    /// `None` in an array.
    pub step: Option<String>,
    pub status: Status,
    /// Of cancelled jobs: whether they were skipped.
    pub skipped: bool,
    pub jobs: u64,
    pub first_start: Option<Timestamp>,
    pub last_end: Option<Timestamp>,
}

/// A set with the state of its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetView {
    pub set: JobSet,
    pub counts: Vec<SetCount>,
}

/// A page of jobs. `next` continues the list; `None` on the last page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobPage {
    pub jobs: Vec<JobView>,
    pub next: Option<u64>,
}

/// A job with the bytes that are kept apart from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    pub job: Job,
    pub checkpoint: Option<Arc<[u8]>>,
}

/// A job that has ended, with all that is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob {
    pub view: JobView,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
}

/// Which events to read: after a position, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventFilter {
    pub job: Option<JobId>,
    /// Position of the last event already seen; 0 for all.
    pub after: u64,
    pub limit: usize,
}

/// Whose usage to sum up, over which hours (since 1970, UTC).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageFilter {
    pub from_hour: i64,
    /// Not included.
    pub to_hour: i64,
    /// A line for each day; one for all hours otherwise.
    pub by_day: bool,
    pub user: Option<String>,
    pub queue: Option<QueueName>,
    /// Only what this caller may see.
    pub seen_by: Option<Principal>,
}

/// What was used by the jobs of one user in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageLine {
    /// Counted from 1970, UTC; 0 where days are added up.
    pub day: i64,
    /// Empty for none, as the queue.
    pub user: String,
    pub queue: String,
    pub sum: UsageSum,
}

/// Which jobs that have ended to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFilter {
    pub since: Timestamp,
    /// Not included.
    pub until: Timestamp,
    pub user: Option<String>,
    pub queue: Option<QueueName>,
    /// The most that are read, those included that are filtered out.
    pub limit: usize,
    /// Only what this caller may see.
    pub seen_by: Option<Principal>,
}

/// A worker with what the jobs on it take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerUsage {
    pub worker: Worker,
    pub used: Resources,
    pub running: u32,
    /// A job has the worker for itself.
    pub exclusive: bool,
    /// Who holds which of its GPUs.
    pub holders: Vec<(JobId, Grant)>,
}

/// Numbers for gauges. Finished jobs are not counted here: that would cost a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs by state, terminal states left out.
    pub jobs: BTreeMap<Status, u64>,
    /// Pending jobs by queue; the empty name is the default queue.
    pub pending_by_queue: BTreeMap<String, u64>,
    /// Jobs that wait for whatever reason (pending, delayed, held, blocked), by queue.
    pub waiting_by_queue: BTreeMap<String, u64>,
    /// Jobs that take room, by queue.
    pub held_by_queue: BTreeMap<String, u64>,
}

/// A queue that was set, and what it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStanding {
    pub queue: Queue,
    /// By its own jobs.
    pub used: Amounts,
    /// By those of the queues below it too.
    pub used_below: Amounts,
    /// What it uses beyond its own.
    pub borrowed: Amounts,
    /// What others use of its own.
    pub lent: Amounts,
    /// Its weighted dominant share, in billionths.
    pub share: u64,
    /// Jobs of it and of all below it that take room.
    pub running_below: u64,
}

/// What a cancel would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CancelPreview {
    /// Would end at once.
    pub cancelled: Vec<JobId>,
    /// Run, and would be told to stop.
    pub stopping: Vec<JobId>,
    /// Would end once those that run are gone.
    pub following: Vec<JobId>,
}

/// Which gangs to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GangFilter {
    /// Only gangs submitted before this one (the number of its first task).
    pub before_seq: Option<u64>,
    pub limit: usize,
}

/// A gang with its tasks, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangView {
    pub id: GangId,
    /// The number of its first task: the cursor of a list.
    pub seq: u64,
    pub tasks: Vec<Job>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    Job(JobId),
    Jobs(JobFilter),
    Workers,
    Events(EventFilter),
    /// The position of the newest event, also when it was removed since.
    LastEvent,
    /// Jobs that retention may remove: ended before a time, the oldest first.
    Finished {
        before: Timestamp,
        limit: usize,
    },
    Counts,
    /// Who used what.
    Usage(UsageFilter),
    /// Jobs that ended in a time, the latest first.
    Ended(EndedFilter),
    /// A part of a checkpoint that was put into the store in parts.
    Part {
        name: Arc<str>,
        number: u32,
    },
    /// Artifacts of one attempt, by name.
    Artifacts(ArtifactFilter),
    /// The attempts of a job that left artifacts, the last first.
    ArtifactRuns(JobId),
    /// Those of these blobs that an artifact or moved output names.
    KnownBlobs(Vec<String>),
    /// The output of a job that has moved, by lease.
    MovedOutput(JobId),
    /// Bytes of all moved output.
    MovedBytes,
    /// All schedulers that have ever said that they are there, and not been forgotten since.
    Instances,
    /// Jobs of these workers that were told to stop.
    Stops(Vec<WorkerId>),
    /// These jobs as they are now, as far as there are such.
    States(Vec<JobId>),
    /// All queues that were set.
    Queues,
    /// The same with what they use.
    Standings,
    /// How many jobs of each user wait in these queues.
    WaitingByUser(Vec<QueueName>),
    /// Pipelines and arrays with the state of their jobs.
    Sets(SetFilter),
    /// What a cancel of these jobs would end, those that depend on them included.
    CancelPreview(Vec<JobId>),
    /// All tasks of a gang, by index.
    Gang(GangId),
    /// Gangs with all their tasks, newest first.
    Gangs(GangFilter),
    /// The cluster as a whole, as of a time.
    Overview {
        now: Timestamp,
    },
    /// Why a job does not run, as of a time.
    Why {
        job: JobId,
        now: Timestamp,
    },
    /// All webhooks; `counted` with the number of their dead letters.
    Webhooks {
        counted: bool,
    },
    /// Secrets by name: of these names, or all.
    Secrets(Option<Vec<String>>),
    /// The keys of one worker, or of all that have announced some.
    SealingKeys(Option<WorkerId>),
    /// These uploads, or all.
    Uploads(Option<Vec<UploadRef>>),
    /// What names uploads.
    UploadUses,
    DeadLetters(LetterFilter),
    /// All accounts, by name.
    Accounts,
    Account {
        name: String,
    },
    /// All credentials, oldest first.
    Credentials,
    /// The credential with this digest, and the account behind it.
    Credential {
        digest: String,
    },
    Audit(AuditFilter),
}

/// The reply to the [`Query`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Job(Option<JobView>),
    Jobs(JobPage),
    Workers(Vec<WorkerUsage>),
    Events(Vec<Event>),
    LastEvent(u64),
    Finished(Vec<FinishedJob>),
    Counts(Counts),
    Usage(Vec<UsageLine>),
    /// The jobs, and whether these are all.
    Ended(Vec<Job>, bool),
    Part(Option<Vec<u8>>),
    Artifacts(Vec<Artifact>),
    ArtifactRuns(Vec<ArtifactRun>),
    KnownBlobs(Vec<String>),
    MovedOutput(Vec<MovedOutput>),
    MovedBytes(u64),
    Instances(Vec<Instance>),
    Stops(Vec<Job>),
    States(Vec<Job>),
    Queues(Vec<Queue>),
    Standings(Vec<QueueStanding>),
    WaitingByUser(BTreeMap<(QueueName, String), u64>),
    Sets(Vec<SetView>),
    CancelPreview(CancelPreview),
    Gang(Vec<JobView>),
    Gangs(Vec<GangView>),
    Overview(Overview),
    Why(Option<(Job, Explanation)>),
    Webhooks(Vec<WebhookView>),
    Secrets(Vec<SealedSecret>),
    SealingKeys(Vec<WorkerKeys>),
    Uploads(Vec<UploadView>),
    UploadUses(Vec<UploadUse>),
    DeadLetters(Vec<DeadLetter>),
    Accounts(Vec<Account>),
    Account(Option<Account>),
    Credentials(Vec<Credential>),
    Credential(Option<KnownCredential>),
    Audit(Vec<AuditEntry>),
}
