//! What workers hold, what is overdue, and what retention may remove.

use muster_domain::{Job, JobId, ShapeId, Span, Timestamp, WorkerId};
use muster_store::{HeldJob, LeaseEnds, Oldest, Usage};
use rusqlite::Row;

use crate::error::during;
use crate::row::{self, JOB_COLUMNS};
use crate::states::HELD;
use crate::tx::{Done, SqliteTx};

pub(crate) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// How long a lease lasts: it ends that long after the last sign of life.
const LEASE_SPAN: &str = "(lease_ends_at - max(coalesce(last_heartbeat, started_at), started_at))";

impl SqliteTx<'_> {
    pub(crate) fn count_held(&self, workers: &[WorkerId]) -> Done<Vec<Usage>> {
        const OPERATION: &str = "read usage";
        let sql = format!(
            "SELECT worker_id, shape, count(*) FROM jobs INDEXED BY jobs_held \
             WHERE {HELD} AND worker_id = ?1 GROUP BY worker_id, shape"
        );
        self.rows_of_each(OPERATION, &sql, workers.iter().map(|worker| [worker.as_str()]), |row| {
            let fail = during(OPERATION);
            Ok(Usage {
                worker: WorkerId::new(row.get::<_, String>(0).map_err(&fail)?),
                shape: ShapeId(row.get(1).map_err(&fail)?),
                jobs: row.get(2).map_err(&fail)?,
            })
        })
    }

    pub(crate) fn select_held(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_held \
             WHERE {HELD} AND worker_id = ?1"
        );
        let keys = workers.iter().map(|worker| [worker.as_str()]);
        let jobs = self.rows_of_each("read held jobs", &sql, keys, row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_held_devices(&self, workers: &[WorkerId]) -> Done<Vec<HeldJob>> {
        const OPERATION: &str = "read held jobs";
        let sql = format!(
            "SELECT worker_id, id, shape, extra FROM jobs INDEXED BY jobs_held \
             WHERE {HELD} AND worker_id = ?1 ORDER BY seq"
        );
        self.rows_of_each(OPERATION, &sql, workers.iter().map(|worker| [worker.as_str()]), |row| {
            let fail = during(OPERATION);
            let job = row::job_id(row, 1).map_err(&fail)?;
            let extra: Option<String> = row.get(3).map_err(&fail)?;
            Ok(HeldJob {
                worker: WorkerId::new(row.get::<_, String>(0).map_err(&fail)?),
                job,
                shape: ShapeId(row.get(2).map_err(&fail)?),
                devices: muster_store::row::devices(extra.as_deref(), job)?,
            })
        })
    }

    pub(crate) fn select_stopping(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_drain \
             WHERE drain_started_at IS NOT NULL AND status = 'preempting' AND worker_id = ?1 ORDER BY seq"
        );
        let keys = workers.iter().map(|worker| [worker.as_str()]);
        let jobs = self.rows_of_each("read stopping jobs", &sql, keys, row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_silent(&self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql = "SELECT id FROM jobs INDEXED BY jobs_sign WHERE sign_at < ?1 ORDER BY sign_at, id LIMIT ?2";
        self.select_ids("read silent jobs", sql, before, limit)
    }

    pub(crate) fn select_ended_leases(
        &self,
        now: Timestamp,
        listened: Span,
        limit: usize,
    ) -> Done<Vec<JobId>> {
        const OPERATION: &str = "read ended leases";
        let sql = format!(
            "SELECT id FROM jobs INDEXED BY jobs_held WHERE {HELD} AND lease_ends_at < ?1 AND {LEASE_SPAN} < ?2 \
             ORDER BY lease_ends_at, id LIMIT ?3"
        );
        let params = [now.as_micros(), listened.as_micros() as i64, sql_limit(limit)];
        self.rows(OPERATION, &sql, params, |row| row::job_id(row, 0).map_err(during(OPERATION)))
    }

    pub(crate) fn select_lease_ends(&self, now: Timestamp) -> Done<LeaseEnds> {
        const OPERATION: &str = "read the ends of leases";
        let sql = format!(
            "SELECT min(lease_ends_at) FILTER (WHERE lease_ends_at >= ?1), \
                    min({LEASE_SPAN}) FILTER (WHERE lease_ends_at < ?1) FROM jobs INDEXED BY jobs_held WHERE {HELD}"
        );
        let mut statement = self.statement(OPERATION, &sql)?;
        let ends = statement.query_row([now.as_micros()], |row| {
            let (next, span) = (row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?);
            let shortest = span.map(|micros| Span::from_micros(micros.unsigned_abs()));
            Ok(LeaseEnds { next: next.map(Timestamp::from_micros), shortest })
        });
        ends.map_err(during(OPERATION))
    }

    pub(crate) fn select_overdue_stops(&self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql = "SELECT id FROM jobs INDEXED BY jobs_drain \
                   WHERE drain_started_at IS NOT NULL AND status = 'preempting' AND lease_ends_at IS NULL AND drain_started_at < ?1 \
                   ORDER BY drain_started_at, id LIMIT ?2";
        self.select_ids("read overdue stops", sql, before, limit)
    }

    pub(crate) fn select_alarms(&self, now: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql =
            "SELECT id FROM jobs INDEXED BY jobs_alarm WHERE alarm_at <= ?1 ORDER BY alarm_at, id LIMIT ?2";
        self.select_ids("read alarms", sql, now, limit)
    }

    pub(crate) fn select_oldest(&self) -> Done<Oldest> {
        const OPERATION: &str = "read the oldest signs of life";
        let sql = "SELECT (SELECT min(sign_at) FROM jobs WHERE sign_at IS NOT NULL), \
                          (SELECT min(drain_started_at) FROM jobs WHERE drain_started_at IS NOT NULL AND status = 'preempting' AND lease_ends_at IS NULL), \
                          (SELECT min(alarm_at) FROM jobs WHERE alarm_at IS NOT NULL), \
                          (SELECT min(reserved_at) FROM jobs WHERE reserved_at IS NOT NULL)";
        let mut statement = self.statement(OPERATION, sql)?;
        let time = |row: &Row<'_>, column: usize| {
            row.get::<_, Option<i64>>(column).map(|micros| micros.map(Timestamp::from_micros))
        };
        let oldest = statement.query_row([], |row| {
            Ok(Oldest {
                sign: time(row, 0)?,
                stop: time(row, 1)?,
                alarm: time(row, 2)?,
                reservation: time(row, 3)?,
            })
        });
        oldest.map_err(during(OPERATION))
    }

    pub(crate) fn select_finished(&self, before: Timestamp, limit: usize) -> Done<Vec<JobId>> {
        let sql = "SELECT id FROM jobs INDEXED BY jobs_done WHERE done_at < ?1 AND NOT EXISTS ( \
                       SELECT 1 FROM edges JOIN jobs AS child ON child.seq = edges.child \
                       WHERE edges.parent = jobs.seq AND child.done_at IS NULL) \
                   ORDER BY done_at LIMIT ?2";
        self.select_ids("read finished jobs", sql, before, limit)
    }

    fn select_ids(
        &self,
        operation: &'static str,
        sql: &str,
        before: Timestamp,
        limit: usize,
    ) -> Done<Vec<JobId>> {
        let params = [before.as_micros(), sql_limit(limit)];
        self.rows(operation, sql, params, |row| row::job_id(row, 0).map_err(during(operation)))
    }
}
