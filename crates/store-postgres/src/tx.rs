//! One transaction on one connection: the primitives of [`Tx`], grouped by topic in the files beside this.
//!
//! Guarantees: a connection never goes back to the pool inside a transaction; a transaction in which a
//! statement failed is never committed.

use std::collections::HashMap;
use std::pin::pin;

use deadpool_postgres::{Client, Object};
use futures::future::try_join;
use muster_domain::{
    DeadLetter, DeliveryId, Event, GangId, Job, JobId, JobSet, LeaderLease, Queue, QueueName, Role, RunTimes,
    SetId, Shape, ShapeId, Timestamp, Webhook, WebhookId, Worker, WorkerId,
};
use muster_store::{
    Apart, Changed, Counts, Edge, EventFilter, HeldJob, JobFilter, LeaseLock, LetterFilter, Oldest, SetCount,
    SetFilter, StoreError, Tx, Usage, WaitingGang,
};
use tokio_postgres::Row;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::error::{during, failed};
pub(crate) use crate::scope::Scope;

pub(crate) type Done<T> = Result<T, StoreError>;
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Where [`PostgresTx::copy`] puts rows.
#[derive(Debug)]
pub(crate) struct Target<const N: usize> {
    pub(crate) operation: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) types: [Type; N],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was sent yet; the first statement takes `BEGIN` along, which saves a round trip.
    Fresh,
    Open,
    /// A statement failed or was abandoned; the transaction can only be rolled back.
    Failed,
    Ended,
}

/// A connection and the transaction on it.
#[derive(Debug)]
pub(crate) struct PostgresTx {
    client: Option<Client>,
    scope: Scope,
    state: State,
    /// Numbers of the jobs that this transaction has seen; other tables refer to jobs by number.
    seqs: HashMap<JobId, i64>,
}

impl PostgresTx {
    pub(crate) fn new(client: Client, scope: Scope) -> Self {
        Self { client: Some(client), scope, state: State::Fresh, seqs: HashMap::new() }
    }

    fn connection(&self, operation: &'static str) -> Done<&Client> {
        self.client.as_ref().ok_or_else(|| failed(operation, "the transaction has ended"))
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(
        &mut self,
        operation: &'static str,
        sql: &str,
        params: Params<'_>,
    ) -> Done<Vec<Row>> {
        let begin = self.first_words(operation)?;
        let client = self.connection(operation)?;
        let work = async {
            let statement = client.prepare_cached(sql).await?;
            // Sent together: the server takes them one after the other.
            let query = client.query(&statement, params);
            match begin {
                Some(begin) => Ok(try_join(client.batch_execute(begin), query).await?.1),
                None => query.await,
            }
        };
        let rows = work.await.map_err(during(operation))?;
        self.state = State::Open;
        Ok(rows)
    }

    /// Runs a statement and returns how many rows it touched.
    pub(crate) async fn execute(
        &mut self,
        operation: &'static str,
        sql: &str,
        params: Params<'_>,
    ) -> Done<u64> {
        let begin = self.first_words(operation)?;
        let client = self.connection(operation)?;
        let work = async {
            let statement = client.prepare_cached(sql).await?;
            let query = client.execute(&statement, params);
            match begin {
                Some(begin) => Ok(try_join(client.batch_execute(begin), query).await?.1),
                None => query.await,
            }
        };
        let touched = work.await.map_err(during(operation))?;
        self.state = State::Open;
        Ok(touched)
    }

    /// Sends rows by `COPY`, the cheapest way in for many: no array is taken apart on the other side.
    pub(crate) async fn copy<R, const N: usize>(
        &mut self,
        target: &Target<N>,
        rows: &[R],
        fields: impl for<'r> Fn(&'r R) -> [&'r (dyn ToSql + Sync); N],
    ) -> Done<()> {
        let begin = self.first_words(target.operation)?;
        let client = self.connection(target.operation)?;
        let work = async {
            if let Some(begin) = begin {
                client.batch_execute(begin).await?;
            }
            let statement = client.prepare_cached(target.sql).await?;
            let sink = client.copy_in(&statement).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &target.types));
            for row in rows {
                writer.as_mut().write(&fields(row)).await?;
            }
            writer.finish().await
        };
        let copied = work.await.map_err(during(target.operation))?;
        self.state = State::Open;
        if copied != rows.len() as u64 {
            return Err(failed(target.operation, "not every row was taken"));
        }
        Ok(())
    }

    /// Draws `count` numbers from a sequence, ascending.
    pub(crate) async fn draw(&mut self, operation: &'static str, sql: &str, count: usize) -> Done<Vec<i64>> {
        let rows = self.query(operation, sql, &[&(count as i64)]).await?;
        let numbers = rows.first().map(|row| row.try_get::<_, Option<Vec<i64>>>(0)).transpose();
        let mut numbers = numbers.map_err(during(operation))?.flatten().unwrap_or_default();
        if numbers.len() != count {
            return Err(failed(operation, "the sequence gave too few numbers"));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What has to be said before the next statement. Until that statement has come back the transaction
    /// counts as failed, which is also what it is when its caller stops waiting.
    fn first_words(&mut self, operation: &'static str) -> Done<Option<&'static str>> {
        let begin = match self.state {
            State::Fresh => self.scope.begin(),
            State::Open => None,
            State::Failed | State::Ended => {
                return Err(failed(operation, "the transaction has failed before"));
            }
        };
        self.state = State::Failed;
        Ok(begin)
    }

    /// Commits, telling other instances `notification` when there is one.
    pub(crate) async fn commit(mut self, notification: Option<(&str, String)>) -> Done<()> {
        if self.state == State::Failed {
            self.roll_back().await;
            return Err(failed("commit", "a statement of the transaction had failed"));
        }
        if self.state == State::Fresh || self.scope == Scope::Single {
            self.state = State::Ended;
            return Ok(());
        }
        self.state = State::Failed;
        let client = self.connection("commit")?;
        let work = async {
            let commit = client.batch_execute("COMMIT");
            let Some((channel, payload)) = &notification else { return commit.await };
            let statement = client.prepare_cached("SELECT pg_notify($1, $2)").await?;
            // After a failed notification `COMMIT` rolls back, and this is the error that is seen.
            try_join(client.execute(&statement, &[channel, payload]), commit).await.map(|_| ())
        };
        work.await.map_err(during("commit"))?;
        self.state = State::Ended;
        Ok(())
    }

    /// Gives the transaction up; a connection on which even that fails is thrown away.
    pub(crate) async fn roll_back(mut self) {
        if self.state == State::Fresh || self.scope == Scope::Single {
            self.state = State::Ended;
        } else if let Some(client) = &self.client
            && client.batch_execute("ROLLBACK").await.is_ok()
        {
            self.state = State::Ended;
        }
    }

    pub(crate) fn remember(&mut self, id: JobId, seq: i64) {
        self.seqs.insert(id, seq);
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.seqs.remove(&id);
    }

    /// Learns the numbers of these jobs, as far as they are stored, in at most one statement.
    pub(crate) async fn learn(&mut self, ids: impl IntoIterator<Item = JobId>) -> Done<()> {
        let unknown: Vec<Uuid> =
            ids.into_iter().filter(|id| !self.seqs.contains_key(id)).map(|id| id.as_uuid()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let sql = "SELECT id, seq FROM ids WHERE id = ANY($1)";
        for row in self.query("find jobs", sql, &[&unknown]).await? {
            let id: Uuid = row.try_get(0).map_err(during("find jobs"))?;
            self.remember(JobId::from_uuid(id), row.try_get(1).map_err(during("find jobs"))?);
        }
        Ok(())
    }

    /// The number of a job, if it was learnt.
    pub(crate) fn known_seq(&self, id: JobId) -> Option<i64> {
        self.seqs.get(&id).copied()
    }

    /// The numbers of those of these jobs that were learnt.
    pub(crate) fn known_seqs(&self, ids: &[JobId]) -> Vec<i64> {
        ids.iter().filter_map(|id| self.known_seq(*id)).collect()
    }

    /// The number of a job that must be stored.
    pub(crate) fn seq(&self, id: JobId) -> Done<i64> {
        self.known_seq(id).ok_or_else(|| failed("find jobs", format!("{id} is not stored")))
    }
}

impl Drop for PostgresTx {
    /// A connection in an unknown state is closed, which rolls its transaction back.
    fn drop(&mut self) {
        let clean = matches!(self.state, State::Ended | State::Fresh) || self.scope == Scope::Single;
        if let Some(client) = self.client.take()
            && !clean
        {
            drop(Object::take(client));
        }
    }
}

impl Tx for PostgresTx {
    const EXCLUSIVE: bool = false;

    async fn lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.select_and_lock_jobs(ids).await
    }

    async fn read_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        self.select_jobs(ids).await
    }

    async fn insert_jobs(&mut self, jobs: &mut [Job]) -> Done<()> {
        self.insert_new_jobs(jobs).await
    }

    async fn update_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.write_jobs(jobs).await
    }

    async fn rewrite_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        self.rewrite(jobs).await
    }

    async fn delete_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        self.remove_jobs(ids).await
    }

    async fn jobs_by_key(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        self.select_keys(keys).await
    }

    async fn lock_unique(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        self.lock_and_find_unique(keys).await
    }

    async fn insert_sets(&mut self, sets: &mut [JobSet]) -> Done<()> {
        self.insert_new_sets(sets).await
    }

    async fn lock_sets(&mut self, ids: &[SetId]) -> Done<Vec<JobSet>> {
        self.select_and_lock_sets(ids).await
    }

    async fn update_sets(&mut self, sets: &[JobSet]) -> Done<()> {
        self.write_sets(sets).await
    }

    async fn sets(&mut self, filter: &SetFilter) -> Done<Vec<JobSet>> {
        self.select_sets(filter).await
    }

    async fn count_sets(&mut self, ids: &[SetId]) -> Done<Vec<SetCount>> {
        self.count_members(ids).await
    }

    async fn delete_empty_sets(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        self.remove_empty_sets(before, limit).await
    }

    async fn gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>> {
        self.select_gang_tasks(gangs).await
    }

    async fn siblings(&mut self, ids: &[JobId]) -> Done<Vec<JobId>> {
        self.select_siblings(ids).await
    }

    async fn waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>> {
        self.select_waiting_gangs(limit).await
    }

    async fn stale_gangs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<GangId>> {
        self.select_stale_gangs(before, limit).await
    }

    async fn lock_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_and_lock_reserved(workers).await
    }

    async fn all_held(&mut self) -> Done<Vec<Job>> {
        self.select_all_held().await
    }

    async fn held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>> {
        self.select_held_among(seqs).await
    }

    async fn held_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_held(workers).await
    }

    async fn running_jobs(&mut self, worker: &WorkerId) -> Done<Vec<Job>> {
        self.select_running(worker).await
    }

    async fn gangs(&mut self, before_seq: Option<u64>, limit: usize) -> Done<Vec<(u64, GangId)>> {
        self.select_gangs(before_seq, limit).await
    }

    async fn insert_edges(&mut self, edges: &[Edge]) -> Done<()> {
        self.write_edges(edges).await
    }

    async fn dependants(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        self.select_edges(parents).await
    }

    async fn shapes(&mut self, shapes: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>> {
        self.select_shapes(shapes).await
    }

    async fn insert_shapes(&mut self, shapes: &[(ShapeId, Shape)]) -> Done<()> {
        self.write_shapes(shapes).await
    }

    async fn pending_shapes(&mut self) -> Done<Vec<(ShapeId, Shape)>> {
        self.select_pending_shapes().await
    }

    async fn lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        self.select_and_lock_heads(shapes, limit).await
    }

    async fn heads(&mut self, shapes: &[ShapeId]) -> Done<Vec<Job>> {
        self.select_heads(shapes).await
    }

    async fn line_heads(&mut self, limit: usize) -> Done<Vec<Job>> {
        self.select_line_heads(limit).await
    }

    async fn pinned_jobs(&mut self) -> Done<Vec<Job>> {
        self.select_pinned().await
    }

    async fn unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>> {
        self.select_unfinished_after(seq, limit).await
    }

    async fn ranked_by(&mut self) -> Done<Option<String>> {
        self.select_ranked_by().await
    }

    async fn note_ranked_by(&mut self, rule: &str) -> Done<()> {
        self.write_ranked_by(rule).await
    }

    async fn count_ahead(&mut self, job: &Job, shapes: &[ShapeId]) -> Done<u64> {
        self.count_before(job, shapes).await
    }

    async fn usage(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        self.count_held(workers).await
    }

    async fn held_devices(&mut self, workers: &[WorkerId]) -> Done<Vec<HeldJob>> {
        self.select_held_devices(workers).await
    }

    async fn stopping_jobs(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        self.select_stopping(workers).await
    }

    async fn silent_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_silent(before, limit).await
    }

    async fn overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_overdue_stops(before, limit).await
    }

    async fn alarms(&mut self, now: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_alarms(now, limit).await
    }

    async fn oldest(&mut self) -> Done<Oldest> {
        self.select_oldest().await
    }

    async fn finished_jobs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        self.select_finished(before, limit).await
    }

    async fn lock_queues(&mut self, names: &[QueueName]) -> Done<Vec<Queue>> {
        self.select_and_lock_queues(names).await
    }

    async fn queues(&mut self) -> Done<Vec<Queue>> {
        self.select_queues().await
    }

    async fn put_queues(&mut self, queues: &[Queue]) -> Done<()> {
        self.write_queues(queues).await
    }

    async fn delete_queues(&mut self, names: &[QueueName]) -> Done<()> {
        self.remove_queues(names).await
    }

    async fn lock_trees(&mut self, roots: &[QueueName]) -> Done<Vec<Queue>> {
        self.lock_and_select_trees(roots).await
    }

    async fn held_by_queue(&mut self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>> {
        self.count_held_by_queue(queues).await
    }

    async fn waiting_by_shape(
        &mut self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>> {
        self.count_waiting(shapes, queues).await
    }

    async fn lock_keys(&mut self, keys: &[String]) -> Done<Vec<(String, u32)>> {
        self.lock_and_count_keys(keys).await
    }

    async fn holders_of_key(&mut self, key: &str, limit: usize) -> Done<Vec<JobId>> {
        self.select_holders(key, limit).await
    }

    async fn lock_webhooks(&mut self, ids: &[WebhookId]) -> Done<Vec<Webhook>> {
        self.select_and_lock_webhooks(ids).await
    }

    async fn webhooks(&mut self) -> Done<Vec<Webhook>> {
        self.select_all_webhooks().await
    }

    async fn put_webhooks(&mut self, webhooks: &[Webhook]) -> Done<()> {
        self.write_webhooks(webhooks).await
    }

    async fn delete_webhooks(&mut self, ids: &[WebhookId]) -> Done<()> {
        self.remove_webhooks(ids).await
    }

    async fn put_dead_letters(&mut self, letters: &[DeadLetter]) -> Done<()> {
        self.write_dead_letters(letters).await
    }

    async fn dead_letters(&mut self, filter: &LetterFilter) -> Done<Vec<DeadLetter>> {
        self.select_dead_letters(filter).await
    }

    async fn count_dead_letters(&mut self) -> Done<Vec<(WebhookId, u64)>> {
        self.count_letters().await
    }

    async fn delete_dead_letters(&mut self, letters: &[DeliveryId]) -> Done<()> {
        self.remove_dead_letters(letters).await
    }

    async fn run_times(&mut self, series: &[String]) -> Done<Vec<(String, RunTimes)>> {
        self.select_run_times(series).await
    }

    async fn put_run_times(&mut self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()> {
        self.write_run_times(times, at).await
    }

    async fn forget_run_times(&mut self, before: Timestamp, limit: usize) -> Done<()> {
        self.delete_run_times(before, limit).await
    }

    async fn leader_leases(&mut self) -> Done<Vec<LeaderLease>> {
        self.select_leader_leases().await
    }

    async fn lock_leader_leases(&mut self, roles: &[Role], lock: LeaseLock) -> Done<Vec<LeaderLease>> {
        self.select_and_lock_leader_leases(roles, lock).await
    }

    async fn put_leader_leases(&mut self, leases: &[LeaderLease]) -> Done<()> {
        self.write_leader_leases(leases).await
    }

    async fn secret(&mut self, proposal: &str) -> Done<String> {
        self.keep_secret(proposal).await
    }

    async fn lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.select_and_lock_workers(ids).await
    }

    async fn workers(&mut self) -> Done<Vec<Worker>> {
        self.select_workers().await
    }

    async fn read_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        self.select_some_workers(ids).await
    }

    async fn workers_apart(&mut self, since: Timestamp) -> Done<Vec<Apart>> {
        self.select_apart(since).await
    }

    async fn put_workers(&mut self, workers: &[Worker]) -> Done<()> {
        self.write_workers(workers).await
    }

    async fn list_jobs(&mut self, filter: &JobFilter) -> Done<Vec<Job>> {
        self.select_list(filter).await
    }

    async fn counts(&mut self) -> Done<Counts> {
        self.count_unfinished().await
    }

    async fn append_events(&mut self, events: &mut [Event]) -> Done<()> {
        self.insert_events(events).await
    }

    async fn events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        self.select_events(filter).await
    }

    async fn last_event(&mut self) -> Done<u64> {
        self.select_last_event().await
    }

    async fn changed_since(&mut self, position: u64, limit: u64) -> Done<Option<Changed>> {
        self.select_changed(position, limit).await
    }

    async fn note_removed(&mut self, newest: Timestamp) -> Done<()> {
        self.write_removed(newest).await
    }

    async fn checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        self.select_checkpoints(ids).await
    }

    async fn put_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        self.write_checkpoint(id, bytes).await
    }
}
