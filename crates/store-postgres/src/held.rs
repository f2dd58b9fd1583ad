//! What workers hold, what is overdue, and what retention may remove.

use muster_domain::{Job, JobId, ShapeId, Span, Timestamp, WorkerId};
use muster_store::{HeldJob, LeaseEnds, Oldest, Usage};
use tokio_postgres::Row;

use crate::error::during;
use crate::row::{self, JOB_COLUMNS, sql_limit, worker_names};
use crate::tx::{Done, PostgresTx};

/// How long a lease lasts: it ends that long after the last sign of life.
const LEASE_SPAN: &str = "(lease_ends_at - greatest(coalesce(last_heartbeat, started_at), started_at))";

impl PostgresTx {
    pub(crate) async fn count_held(&mut self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        const OPERATION: &str = "read usage";
        let sql = "SELECT worker_id, shape, count(*) FROM jobs \
                   WHERE status IN ('reserved', 'running', 'preempting') AND worker_id = ANY($1) \
                   GROUP BY worker_id, shape";
        let rows = self.query(OPERATION, sql, &[&worker_names(workers)]).await?;
        let read = |row: &Row| {
            let fail = during(OPERATION);
            Ok(Usage {
                worker: WorkerId::new(row.try_get::<_, String>(0).map_err(&fail)?),
                shape: ShapeId(row.try_get(1).map_err(&fail)?),
                jobs: row.try_get::<_, i64>(2).map_err(&fail)? as u32,
            })
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn select_held(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs \
             WHERE status IN ('reserved', 'running', 'preempting') AND worker_id = ANY($1)"
        );
        let rows = self.query("read held jobs", &sql, &[&worker_names(workers)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_held_devices(&mut self, workers: &[WorkerId]) -> Done<Vec<HeldJob>> {
        const OPERATION: &str = "read held jobs";
        let sql = "SELECT worker_id, id, shape, extra FROM jobs \
                   WHERE status IN ('reserved', 'running', 'preempting') AND worker_id = ANY($1) \
                   ORDER BY worker_id, seq";
        let rows = self.query(OPERATION, sql, &[&worker_names(workers)]).await?;
        let read = |row: &Row| {
            let fail = during(OPERATION);
            let job = JobId::from_uuid(row.try_get(1).map_err(&fail)?);
            let extra: Option<String> = row.try_get(3).map_err(&fail)?;
            Ok(HeldJob {
                worker: WorkerId::new(row.try_get::<_, String>(0).map_err(&fail)?),
                job,
                shape: ShapeId(row.try_get(2).map_err(&fail)?),
                devices: muster_store::row::devices(extra.as_deref(), job)?,
            })
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn select_stopping(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE status = 'preempting' AND worker_id = ANY($1) ORDER BY seq"
        );
        let rows = self.query("read stopping jobs", &sql, &[&worker_names(workers)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_silent(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql = "SELECT id FROM jobs WHERE sign_at < $1 ORDER BY sign_at, id LIMIT $2";
        self.select_ids("read silent jobs", sql, before, limit).await
    }

    pub(crate) async fn select_ended_leases(
        &mut self,
        now: Timestamp,
        listened: Span,
        limit: usize,
    ) -> Done<Vec<JobId>> {
        const OPERATION: &str = "read ended leases";
        let sql = format!(
            "SELECT id FROM jobs WHERE status IN ('reserved', 'running', 'preempting') AND lease_ends_at < $1 AND {LEASE_SPAN} < $2 \
             ORDER BY lease_ends_at, id LIMIT $3"
        );
        let listened = listened.as_micros() as i64;
        let rows = self.query(OPERATION, &sql, &[&now.as_micros(), &listened, &sql_limit(limit)]).await?;
        row::read_ids(OPERATION, &rows)
    }

    pub(crate) async fn select_lease_ends(&mut self, now: Timestamp) -> Done<LeaseEnds> {
        const OPERATION: &str = "read the ends of leases";
        let sql = format!(
            "SELECT min(lease_ends_at) FILTER (WHERE lease_ends_at >= $1), \
                    min({LEASE_SPAN}) FILTER (WHERE lease_ends_at < $1) FROM jobs WHERE status IN ('reserved', 'running', 'preempting')"
        );
        let rows = self.query(OPERATION, &sql, &[&now.as_micros()]).await?;
        let Some(row) = rows.first() else { return Ok(LeaseEnds::default()) };
        let next: Option<i64> = row.try_get(0).map_err(during(OPERATION))?;
        let span: Option<i64> = row.try_get(1).map_err(during(OPERATION))?;
        let shortest = span.map(|micros| Span::from_micros(micros.unsigned_abs()));
        Ok(LeaseEnds { next: next.map(Timestamp::from_micros), shortest })
    }

    pub(crate) async fn select_overdue_stops(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql = "SELECT id FROM jobs \
                   WHERE status = 'preempting' AND lease_ends_at IS NULL AND drain_started_at < $1 \
                   ORDER BY drain_started_at, id LIMIT $2";
        self.select_ids("read overdue stops", sql, before, limit).await
    }

    pub(crate) async fn select_alarms(&mut self, now: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql = "SELECT id FROM jobs WHERE alarm_at <= $1 ORDER BY alarm_at, id LIMIT $2";
        self.select_ids("read alarms", sql, now, limit).await
    }

    pub(crate) async fn select_oldest(&mut self) -> Done<Oldest> {
        const OPERATION: &str = "read the oldest signs of life";
        let sql = "SELECT (SELECT min(sign_at) FROM jobs WHERE sign_at IS NOT NULL), \
                          (SELECT min(drain_started_at) FROM jobs WHERE status = 'preempting' AND lease_ends_at IS NULL), \
                          (SELECT min(alarm_at) FROM jobs WHERE alarm_at IS NOT NULL), \
                          (SELECT min(reserved_at) FROM jobs WHERE status = 'reserved')";
        let rows = self.query(OPERATION, sql, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Oldest::default()) };
        let time = |column: usize| {
            let micros = row.try_get::<_, Option<i64>>(column).map_err(during(OPERATION))?;
            Ok(micros.map(Timestamp::from_micros))
        };
        Ok(Oldest { sign: time(0)?, stop: time(1)?, alarm: time(2)?, reservation: time(3)? })
    }

    pub(crate) async fn select_finished(&mut self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        // Written so that it is looked up for each candidate in turn: as `NOT EXISTS` it becomes a join of
        // everything that is unfinished.
        let sql = "SELECT id FROM jobs WHERE done_at < $1 AND ( \
                       SELECT true FROM edges JOIN jobs AS child ON child.seq = edges.child \
                       WHERE edges.parent = jobs.seq AND child.done_at IS NULL LIMIT 1) IS NULL \
                   ORDER BY done_at LIMIT $2";
        self.select_ids("read finished jobs", sql, before, limit).await
    }

    async fn select_ids(
        &mut self,
        operation: &'static str,
        sql: &str,
        before: Timestamp,
        limit: usize,
    ) -> Done<Vec<JobId>> {
        let rows = self.query(operation, sql, &[&before.as_micros(), &sql_limit(limit)]).await?;
        row::read_ids(operation, &rows)
    }
}
