//! What a backend provides: primitives on rows inside one transaction.
//!
//! Every primitive takes and returns many rows, so that a verb costs a constant number of round trips
//! whatever the size of its batch. None of them decides anything.

use muster_domain::{Event, Job, JobId, Requirement, ShapeId, Timestamp, Worker, WorkerId};

use crate::error::StoreError;
use crate::query::{Counts, EventFilter, JobFilter};

/// `child` waits for `parent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    pub parent: JobId,
    pub child: JobId,
}

/// How many jobs of one shape a worker holds (reserved, running or stopping).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub worker: WorkerId,
    pub shape: ShapeId,
    pub jobs: u32,
}

type Done<T> = Result<T, StoreError>;

/// One transaction. It ends with the value: the backend commits after the verb returned `Ok` and
/// forgets everything after an `Err`.
#[expect(async_fn_in_trait, reason = "only our backends implement it, each with a concrete type")]
pub trait Tx {
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
    /// Removes jobs with all that belongs to them (edges, events, checkpoints).
    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()>;
    /// Ids of jobs by idempotency key, as (key, id); unknown keys are left out.
    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>>;

    // Dependencies.

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()>;
    /// All edges that start at one of these jobs.
    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>>;

    // Pending work.

    /// The requirements stored under these names; unknown ones are left out.
    async fn requirements(&mut self, shapes: &[ShapeId]) -> Done<Vec<(ShapeId, Requirement)>>;
    /// Stores requirements; a name that exists already is left as it is.
    async fn insert_requirements(&mut self, shapes: &[(ShapeId, Requirement)]) -> Done<()>;
    /// The shapes that have at least one pending job outside gangs.
    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Requirement)>>;
    /// Locks and returns, for each shape, its first `limit` pending jobs outside gangs: priority
    /// descending, then `seq`. Jobs that another transaction has locked are skipped, not waited for.
    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>>;
    /// How many pending jobs go before this one: higher priority, or the same and a smaller `seq`.
    async fn count_ahead(&mut self, job: &Job) -> Done<u64>;

    // What is held, and what is overdue.

    /// Reserved, running and stopping jobs of these workers, counted by shape.
    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>>;
    /// Jobs of these workers that are `preempting`.
    async fn stopping_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>>;
    /// Ids of running jobs whose last sign of life is before `before`, oldest first.
    async fn silent_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>>;
    /// Ids of `preempting` jobs whose drain started before `before`, oldest first.
    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>>;
    /// The oldest last sign of life of a running job, and the oldest drain start of a stopping one.
    async fn oldest_signs(&mut self) -> Done<(Option<Timestamp>, Option<Timestamp>)>;
    /// Ids of terminal jobs that ended before `before` and on which no unfinished job depends, oldest first.
    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>>;

    // Workers.

    /// Locks and returns the workers that exist, locking in id order.
    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>>;
    /// All workers, unlocked, by id.
    async fn workers(&mut self) -> Done<Vec<Worker>>;
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
    /// The position of the newest event that `events` would return; 0 when there is none.
    async fn last_event(&mut self) -> Done<u64>;
    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>>;
    /// Replaces the checkpoint of a job.
    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()>;
}
