//! Jobs by id, their dependencies and their checkpoints.

use std::borrow::Cow;
use std::collections::HashMap;

use muster_domain::{Job, JobId, Rule};
use muster_store::Edge;
use muster_store::row::JobRow;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::error::{corrupt, during, failed};
use crate::row::{self, JOB_COLUMNS, column, job_rows, make_storable, storable, storable_option, uuids};
use crate::tx::{Done, PostgresTx, Target};

const DRAW: &str = "SELECT array_agg(nextval('jobs_seq_seq')) FROM generate_series(1, $1::bigint)";

const INSERT: Target<44> = Target {
    operation: "insert jobs",
    sql: "COPY jobs (seq, id, status, priority, shape, attempts, lease, preemption_epoch, reservation_epoch, \
          created_at, ready_at, started_at, last_heartbeat, sign_at, reserved_at, drain_started_at, done_at, \
          waiting_on, closed_lease, closed_by, exit_code, exit_signal, checkpoint_bytes, worker_id, queue, name, \
          idempotency_key, gang_id, reason, tags, spec, alarm_at, extra, \
          concurrency_key, unique_key, set_id, step, set_index, gang_index, \
          rank, served, waited, pinned, lease_ends_at) FROM STDIN BINARY",
    types: [
        Type::INT8,
        Type::UUID,
        Type::TEXT,
        Type::INT4,
        Type::INT8,
        Type::INT4,
        Type::INT8,
        Type::INT4,
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT4,
        Type::INT8,
        Type::TEXT,
        Type::INT4,
        Type::INT4,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::TEXT,
        Type::INT4,
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::BOOL,
        Type::INT8,
    ],
};

const INSERT_IDS: Target<2> = Target {
    operation: "insert jobs",
    sql: "COPY ids (id, seq) FROM STDIN BINARY",
    types: [Type::UUID, Type::INT8],
};

/// A new job, in the forms that columns take.
struct NewRow<'j> {
    row: JobRow,
    id: Uuid,
    status: &'static str,
    tags: Option<Vec<Cow<'j, str>>>,
}

impl<'j> NewRow<'j> {
    fn of(job: &'j Job) -> Done<Self> {
        let mut row = JobRow::try_from(job)?;
        for text in [
            &mut row.worker_id,
            &mut row.queue,
            &mut row.name,
            &mut row.idempotency_key,
            &mut row.concurrency_key,
            &mut row.unique_key,
            &mut row.step,
        ] {
            make_storable(text);
        }
        let tags = &job.spec.tags;
        let tags = (!tags.is_empty()).then(|| tags.iter().map(|tag| storable(tag)).collect());
        Ok(Self { id: row.id.as_uuid(), status: row.status.as_str(), row, tags })
    }

    fn fields(&self) -> [&(dyn ToSql + Sync); 44] {
        let row = &self.row;
        [
            &row.seq,
            &self.id,
            &self.status,
            &row.priority,
            &row.shape,
            &row.attempts,
            &row.lease,
            &row.preemption_epoch,
            &row.reservation_epoch,
            &row.created_at,
            &row.ready_at,
            &row.started_at,
            &row.last_heartbeat,
            &row.sign_at,
            &row.reserved_at,
            &row.drain_started_at,
            &row.done_at,
            &row.waiting_on,
            &row.closed_lease,
            &row.closed_by,
            &row.exit_code,
            &row.exit_signal,
            &row.checkpoint_bytes,
            &row.worker_id,
            &row.queue,
            &row.name,
            &row.idempotency_key,
            &row.gang_id,
            &row.reason,
            &self.tags,
            &row.spec,
            &row.alarm_at,
            &row.extra,
            &row.concurrency_key,
            &row.unique_key,
            &row.set_id,
            &row.step,
            &row.set_index,
            &row.gang_index,
            &row.rank,
            &row.served,
            &row.waited,
            &row.pinned,
            &row.lease_ends_at,
        ]
    }
}

/// Names only what may change. Taking arrays apart costs as much as the update itself, one function call for
/// each value; reading a number out of an array of numbers by its place costs almost nothing, so long as none
/// is missing. Therefore numbers come so, with a number that stands for none.
const UPDATE: &str = "UPDATE jobs SET status = new.status, closed_by = new.closed_by, \
    worker_id = new.worker_id, reason = new.reason, extra = new.extra, \
    attempts = ($7::int[])[place], lease = ($8::bigint[])[place], preemption_epoch = ($9::int[])[place], reservation_epoch = ($10::int[])[place], \
    ready_at = ($11::bigint[])[place], started_at = nullif(($12::bigint[])[place], $23), last_heartbeat = nullif(($13::bigint[])[place], $23), \
    sign_at = nullif(($14::bigint[])[place], $23), reserved_at = nullif(($15::bigint[])[place], $23), \
    drain_started_at = nullif(($16::bigint[])[place], $23), done_at = nullif(($17::bigint[])[place], $23), \
    waiting_on = nullif(($18::bigint[])[place], $23), closed_lease = nullif(($19::bigint[])[place], $23), \
    exit_code = nullif(($20::bigint[])[place], $23), exit_signal = nullif(($21::bigint[])[place], $23), \
    checkpoint_bytes = nullif(($22::bigint[])[place], $23), \
    alarm_at = nullif(($24::bigint[])[place], $23), \
    rank = ($25::bigint[])[place], served = ($26::bigint[])[place], waited = ($27::bigint[])[place], \
    pinned = ($28::boolean[])[place], lease_ends_at = nullif(($29::bigint[])[place], $23) \
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY \
    AS new (seq, status, closed_by, worker_id, reason, extra, place) WHERE jobs.seq = new.seq";

/// What changes only when a waiting job is edited.
const REWRITE: &str = "UPDATE jobs SET priority = new.priority, shape = new.shape, alarm_at = new.alarm_at, \
    spec = new.spec, rank = new.rank \
    FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[]) \
    AS new (seq, priority, shape, alarm_at, spec, rank) WHERE jobs.seq = new.seq";

/// Whoever inserts jobs with a unique key holds this lock until the end of the transaction; the keys are sorted.
const LOCK_UNIQUE: &str = "SELECT pg_advisory_xact_lock(hashtextextended(key, 2)) \
    FROM unnest($1::text[]) AS wanted (key)";

/// Stands for none in arrays of numbers; no time, number or code is that small.
const NONE: i64 = i64::MIN;

fn or_none(value: Option<impl Into<i64>>) -> i64 {
    value.map_or(NONE, Into::into)
}

impl PostgresTx {
    pub(crate) async fn select_and_lock_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        const OPERATION: &str = "lock jobs";
        self.learn(ids.iter().copied()).await?;
        let seqs = self.known_seqs(ids);
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE seq = ANY($1) ORDER BY id FOR UPDATE");
        let rows = self.query(OPERATION, &sql, &[&seqs]).await?;
        row::read_jobs(&rows)
    }

    pub(crate) async fn select_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        let sql =
            format!("SELECT {JOB_COLUMNS} FROM ids JOIN jobs ON jobs.seq = ids.seq WHERE ids.id = ANY($1)");
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
        let seqs = self.draw(INSERT.operation, DRAW, jobs.len()).await?;
        for (job, seq) in jobs.iter_mut().zip(seqs) {
            job.seq = seq as u64;
            self.remember(job.id, seq);
        }
        let rows = jobs.iter().map(NewRow::of).collect::<Done<Vec<NewRow<'_>>>>()?;
        self.copy(&INSERT, &rows, NewRow::fields).await?;
        self.copy(&INSERT_IDS, &rows, |row| [&row.id, &row.row.seq]).await
    }

    pub(crate) async fn write_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        let rows = &job_rows(jobs)?;
        let written = self
            .execute(
                "update jobs",
                UPDATE,
                &[
                    &column(rows, |row| row.seq),
                    &column(rows, |row| row.status.as_str()),
                    &column(rows, |row| row.closed_by),
                    &column(rows, |row| storable_option(&row.worker_id)),
                    &column(rows, |row| row.reason.as_deref()),
                    &column(rows, |row| row.extra.as_deref()),
                    &column(rows, |row| row.attempts),
                    &column(rows, |row| row.lease),
                    &column(rows, |row| row.preemption_epoch),
                    &column(rows, |row| row.reservation_epoch),
                    &column(rows, |row| row.ready_at),
                    &column(rows, |row| or_none(row.started_at)),
                    &column(rows, |row| or_none(row.last_heartbeat)),
                    &column(rows, |row| or_none(row.sign_at)),
                    &column(rows, |row| or_none(row.reserved_at)),
                    &column(rows, |row| or_none(row.drain_started_at)),
                    &column(rows, |row| or_none(row.done_at)),
                    &column(rows, |row| or_none(row.waiting_on)),
                    &column(rows, |row| or_none(row.closed_lease)),
                    &column(rows, |row| or_none(row.exit_code)),
                    &column(rows, |row| or_none(row.exit_signal)),
                    &column(rows, |row| or_none(row.checkpoint_bytes)),
                    &NONE,
                    &column(rows, |row| or_none(row.alarm_at)),
                    &column(rows, |row| row.rank),
                    &column(rows, |row| row.served),
                    &column(rows, |row| row.waited),
                    &column(rows, |row| row.pinned),
                    &column(rows, |row| or_none(row.lease_ends_at)),
                ],
            )
            .await?;
        if written != jobs.len() as u64 {
            return Err(failed("update jobs", "not every job is stored"));
        }
        Ok(())
    }

    /// Writes what an edit changes.
    pub(crate) async fn rewrite(&mut self, jobs: &[Job]) -> Done<()> {
        let rows = &job_rows(jobs)?;
        let values: [&(dyn ToSql + Sync); 6] = [
            &column(rows, |row| row.seq),
            &column(rows, |row| row.priority),
            &column(rows, |row| row.shape),
            &column(rows, |row| row.alarm_at),
            &column(rows, |row| row.spec.as_str()),
            &column(rows, |row| row.rank),
        ];
        self.execute("rewrite jobs", REWRITE, &values).await?;
        Ok(())
    }

    pub(crate) async fn lock_and_find_unique(&mut self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        const OPERATION: &str = "find unique jobs";
        let mut stored: Vec<_> = keys.iter().map(|key| storable(key)).collect();
        stored.sort_unstable();
        self.query(OPERATION, LOCK_UNIQUE, &[&stored]).await?;
        // A statement of its own: it must see what was committed before the lock was had.
        let sql = "SELECT DISTINCT ON (unique_key) unique_key, id FROM jobs \
                   WHERE unique_key = ANY($1) AND done_at IS NULL ORDER BY unique_key, seq";
        let rows = self.query(OPERATION, sql, &[&stored]).await?;
        let mut found: HashMap<String, JobId> = HashMap::new();
        for row in &rows {
            let id: Uuid = row.try_get(1).map_err(during(OPERATION))?;
            found.insert(row.try_get(0).map_err(during(OPERATION))?, JobId::from_uuid(id));
        }
        let one = |key: &String| Some((key.clone(), *found.get(storable(key).as_ref())?));
        Ok(keys.iter().filter_map(one).collect())
    }

    /// Locks in id order like everybody else, then removes.
    pub(crate) async fn remove_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        const OPERATION: &str = "delete jobs";
        self.learn(ids.iter().copied()).await?;
        let seqs = self.known_seqs(ids);
        let sql = "SELECT 1 FROM jobs WHERE seq = ANY($1) ORDER BY id FOR UPDATE";
        self.query(OPERATION, sql, &[&seqs]).await?;
        let sql = "WITH parents AS (DELETE FROM edges WHERE parent = ANY($1)), \
                        children AS (DELETE FROM edges WHERE child = ANY($1) AND NOT parent = ANY($1)), \
                        told AS (DELETE FROM events WHERE job = ANY($1)), \
                        kept AS (DELETE FROM checkpoints WHERE job = ANY($1)), \
                        parts AS (DELETE FROM checkpoint_parts WHERE job = ANY($1)), \
                        files AS (DELETE FROM artifacts WHERE job = ANY($1)), \
                        moved AS (DELETE FROM outputs WHERE job = ANY($1)), \
                        named AS (DELETE FROM ids WHERE id = ANY($2)) \
                   DELETE FROM jobs WHERE seq = ANY($1)";
        self.execute(OPERATION, sql, &[&seqs, &uuids(ids)]).await?;
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
        let rules: Vec<i16> = edges.iter().map(|edge| i16::from(edge.rule.number())).collect();
        let sql = "INSERT INTO edges (parent, child, rule) SELECT parent, child, rule \
                   FROM unnest($1::bigint[], $2::bigint[], $3::smallint[]) AS new (parent, child, rule) \
                   ON CONFLICT DO NOTHING";
        self.execute("insert edges", sql, &[&parents, &children, &rules]).await?;
        Ok(())
    }

    pub(crate) async fn select_edges(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        const OPERATION: &str = "read edges";
        self.learn(parents.iter().copied()).await?;
        let by_seq: HashMap<i64, JobId> =
            parents.iter().filter_map(|parent| Some((self.known_seq(*parent)?, *parent))).collect();
        if by_seq.is_empty() {
            return Ok(Vec::new());
        }
        let seqs: Vec<i64> = by_seq.keys().copied().collect();
        let sql = "SELECT edges.parent, child.id, edges.rule FROM edges JOIN jobs AS child ON child.seq = edges.child \
                   WHERE edges.parent = ANY($1)";
        let mut edges = Vec::new();
        for row in self.query(OPERATION, sql, &[&seqs]).await? {
            let parent: i64 = row.try_get(0).map_err(during(OPERATION))?;
            let child = JobId::from_uuid(row.try_get(1).map_err(during(OPERATION))?);
            let number: i16 = row.try_get(2).map_err(during(OPERATION))?;
            let rule = u8::try_from(number).ok().and_then(Rule::numbered);
            let rule = rule.ok_or_else(|| corrupt("edges", format!("rule {number}")))?;
            if let Some(parent) = by_seq.get(&parent) {
                edges.push(Edge { parent: *parent, child, rule });
            }
        }
        Ok(edges)
    }

    pub(crate) async fn select_checkpoints(&mut self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        const OPERATION: &str = "read checkpoints";
        let sql = "SELECT ids.id, checkpoints.bytes FROM ids JOIN checkpoints ON checkpoints.job = ids.seq \
                   WHERE ids.id = ANY($1)";
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
