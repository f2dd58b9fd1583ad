//! Jobs by id, their dependencies and their checkpoints.

use muster_domain::{Job, JobId};
use muster_store::Edge;
use muster_store::row::JobRow;
use uuid::Uuid;

use crate::error::{during, failed};
use crate::row::{self, JOB_COLUMNS, column, job_rows, storable, storable_option, tag_array, uuids};
use crate::tx::{Done, PostgresTx};

/// Numbers are drawn in the order of the arrays.
const INSERT: &str = "INSERT INTO jobs (id, status, priority, shape, attempts, lease, preemption_epoch, \
    reservation_epoch, created_at, ready_at, started_at, last_heartbeat, sign_at, reserved_at, drain_started_at, \
    done_at, waiting_on, closed_lease, closed_by, exit_code, exit_signal, checkpoint_bytes, worker_id, queue, \
    name, idempotency_key, gang_id, reason, spec, tags) \
    SELECT id, status, priority, shape, attempts, lease, preemption_epoch, reservation_epoch, created_at, \
    ready_at, started_at, last_heartbeat, sign_at, reserved_at, drain_started_at, done_at, waiting_on, \
    closed_lease, closed_by, exit_code, exit_signal, checkpoint_bytes, worker_id, queue, name, idempotency_key, \
    gang_id, reason, spec, tags::text[] \
    FROM unnest($1::uuid[], $2::text[], $3::int[], $4::bigint[], $5::int[], $6::bigint[], $7::int[], $8::int[], \
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], \
    $16::bigint[], $17::int[], $18::bigint[], $19::text[], $20::int[], $21::int[], $22::bigint[], $23::text[], \
    $24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[]) WITH ORDINALITY \
    AS new (id, status, priority, shape, attempts, lease, preemption_epoch, reservation_epoch, created_at, \
    ready_at, started_at, last_heartbeat, sign_at, reserved_at, drain_started_at, done_at, waiting_on, \
    closed_lease, closed_by, exit_code, exit_signal, checkpoint_bytes, worker_id, queue, name, idempotency_key, \
    gang_id, reason, spec, tags, place) ORDER BY place RETURNING seq";

/// Names only what may change.
const UPDATE: &str = "UPDATE jobs SET status = new.status, attempts = new.attempts, lease = new.lease, \
    preemption_epoch = new.preemption_epoch, reservation_epoch = new.reservation_epoch, \
    ready_at = new.ready_at, started_at = new.started_at, last_heartbeat = new.last_heartbeat, \
    sign_at = new.sign_at, reserved_at = new.reserved_at, drain_started_at = new.drain_started_at, \
    done_at = new.done_at, waiting_on = new.waiting_on, closed_lease = new.closed_lease, \
    closed_by = new.closed_by, exit_code = new.exit_code, exit_signal = new.exit_signal, \
    checkpoint_bytes = new.checkpoint_bytes, worker_id = new.worker_id, reason = new.reason \
    FROM unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], \
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::int[], \
    $15::bigint[], $16::text[], $17::int[], $18::int[], $19::bigint[], $20::text[], $21::text[]) \
    AS new (seq, status, attempts, lease, preemption_epoch, reservation_epoch, ready_at, started_at, \
    last_heartbeat, sign_at, reserved_at, drain_started_at, done_at, waiting_on, closed_lease, closed_by, \
    exit_code, exit_signal, checkpoint_bytes, worker_id, reason) WHERE jobs.seq = new.seq";

impl PostgresTx {
    pub(crate) async fn select_and_lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE id = ANY($1) ORDER BY id FOR UPDATE");
        let rows = self.query("lock jobs", &sql, &[&uuids(ids)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE id = ANY($1)");
        let rows = self.query("read jobs", &sql, &[&uuids(ids)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    #[expect(clippy::unnecessary_wraps, reason = "ends a chain of fallible steps")]
    pub(crate) fn remember_all(&mut self, jobs: Vec<Job>) -> Done<Vec<Job>> {
        for job in &jobs {
            self.remember(job.id, job.seq as i64);
        }
        Ok(jobs)
    }

    pub(crate) async fn insert_new_jobs(&mut self, jobs: &mut [Job]) -> Done<()> {
        let tags: Vec<Option<String>> = jobs.iter().map(|job| tag_array(&job.spec.tags)).collect();
        let seqs = self.insert_rows(&job_rows(jobs), &tags).await?;
        if seqs.len() != jobs.len() {
            return Err(failed("insert jobs", "not every job was inserted"));
        }
        for (job, seq) in jobs.iter_mut().zip(seqs) {
            job.seq = seq as u64;
            self.remember(job.id, seq);
        }
        Ok(())
    }

    /// Inserts and returns the numbers, ascending.
    async fn insert_rows(&mut self, rows: &[JobRow], tags: &[Option<String>]) -> Done<Vec<i64>> {
        let inserted = self
            .query(
                "insert jobs",
                INSERT,
                &[
                    &column(rows, |row| row.id.as_uuid()),
                    &column(rows, |row| row.status.as_str()),
                    &column(rows, |row| row.priority),
                    &column(rows, |row| row.shape),
                    &column(rows, |row| row.attempts),
                    &column(rows, |row| row.lease),
                    &column(rows, |row| row.preemption_epoch),
                    &column(rows, |row| row.reservation_epoch),
                    &column(rows, |row| row.created_at),
                    &column(rows, |row| row.ready_at),
                    &column(rows, |row| row.started_at),
                    &column(rows, |row| row.last_heartbeat),
                    &column(rows, |row| row.sign_at),
                    &column(rows, |row| row.reserved_at),
                    &column(rows, |row| row.drain_started_at),
                    &column(rows, |row| row.done_at),
                    &column(rows, |row| row.waiting_on),
                    &column(rows, |row| row.closed_lease),
                    &column(rows, |row| row.closed_by),
                    &column(rows, |row| row.exit_code),
                    &column(rows, |row| row.exit_signal),
                    &column(rows, |row| row.checkpoint_bytes),
                    &column(rows, |row| storable_option(&row.worker_id)),
                    &column(rows, |row| storable_option(&row.queue)),
                    &column(rows, |row| storable_option(&row.name)),
                    &column(rows, |row| storable_option(&row.idempotency_key)),
                    &column(rows, |row| row.gang_id.as_deref()),
                    &column(rows, |row| row.reason.as_deref()),
                    &column(rows, |row| row.spec.as_str()),
                    &tags,
                ],
            )
            .await?;
        let seqs = inserted.iter().map(|row| row.try_get(0).map_err(during("insert jobs")));
        let mut seqs = seqs.collect::<Done<Vec<i64>>>()?;
        seqs.sort_unstable();
        Ok(seqs)
    }

    pub(crate) async fn write_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        let rows = &job_rows(jobs);
        let written = self
            .execute(
                "update jobs",
                UPDATE,
                &[
                    &column(rows, |row| row.seq),
                    &column(rows, |row| row.status.as_str()),
                    &column(rows, |row| row.attempts),
                    &column(rows, |row| row.lease),
                    &column(rows, |row| row.preemption_epoch),
                    &column(rows, |row| row.reservation_epoch),
                    &column(rows, |row| row.ready_at),
                    &column(rows, |row| row.started_at),
                    &column(rows, |row| row.last_heartbeat),
                    &column(rows, |row| row.sign_at),
                    &column(rows, |row| row.reserved_at),
                    &column(rows, |row| row.drain_started_at),
                    &column(rows, |row| row.done_at),
                    &column(rows, |row| row.waiting_on),
                    &column(rows, |row| row.closed_lease),
                    &column(rows, |row| row.closed_by),
                    &column(rows, |row| row.exit_code),
                    &column(rows, |row| row.exit_signal),
                    &column(rows, |row| row.checkpoint_bytes),
                    &column(rows, |row| storable_option(&row.worker_id)),
                    &column(rows, |row| row.reason.as_deref()),
                ],
            )
            .await?;
        if written != jobs.len() as u64 {
            return Err(failed("update jobs", "not every job is stored"));
        }
        Ok(())
    }

    /// Locks in id order like everybody else, then removes.
    pub(crate) async fn remove_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        const OPERATION: &str = "delete jobs";
        let sql = "SELECT seq FROM jobs WHERE id = ANY($1) ORDER BY id FOR UPDATE";
        let rows = self.query(OPERATION, sql, &[&uuids(ids)]).await?;
        let seqs = rows.iter().map(|row| row.try_get(0).map_err(during(OPERATION)));
        let seqs = seqs.collect::<Done<Vec<i64>>>()?;
        let sql = "WITH parents AS (DELETE FROM edges WHERE parent = ANY($1)), \
                        children AS (DELETE FROM edges WHERE child = ANY($1) AND NOT parent = ANY($1)), \
                        told AS (DELETE FROM events WHERE job = ANY($1)), \
                        kept AS (DELETE FROM checkpoints WHERE job = ANY($1)) \
                   DELETE FROM jobs WHERE seq = ANY($1)";
        self.execute(OPERATION, sql, &[&seqs]).await?;
        for id in ids {
            self.forget(*id);
        }
        Ok(())
    }

    pub(crate) async fn select_keys(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        const OPERATION: &str = "find jobs by key";
        let sql = "SELECT wanted.place, jobs.id FROM unnest($1::text[]) WITH ORDINALITY AS wanted (key, place) \
                   JOIN jobs ON jobs.idempotency_key = wanted.key";
        let wanted: Vec<_> = keys.iter().map(|key| storable(key)).collect();
        let rows = self.query(OPERATION, sql, &[&wanted]).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let place: i64 = row.try_get(0).map_err(during(OPERATION))?;
            let id = JobId::from_uuid(row.try_get(1).map_err(during(OPERATION))?);
            if let Some(key) = keys.get(place as usize - 1) {
                found.push((key.clone(), id));
            }
        }
        Ok(found)
    }

    pub(crate) async fn write_edges(&mut self, edges: &[Edge]) -> Done<()> {
        self.learn(edges.iter().flat_map(|edge| [edge.parent, edge.child])).await?;
        let parents = edges.iter().map(|edge| self.seq(edge.parent)).collect::<Done<Vec<i64>>>()?;
        let children = edges.iter().map(|edge| self.seq(edge.child)).collect::<Done<Vec<i64>>>()?;
        let sql = "INSERT INTO edges (parent, child) SELECT parent, child \
                   FROM unnest($1::bigint[], $2::bigint[]) AS new (parent, child) ON CONFLICT DO NOTHING";
        self.execute("insert edges", sql, &[&parents, &children]).await?;
        Ok(())
    }

    pub(crate) async fn select_edges(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        const OPERATION: &str = "read edges";
        let sql = "SELECT parent.id, child.id FROM jobs AS parent \
                   JOIN edges ON edges.parent = parent.seq JOIN jobs AS child ON child.seq = edges.child \
                   WHERE parent.id = ANY($1)";
        let rows = self.query(OPERATION, sql, &[&uuids(parents)]).await?;
        let id = |row: &tokio_postgres::Row, place: usize| {
            row.try_get::<_, Uuid>(place).map(JobId::from_uuid).map_err(during(OPERATION))
        };
        rows.iter().map(|row| Ok(Edge { parent: id(row, 0)?, child: id(row, 1)? })).collect()
    }

    pub(crate) async fn select_checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        const OPERATION: &str = "read checkpoints";
        let sql = "SELECT jobs.id, checkpoints.bytes FROM jobs JOIN checkpoints ON checkpoints.job = jobs.seq \
                   WHERE jobs.id = ANY($1)";
        let rows = self.query(OPERATION, sql, &[&uuids(ids)]).await?;
        let read = |row: &tokio_postgres::Row| {
            let id = JobId::from_uuid(row.try_get(0).map_err(during(OPERATION))?);
            Ok((id, row.try_get(1).map_err(during(OPERATION))?))
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn write_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        self.learn([id]).await?;
        let sql = "INSERT INTO checkpoints (job, bytes) VALUES ($1, $2) \
                   ON CONFLICT (job) DO UPDATE SET bytes = excluded.bytes";
        let seq = self.seq(id)?;
        self.execute("save a checkpoint", sql, &[&seq, &bytes]).await?;
        Ok(())
    }
}
