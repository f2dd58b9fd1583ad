//! One transaction on one connection: the primitives of [`Tx`], grouped by topic in the files beside this.
//!
//! Nothing here waits for anything but the file, so that every future is ready when it is first polled.

use std::collections::HashMap;

use muster_domain::{
    Artifact, DeadLetter, DeliveryId, Event, GangId, Job, JobId, JobSet, LeaderLease, Queue, QueueName, Role,
    RunTimes, SetId, Shape, ShapeId, Span, Timestamp, Webhook, WebhookId, Worker, WorkerId,
};
use muster_store::{
    Apart, ArtifactFilter, ArtifactRun, ArtifactsOf, AuditFilter, AuditLine, Changed, CheckpointPart, Chosen,
    Counts, Edge, EventFilter, ExpireArtifacts, HeldJob, Instance, JobFilter, LeaseEnds, LeaseLock,
    LetterFilter, Oldest, Record, RecordKind, SetCount, SetFilter, StoreError, Tx, Usage, UsageEntry,
    WaitingGang,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};

use crate::error::{during, failed};
use crate::extent::Mark;
use crate::numbers::Number;
use crate::row::id_bytes;

pub(crate) type Done<T> = Result<T, StoreError>;

/// The transaction that is open on the connection.
#[derive(Debug)]
pub(crate) struct SqliteTx<'c> {
    connection: &'c Connection,
    jobs: Number,
    events: Number,
    sets: Number,
    /// Numbers of the jobs that this transaction has seen; other tables refer to jobs by number.
    seqs: HashMap<JobId, i64>,
    /// What is stored of the jobs that this transaction has read or written.
    marks: HashMap<JobId, Mark>,
}

impl<'c> SqliteTx<'c> {
    /// The caller has begun the transaction, and ends it.
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            jobs: Number::default(),
            events: Number::default(),
            sets: Number::default(),
            seqs: HashMap::new(),
            marks: HashMap::new(),
        }
    }

    pub(crate) fn statement(&self, operation: &'static str, sql: &str) -> Done<CachedStatement<'c>> {
        self.connection.prepare_cached(sql).map_err(during(operation))
    }

    /// Runs a query and maps every row.
    pub(crate) fn rows<T>(
        &self,
        operation: &'static str,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> Done<T>,
    ) -> Done<Vec<T>> {
        let mut found = Vec::new();
        collect(operation, &mut self.statement(operation, sql)?, params, map, &mut found)?;
        Ok(found)
    }

    /// Runs one query for each key and maps all rows. A prepared statement for each key is the fastest way
    /// to many rows here, and its text does not depend on their number.
    pub(crate) fn rows_of_each<P: Params, T>(
        &self,
        operation: &'static str,
        sql: &str,
        keys: impl IntoIterator<Item = P>,
        mut map: impl FnMut(&Row<'_>) -> Done<T>,
    ) -> Done<Vec<T>> {
        let mut statement = self.statement(operation, sql)?;
        let mut found = Vec::new();
        for key in keys {
            collect(operation, &mut statement, key, &mut map, &mut found)?;
        }
        Ok(found)
    }

    /// Reserves `count` numbers for jobs and returns the first.
    pub(crate) fn number_jobs(&mut self, count: usize) -> Done<i64> {
        self.jobs.reserve(self.connection, "job", count)
    }

    pub(crate) fn number_events(&mut self, count: usize) -> Done<i64> {
        self.events.reserve(self.connection, "event", count)
    }

    pub(crate) fn number_sets(&mut self, count: usize) -> Done<i64> {
        self.sets.reserve(self.connection, "set", count)
    }

    pub(crate) fn remember(&mut self, id: JobId, seq: i64) {
        self.seqs.insert(id, seq);
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.seqs.remove(&id);
        self.unmark(id);
    }

    pub(crate) fn mark(&mut self, id: JobId, stored: Mark) {
        self.marks.insert(id, stored);
    }

    pub(crate) fn unmark(&mut self, id: JobId) {
        self.marks.remove(&id);
    }

    /// What is known to be stored of a job.
    pub(crate) fn stored(&self, id: JobId) -> Option<&Mark> {
        self.marks.get(&id)
    }

    /// The number of a stored job.
    pub(crate) fn find_seq(&mut self, id: JobId) -> Done<Option<i64>> {
        if let Some(seq) = self.seqs.get(&id) {
            return Ok(Some(*seq));
        }
        let mut statement = self.statement("find a job", "SELECT seq FROM jobs WHERE id = ?1")?;
        let found = statement.query_row([id_bytes(id)], |row| row.get::<_, i64>(0)).optional();
        let found = found.map_err(during("find a job"))?;
        if let Some(seq) = found {
            self.remember(id, seq);
        }
        Ok(found)
    }

    /// The number of a job that must be stored.
    pub(crate) fn seq(&mut self, id: JobId) -> Done<i64> {
        self.find_seq(id)?.ok_or_else(|| failed("find a job", format!("{id} is not stored")))
    }

    /// Writes what was kept back; the caller commits next.
    pub(crate) fn finish(self) -> Done<()> {
        for (kind, number) in [("job", &self.jobs), ("event", &self.events), ("set", &self.sets)] {
            let Some(last) = number.last else { continue };
            let mut statement =
                self.statement("write numbers", "UPDATE numbers SET last = ?2 WHERE kind = ?1")?;
            statement.execute(params![kind, last]).map_err(during("write numbers"))?;
        }
        Ok(())
    }
}

fn collect<T>(
    operation: &'static str,
    statement: &mut CachedStatement<'_>,
    params: impl Params,
    mut map: impl FnMut(&Row<'_>) -> Done<T>,
    found: &mut Vec<T>,
) -> Done<()> {
    let mut rows = statement.query(params).map_err(during(operation))?;
    while let Some(row) = rows.next().map_err(during(operation))? {
        found.push(map(row)?);
    }
    Ok(())
}

impl Tx for SqliteTx<'_> {
    const EXCLUSIVE: bool = true;

    async fn lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.select_jobs(ids)
    }

    async fn read_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.select_jobs(ids)
    }

    async fn insert_jobs(&mut self, jobs: &mut [Job]) -> Done<()> {
        self.insert_new_jobs(jobs)
    }

    async fn update_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.write_jobs(jobs)
    }

    async fn rewrite_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.rewrite(jobs)
    }

    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        self.remove_jobs(ids)
    }

    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        self.select_keys(keys)
    }

    async fn lock_unique(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        self.select_unique(keys)
    }

    async fn insert_sets(&mut self, sets: &mut [JobSet]) -> Done<()> {
        self.insert_new_sets(sets)
    }

    async fn lock_sets(&mut self, ids: &[SetId]) -> Done<Vec<JobSet>> {
        self.select_sets_by_id(ids)
    }

    async fn update_sets(&mut self, sets: &[JobSet]) -> Done<()> {
        self.write_sets(sets)
    }

    async fn sets(&mut self, filter: &SetFilter) -> Done<Vec<JobSet>> {
        self.select_sets(filter)
    }

    async fn count_sets(&mut self, ids: &[SetId]) -> Done<Vec<SetCount>> {
        self.count_members(ids)
    }

    async fn delete_empty_sets(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        self.remove_empty_sets(before, limit)
    }

    async fn gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>> {
        self.select_gang_tasks(gangs)
    }

    async fn siblings(&mut self, ids: &[JobId]) -> Done<Vec<JobId>> {
        self.select_siblings(ids)
    }

    async fn waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>> {
        self.select_waiting_gangs(limit)
    }

    async fn stale_gangs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<GangId>> {
        self.select_stale_gangs(before, limit)
    }

    async fn lock_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_reserved(workers)
    }

    async fn all_held(&mut self) -> Done<Vec<Job>> {
        self.select_all_held()
    }

    async fn held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>> {
        self.select_held_among(seqs)
    }

    async fn held_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_held(workers)
    }

    async fn running_jobs(&mut self, worker: &WorkerId) -> Done<Vec<Job>> {
        self.select_running(worker)
    }

    async fn gangs(&mut self, before_seq: Option<u64>, limit: usize) -> Done<Vec<(u64, GangId)>> {
        self.select_gangs(before_seq, limit)
    }

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()> {
        self.write_edges(edges)
    }

    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        self.select_edges(parents)
    }

    async fn shapes(&mut self, ids: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>> {
        self.select_shapes(ids)
    }

    async fn insert_shapes(&mut self, shapes: &[(ShapeId, Shape)]) -> Done<()> {
        self.write_shapes(shapes)
    }

    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Shape)>> {
        self.select_pending_shapes()
    }

    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        self.select_heads(shapes, limit)
    }

    async fn heads(&mut self, shapes: &[ShapeId]) -> Done<Vec<Job>> {
        self.select_heads(shapes, 1)
    }

    async fn line_heads(&mut self, limit: usize) -> Done<Vec<Job>> {
        self.select_line_heads(limit)
    }

    async fn pinned_jobs(&mut self) -> Done<Vec<Job>> {
        self.select_pinned()
    }

    async fn unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>> {
        self.select_unfinished_after(seq, limit)
    }

    async fn ranked_by(&mut self) -> Done<Option<String>> {
        self.select_ranked_by()
    }

    async fn note_ranked_by(&mut self, rule: &str) -> Done<()> {
        self.write_ranked_by(rule)
    }

    async fn count_ahead(&mut self, job: &Job, shapes: &[ShapeId]) -> Done<u64> {
        self.count_before(job, shapes)
    }

    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        self.count_held(workers)
    }

    async fn held_devices(&mut self, workers: &[WorkerId]) -> Done<Vec<HeldJob>> {
        self.select_held_devices(workers)
    }

    async fn stopping_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_stopping(workers)
    }

    async fn silent_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_silent(before, limit)
    }

    async fn ended_leases(&mut self, now: Timestamp, listened: Span, limit: usize) -> Done<Vec<JobId>> {
        self.select_ended_leases(now, listened, limit)
    }

    async fn lease_ends(&mut self, now: Timestamp) -> Done<LeaseEnds> {
        self.select_lease_ends(now)
    }

    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_overdue_stops(before, limit)
    }

    async fn alarms(&mut self, now: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_alarms(now, limit)
    }

    async fn oldest(&mut self) -> Done<Oldest> {
        self.select_oldest()
    }

    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_finished(before, limit)
    }

    async fn lock_queues(&mut self, names: &[QueueName]) -> Done<Vec<Queue>> {
        self.select_queues(names)
    }

    async fn queues(&mut self) -> Done<Vec<Queue>> {
        self.select_all_queues()
    }

    async fn put_queues(&mut self, queues: &[Queue]) -> Done<()> {
        self.write_queues(queues)
    }

    async fn delete_queues(&mut self, names: &[QueueName]) -> Done<()> {
        self.remove_queues(names)
    }

    async fn lock_trees(&mut self, roots: &[QueueName]) -> Done<Vec<Queue>> {
        self.select_trees(roots)
    }

    async fn held_by_queue(&mut self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>> {
        self.count_held_by_queue(queues)
    }

    async fn waiting_by_shape(
        &mut self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>> {
        self.count_waiting(shapes, queues)
    }

    async fn lock_keys(&mut self, keys: &[String]) -> Done<Vec<(String, u32)>> {
        self.count_holders(keys)
    }

    async fn holders_of_key(&mut self, key: &str, limit: usize) -> Done<Vec<JobId>> {
        self.select_holders(key, limit)
    }

    async fn records(&mut self, kind: RecordKind, chosen: Chosen<'_>) -> Done<Vec<Record>> {
        self.select_records(kind, chosen)
    }

    async fn put_records(&mut self, records: &[Record]) -> Done<()> {
        self.write_records(records)
    }

    async fn delete_records(&mut self, kind: RecordKind, keys: &[String]) -> Done<()> {
        self.remove_records(kind, keys)
    }

    async fn append_audit(&mut self, lines: &[AuditLine]) -> Done<()> {
        self.write_audit(lines)
    }

    async fn audit(&mut self, filter: &AuditFilter) -> Done<Vec<AuditLine>> {
        self.select_audit(filter)
    }

    async fn forget_audit(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        self.remove_audit(before, limit)
    }

    async fn lock_webhooks(&mut self, ids: &[WebhookId]) -> Done<Vec<Webhook>> {
        self.select_webhooks(ids)
    }

    async fn webhooks(&mut self) -> Done<Vec<Webhook>> {
        self.select_all_webhooks()
    }

    async fn put_webhooks(&mut self, webhooks: &[Webhook]) -> Done<()> {
        self.write_webhooks(webhooks)
    }

    async fn delete_webhooks(&mut self, ids: &[WebhookId]) -> Done<()> {
        self.remove_webhooks(ids)
    }

    async fn put_dead_letters(&mut self, letters: &[DeadLetter]) -> Done<()> {
        self.write_dead_letters(letters)
    }

    async fn dead_letters(&mut self, filter: &LetterFilter) -> Done<Vec<DeadLetter>> {
        self.select_dead_letters(filter)
    }

    async fn count_dead_letters(&mut self) -> Done<Vec<(WebhookId, u64)>> {
        self.count_letters()
    }

    async fn delete_dead_letters(&mut self, letters: &[DeliveryId]) -> Done<()> {
        self.remove_dead_letters(letters)
    }

    async fn run_times(&mut self, series: &[String]) -> Done<Vec<(String, RunTimes)>> {
        self.select_run_times(series)
    }

    async fn put_run_times(&mut self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()> {
        self.write_run_times(times, at)
    }

    async fn forget_run_times(&mut self, before: Timestamp, limit: usize) -> Done<()> {
        self.delete_run_times(before, limit)
    }

    async fn add_usage(&mut self, entries: &[UsageEntry]) -> Done<()> {
        self.write_usage(entries)
    }

    async fn usage_sums(&mut self, from: i64, to: i64, bucket_hours: i64) -> Done<Vec<UsageEntry>> {
        self.select_usage(from, to, bucket_hours)
    }

    async fn forget_usage(&mut self, before: i64, limit: usize) -> Done<()> {
        self.delete_usage(before, limit)
    }

    async fn ended_jobs(&mut self, since: Timestamp, until: Timestamp, limit: usize) -> Done<Vec<Job>> {
        self.select_ended_jobs(since, until, limit)
    }

    async fn leader_leases(&mut self) -> Done<Vec<LeaderLease>> {
        self.select_leader_leases(&Role::ALL)
    }

    async fn lock_leader_leases(&mut self, roles: &[Role], _lock: LeaseLock) -> Done<Vec<LeaderLease>> {
        self.select_leader_leases(roles)
    }

    async fn put_leader_leases(&mut self, leases: &[LeaderLease]) -> Done<()> {
        self.write_leader_leases(leases)
    }

    async fn secret(&mut self, proposal: &str) -> Done<String> {
        self.keep_secret(proposal)
    }

    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.select_workers(ids)
    }

    async fn workers(&mut self) -> Done<Vec<Worker>> {
        self.select_all_workers()
    }

    async fn read_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.select_workers(ids)
    }

    async fn workers_apart(&mut self, since: Timestamp) -> Done<Vec<Apart>> {
        self.select_apart(since)
    }

    async fn put_workers(&mut self, workers: &[Worker]) -> Done<()> {
        self.write_workers(workers)
    }

    async fn list_jobs(&mut self, filter: &JobFilter) -> Done<Vec<Job>> {
        self.select_list(filter)
    }

    async fn counts(&mut self) -> Done<Counts> {
        self.count_unfinished()
    }

    async fn append_events(&mut self, events: &mut [Event]) -> Done<()> {
        self.insert_events(events)
    }

    async fn events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        self.select_events(filter)
    }

    async fn last_event(&mut self) -> Done<u64> {
        self.select_last_event()
    }

    async fn changed_since(&mut self, position: u64, limit: u64) -> Done<Option<Changed>> {
        self.select_changed(position, limit)
    }

    async fn note_removed(&mut self, newest: Timestamp) -> Done<()> {
        self.write_removed(newest)
    }

    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        self.select_checkpoints(ids)
    }

    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        self.write_checkpoint(id, bytes)
    }

    async fn put_part(&mut self, part: &CheckpointPart) -> Done<()> {
        self.write_part(part)
    }

    async fn parts_length(&mut self, id: JobId, name: &str) -> Done<u64> {
        self.select_parts_length(id, name)
    }

    async fn keep_parts(&mut self, id: JobId, name: &str) -> Done<()> {
        self.leave_parts(id, name)
    }

    async fn part(&mut self, name: &str, number: u32) -> Done<Option<Vec<u8>>> {
        self.select_part(name, number)
    }

    async fn put_artifacts(&mut self, artifacts: &[Artifact], queue: &str, user: &str) -> Done<()> {
        self.write_artifacts(artifacts, queue, user)
    }

    async fn artifacts(&mut self, filter: &ArtifactFilter) -> Done<Vec<Artifact>> {
        self.select_artifacts(filter)
    }

    async fn artifact_runs(&mut self, job: JobId) -> Done<Vec<ArtifactRun>> {
        self.select_artifact_runs(job)
    }

    async fn expire_artifacts(&mut self, old: ExpireArtifacts, now: Timestamp) -> Done<Vec<String>> {
        self.take_old_blobs(old, now)
    }

    async fn artifact_bytes(&mut self, of: ArtifactsOf<'_>) -> Done<u64> {
        self.sum_artifacts(of)
    }

    async fn known_blobs(&mut self, blobs: &[String]) -> Done<Vec<String>> {
        self.select_known_blobs(blobs)
    }

    async fn put_instance(&mut self, instance: &Instance) -> Done<()> {
        self.write_instance(instance)
    }

    async fn instances(&mut self) -> Done<Vec<Instance>> {
        self.select_instances()
    }
}
