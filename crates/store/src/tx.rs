//! What a backend provides: primitives on rows inside one transaction.
//!
//! Every primitive takes and returns many rows, so that a verb costs a constant number of round trips
//! whatever the size of its batch. None of them decides anything.

use muster_domain::{
    Artifact, DeadLetter, DeliveryId, Event, GangId, Grant, Job, JobId, JobSet, KeptRoom, LeaderLease, Queue,
    QueueName, Role, Rule, RunTimes, SetId, Shape, ShapeId, Span, Timestamp, UsageSum, Webhook, WebhookId,
    Worker, WorkerId,
};

use crate::artifacts::{ArtifactFilter, ArtifactRun, ArtifactsOf, ExpireArtifacts};
use crate::command::{CheckpointPart, Instance};
use crate::error::StoreError;
use crate::output::OutputTx;
use crate::query::{Counts, EventFilter, JobFilter, SetCount, SetFilter};
use crate::records::{AuditFilter, AuditLine, Chosen, Record, RecordKind};
use crate::webhooks::LetterFilter;

/// `child` waits for `parent`, whose end counts under `rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub parent: JobId,
    pub child: JobId,
    pub rule: Rule,
}

/// How many jobs of one shape a worker holds (reserved, running or stopping).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub worker: WorkerId,
    pub shape: ShapeId,
    pub jobs: u32,
}

/// A job that a worker holds, with the GPUs that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldJob {
    pub worker: WorkerId,
    pub job: JobId,
    pub shape: ShapeId,
    pub devices: Option<Grant>,
}

/// What was used in one hour by the jobs of one user in one queue; the names are empty where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageEntry {
    /// Counted from 1970, UTC; of sums over several hours the number of their bucket.
    pub hour: i64,
    pub user: String,
    pub queue: String,
    /// Of private jobs: not everybody may see it.
    pub private: bool,
    pub sum: UsageSum,
}

/// What is different about a worker from one that was heard of lately and keeps no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    pub worker: WorkerId,
    /// Offline, or not heard of lately.
    pub silent: bool,
    pub kept: Option<KeptRoom>,
}

/// What the log says changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// The position from which to ask the next time.
    pub upto: u64,
    /// Numbers of jobs, each once.
    pub jobs: Vec<u64>,
    /// Each once.
    pub workers: Vec<WorkerId>,
    /// When the last of all jobs ended that were ever removed.
    pub removed: Option<Timestamp>,
}

/// The oldest of what a sweep looks for: nothing can be overdue before its bound has passed these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oldest {
    /// Last sign of life of a running job whose lease does not say how long it lasts.
    pub sign: Option<Timestamp>,
    /// Start of an unanswered stop of such a job.
    pub stop: Option<Timestamp>,
    /// Earliest alarm of any job.
    pub alarm: Option<Timestamp>,
    /// Oldest reservation that was not claimed.
    pub reservation: Option<Timestamp>,
}

/// The ends of leases that say how long they last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseEnds {
    /// The next one.
    pub next: Option<Timestamp>,
    /// How long the shortest lasts of those that have ended.
    pub shortest: Option<Span>,
}

/// A gang of which every task that has not ended is blocked and waits for no other job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingGang {
    /// The first of these tasks; what is said of it holds for all of them.
    pub first: Job,
    /// How many there are.
    pub tasks: u32,
}

/// What the lease of a leader is locked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseLock {
    /// A pass: nobody takes over before its transaction has ended. Waits for a takeover under way.
    Pass,
    /// The holder renews, also while one of its passes is under way. Skips what another one is changing.
    Renew,
    /// Another one takes over. Skips leases under which a pass is under way.
    TakeOver,
}

type Done<T> = Result<T, StoreError>;

/// One transaction. It ends with the value: the backend commits after the verb returned `Ok` and
/// forgets everything after an `Err`.
#[expect(async_fn_in_trait, reason = "only our backends implement it, each with a concrete type")]
pub trait Tx: OutputTx {
    /// Whether no other transaction can run at the same time (one writer). The engine then need not
    /// collect rows in advance in order to lock them in one order.
    const EXCLUSIVE: bool;

    // Jobs by id.

    /// Locks and returns the jobs that exist, locking in id order. Unknown ids are left out.
    async fn lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>>;
    /// The jobs that exist, unlocked, in any order.
    async fn read_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>>;
    /// Inserts and numbers the jobs (`seq`) in the order given.
    async fn insert_jobs(&mut self, jobs: &mut [Job]) -> Done<()>;
    /// Writes everything that may change of jobs which exist and are locked.
    async fn update_jobs(&mut self, jobs: &[Job]) -> Done<()>;
    /// Writes the spec, the priority, the rank and the shape of jobs which exist and are locked.
    async fn rewrite_jobs(&mut self, jobs: &[Job]) -> Done<()>;
    /// Removes jobs with all that belongs to them (edges, events, checkpoints, artifacts, moved output).
    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()>;
    /// Ids of jobs by idempotency key, as (key, id); unknown keys are left out.
    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>>;

    /// The unfinished jobs that have these unique keys, as (key, id). Until the end of the transaction no
    /// other one inserts a job with one of these keys.
    async fn lock_unique(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>>;

    // Pipelines and arrays.

    /// Inserts and numbers the sets (`seq`).
    async fn insert_sets(&mut self, sets: &mut [JobSet]) -> Done<()>;
    /// Locks and returns the sets that exist.
    async fn lock_sets(&mut self, ids: &[SetId]) -> Done<Vec<JobSet>>;
    /// Writes the size and the outline of sets which exist and are locked.
    async fn update_sets(&mut self, sets: &[JobSet]) -> Done<()>;
    /// Newest first.
    async fn sets(&mut self, filter: &SetFilter) -> Done<Vec<JobSet>>;
    /// The jobs of these sets, counted by step and state.
    async fn count_sets(&mut self, ids: &[SetId]) -> Done<Vec<SetCount>>;
    /// Removes sets that were made before `before` and have no job left; says how many.
    async fn delete_empty_sets(&mut self, before: Timestamp, limit: usize) -> Done<u32>;

    // Gangs.

    /// All tasks of these gangs, unlocked, in any order.
    async fn gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>>;
    /// Ids of all tasks of the gangs that these jobs belong to; nothing for jobs without one.
    async fn siblings(&mut self, ids: &[JobId]) -> Done<Vec<JobId>>;
    /// The gangs that wait to be placed, by rank and age of their first task.
    async fn waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>>;
    /// Gangs with a task that was reserved before `before` and not claimed, the oldest first.
    async fn stale_gangs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<GangId>>;
    /// Locks and returns what is reserved for these workers, in one order for all of them: by time of the
    /// reservation, gang and index. What another transaction has locked is skipped.
    async fn lock_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>>;
    /// Running jobs of a worker.
    async fn running_jobs(&mut self, worker: &WorkerId) -> Done<Vec<Job>>;
    /// Reserved, running and stopping jobs of these workers, unlocked.
    async fn held_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>>;
    /// All reserved, running and stopping jobs, also of workers that nobody knows, unlocked.
    async fn all_held(&mut self) -> Done<Vec<Job>>;
    /// Those of the jobs with these numbers that are reserved, running or stopping, unlocked.
    async fn held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>>;
    /// Gangs, newest first, by the number of their first task.
    async fn gangs(&mut self, before_seq: Option<u64>, limit: usize) -> Done<Vec<(u64, GangId)>>;

    // Dependencies.

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()>;
    /// All edges that start at one of these jobs.
    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>>;

    // Pending work.

    /// The shapes stored under these names; unknown ones are left out.
    async fn shapes(&mut self, ids: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>>;
    /// Stores shapes; a name that exists already is left as it is.
    async fn insert_shapes(&mut self, shapes: &[(ShapeId, Shape)]) -> Done<()>;
    /// The shapes that have at least one pending job outside gangs.
    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Shape)>>;
    /// Locks and returns, for each shape, its first `limit` pending jobs outside gangs: `rank`, then `seq`.
    /// Jobs that another transaction has locked are skipped, not waited for.
    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>>;
    /// The first pending job outside gangs of each of these shapes, unlocked.
    async fn heads(&mut self, shapes: &[ShapeId]) -> Done<Vec<Job>>;
    /// The first pending job outside gangs of each shape and rank, unlocked; no more than `limit`.
    async fn line_heads(&mut self, limit: usize) -> Done<Vec<Job>>;
    /// All jobs that are pinned, unlocked.
    async fn pinned_jobs(&mut self) -> Done<Vec<Job>>;
    /// Unfinished jobs with a number greater than `seq`, by number, unlocked.
    async fn unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>>;
    /// What the ranks of jobs were written by, if that was noted.
    async fn ranked_by(&mut self) -> Done<Option<String>>;
    async fn note_ranked_by(&mut self, rule: &str) -> Done<()>;
    /// How many pending jobs of these shapes go before this one: a smaller rank, or the same and a smaller `seq`.
    async fn count_ahead(&mut self, job: &Job, shapes: &[ShapeId]) -> Done<u64>;

    // What is held, and what is overdue.

    /// Reserved, running and stopping jobs of these workers, counted by shape.
    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>>;
    /// Reserved, running and stopping jobs of these workers, one by one, by worker and age.
    async fn held_devices(&mut self, workers: &[WorkerId]) -> Done<Vec<HeldJob>>;
    /// Jobs of these workers that are `preempting`.
    async fn stopping_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>>;
    /// Ids of running jobs whose lease does not say how long it lasts and whose last sign of life is before `before`,
    /// oldest first.
    async fn silent_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>>;
    /// Ids of jobs whose lease says how long it lasts, ended before `now` ([`Job::lease_ends_at`]) and lasts for less
    /// than `listened`, the one that ended first first.
    async fn ended_leases(&mut self, now: Timestamp, listened: Span, limit: usize) -> Done<Vec<JobId>>;
    /// What leases that say how long they last come to after `now`.
    async fn lease_ends(&mut self, now: Timestamp) -> Done<LeaseEnds>;
    /// Ids of `preempting` jobs whose lease does not say how long it lasts and whose drain started before `before`,
    /// oldest first.
    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>>;
    /// Ids of jobs whose alarm ([`Job::alarm`]) is not after `now`, earliest first.
    async fn alarms(&mut self, now: Timestamp, limit: usize) -> Done<Vec<JobId>>;
    async fn oldest(&mut self) -> Done<Oldest>;
    /// Ids of terminal jobs that ended before `before` and on which no unfinished job depends, oldest first.
    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>>;

    // Queues and concurrency keys.

    /// Locks and returns the queues that were set, locking by name.
    async fn lock_queues(&mut self, names: &[QueueName]) -> Done<Vec<Queue>>;
    /// All queues that were set, by name.
    async fn queues(&mut self) -> Done<Vec<Queue>>;
    /// Inserts or replaces.
    async fn put_queues(&mut self, queues: &[Queue]) -> Done<()>;
    async fn delete_queues(&mut self, names: &[QueueName]) -> Done<()>;
    /// Locks these trees of queues, each named by its root, in the order given, until the end of the
    /// transaction; returns the queues that belong to them. A tree need not exist to be locked.
    async fn lock_trees(&mut self, roots: &[QueueName]) -> Done<Vec<Queue>>;
    /// Reserved, running and stopping jobs of these queues, counted by shape.
    async fn held_by_queue(&mut self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>>;
    /// Jobs that wait, counted by shape: pending ones of these shapes; blocked, delayed and held ones of these
    /// queues. A shape may come twice.
    async fn waiting_by_shape(
        &mut self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>>;
    /// Keeps other transactions from starting jobs of these keys, and counts the jobs of each that are
    /// reserved, running or stopping. Keys without any are left out.
    async fn lock_keys(&mut self, keys: &[String]) -> Done<Vec<(String, u32)>>;
    /// Ids of the jobs of a key that are reserved, running or stopping.
    async fn holders_of_key(&mut self, key: &str, limit: usize) -> Done<Vec<JobId>>;

    // Webhooks.

    /// Locks and returns the webhooks that exist.
    async fn lock_webhooks(&mut self, ids: &[WebhookId]) -> Done<Vec<Webhook>>;
    /// All webhooks, by id.
    async fn webhooks(&mut self) -> Done<Vec<Webhook>>;
    /// Inserts or replaces.
    async fn put_webhooks(&mut self, webhooks: &[Webhook]) -> Done<()>;
    /// Removes webhooks with their dead letters.
    async fn delete_webhooks(&mut self, ids: &[WebhookId]) -> Done<()>;
    /// Inserts or replaces.
    async fn put_dead_letters(&mut self, letters: &[DeadLetter]) -> Done<()>;
    /// Dead letters that match, by webhook and event.
    async fn dead_letters(&mut self, filter: &LetterFilter) -> Done<Vec<DeadLetter>>;
    /// How many dead letters each webhook has; those without any are left out.
    async fn count_dead_letters(&mut self) -> Done<Vec<(WebhookId, u64)>>;
    async fn delete_dead_letters(&mut self, letters: &[DeliveryId]) -> Done<()>;

    // Records and the audit log.

    /// Records of a kind, by key.
    async fn records(&mut self, kind: RecordKind, chosen: Chosen<'_>) -> Done<Vec<Record>>;
    /// Inserts or replaces.
    async fn put_records(&mut self, records: &[Record]) -> Done<()>;
    async fn delete_records(&mut self, kind: RecordKind, keys: &[String]) -> Done<()>;
    /// Appends and numbers the lines.
    async fn append_audit(&mut self, lines: &[AuditLine]) -> Done<()>;
    /// Lines that match, newest first.
    async fn audit(&mut self, filter: &AuditFilter) -> Done<Vec<AuditLine>>;
    /// Removes those of the `limit` oldest lines that are older than `before`; says how many.
    async fn forget_audit(&mut self, before: Timestamp, limit: usize) -> Done<u32>;

    // How long runs took.

    /// The run times of these series, as far as they are known.
    async fn run_times(&mut self, series: &[String]) -> Done<Vec<(String, RunTimes)>>;
    /// Inserts or replaces, by name.
    async fn put_run_times(&mut self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()>;
    /// Forgets up to `limit` series that were not written since `before`.
    async fn forget_run_times(&mut self, before: Timestamp, limit: usize) -> Done<()>;

    // Who used what.

    /// Adds to the sums. The entries come in order, each once.
    async fn add_usage(&mut self, entries: &[UsageEntry]) -> Done<()>;
    /// The sums from one hour up to but not including another, added up over buckets of so many hours.
    async fn usage_sums(&mut self, from: i64, to: i64, bucket_hours: i64) -> Done<Vec<UsageEntry>>;
    /// Forgets up to `limit` sums of hours before this one.
    async fn forget_usage(&mut self, before: i64, limit: usize) -> Done<()>;
    /// Jobs that ended from one time up to but not including another, the latest first.
    async fn ended_jobs(&mut self, since: Timestamp, until: Timestamp, limit: usize) -> Done<Vec<Job>>;

    // Leadership.

    /// The leases of all roles, unlocked.
    async fn leader_leases(&mut self) -> Done<Vec<LeaderLease>>;
    /// Locks the leases of these roles until the end of the transaction, and returns them as they are then.
    async fn lock_leader_leases(&mut self, roles: &[Role], lock: LeaseLock) -> Done<Vec<LeaderLease>>;
    /// Replaces leases that are locked.
    async fn put_leader_leases(&mut self, leases: &[LeaderLease]) -> Done<()>;

    /// The secret of the store; the proposal becomes it when there is none.
    async fn secret(&mut self, proposal: &str) -> Done<String>;

    // Workers.

    /// Locks and returns the workers that exist, locking in id order.
    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>>;
    /// All workers, unlocked, by id.
    async fn workers(&mut self) -> Done<Vec<Worker>>;
    /// These workers, as far as they exist, unlocked.
    async fn read_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>>;
    /// The workers that are offline, were not heard of since `since`, or keep room.
    async fn workers_apart(&mut self, since: Timestamp) -> Done<Vec<Apart>>;
    /// Inserts or replaces.
    async fn put_workers(&mut self, workers: &[Worker]) -> Done<()>;

    // Lists, events, checkpoints.

    /// Jobs that match, newest (`seq`) first.
    async fn list_jobs(&mut self, filter: &JobFilter) -> Done<Vec<Job>>;
    async fn counts(&mut self) -> Done<Counts>;
    /// Appends and numbers the events in the order given.
    async fn append_events(&mut self, events: &mut [Event]) -> Done<()>;
    /// Events after a position, oldest first. Never skips an event that a later read would return
    /// before the last one returned here.
    async fn events(&mut self, filter: &EventFilter) -> Done<Vec<Event>>;
    /// The position up to which no new event can appear, whether or not the newest ones were removed since;
    /// 0 before the first.
    async fn last_event(&mut self) -> Done<u64>;
    /// What the events after a position speak of; `None` when there may be more than `limit`. Says more than
    /// [`Tx::events`]: also what was committed beyond the position up to which the log is complete, and will be
    /// said again.
    async fn changed_since(&mut self, position: u64, limit: u64) -> Done<Option<Changed>>;
    /// Notes when the last of some jobs ended that are removed, and whose events nobody will read any more.
    async fn note_removed(&mut self, newest: Timestamp) -> Done<()>;
    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>>;
    /// Replaces the checkpoint of a job.
    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()>;
    /// Inserts or replaces a part of a checkpoint of a job that exists.
    async fn put_part(&mut self, part: &CheckpointPart) -> Done<()>;
    /// How many bytes the parts of a job with this name have.
    async fn parts_length(&mut self, id: JobId, name: &str) -> Done<u64>;
    /// Removes all parts of a job but those with this name.
    async fn keep_parts(&mut self, id: JobId, name: &str) -> Done<()>;
    async fn part(&mut self, name: &str, number: u32) -> Done<Option<Vec<u8>>>;

    // Artifacts.

    /// Inserts or replaces, by job, lease and name; their bytes count for this queue and this user.
    async fn put_artifacts(&mut self, artifacts: &[Artifact], queue: &str, user: &str) -> Done<()>;
    /// Artifacts of one attempt that match, by name.
    async fn artifacts(&mut self, filter: &ArtifactFilter) -> Done<Vec<Artifact>>;
    /// The attempts of a job that left artifacts, the last first.
    async fn artifact_runs(&mut self, job: JobId) -> Done<Vec<ArtifactRun>>;
    /// Bytes of all artifacts of a queue or of a user.
    async fn artifact_bytes(&mut self, of: ArtifactsOf<'_>) -> Done<u64>;
    /// Takes the blobs from so many artifacts that were kept before a time, the oldest first, and tells which these were.
    async fn expire_artifacts(&mut self, old: ExpireArtifacts, now: Timestamp) -> Done<Vec<String>>;
    /// Those of these blobs that an artifact or moved output names.
    async fn known_blobs(&mut self, blobs: &[String]) -> Done<Vec<String>>;

    // Schedulers.

    /// Inserts or replaces.
    async fn put_instance(&mut self, instance: &Instance) -> Done<()>;
    /// By id.
    async fn instances(&mut self) -> Done<Vec<Instance>>;
}
