//! Gangs: their tasks, those that wait, and what is reserved.

use muster_domain::{GangId, Job, JobId, Phase, Timestamp, WorkerId};
use muster_store::WaitingGang;
use rusqlite::Row;

use crate::error::{corrupt, during};
use crate::held::sql_limit;
use crate::row::{self, JOB_COLUMN_COUNT, JOB_COLUMNS, id_bytes};
use crate::states::HELD;
use crate::tx::{Done, SqliteTx};

/// A gang's id from a column of text.
fn gang_id(row: &Row<'_>, column: usize, operation: &'static str) -> Done<GangId> {
    let text: String = row.get(column).map_err(during(operation))?;
    text.parse().map_err(|_| corrupt("jobs", format!("gang {text:?}")))
}

impl SqliteTx<'_> {
    pub(crate) fn select_gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_gang WHERE gang_id = ?1");
        let keys = gangs.iter().map(|gang| [gang.to_string()]);
        let jobs = self.rows_of_each("read gangs", &sql, keys, row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_siblings(&self, ids: &[JobId]) -> Done<Vec<JobId>> {
        const OPERATION: &str = "read siblings";
        let sql = "SELECT other.id FROM jobs JOIN jobs AS other INDEXED BY jobs_gang \
                   ON other.gang_id = jobs.gang_id WHERE jobs.id = ?1";
        self.rows_of_each(OPERATION, sql, ids.iter().map(|id| [id_bytes(*id)]), |row| {
            row::job_id(row, 0).map_err(during(OPERATION))
        })
    }

    pub(crate) fn select_waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>> {
        let sql = format!(
            "WITH ready AS (SELECT gang_id AS gang, count(*) AS tasks, min(seq) AS first \
                 FROM jobs INDEXED BY jobs_gang_waiting \
                 WHERE waiting_on = 0 AND gang_id IS NOT NULL GROUP BY gang_id) \
             SELECT {JOB_COLUMNS}, ready.tasks FROM ready CROSS JOIN jobs ON jobs.seq = ready.first \
             WHERE NOT EXISTS (SELECT 1 FROM jobs AS other INDEXED BY jobs_gang \
                 WHERE other.gang_id = ready.gang AND other.done_at IS NULL \
                   AND (other.status <> 'blocked' OR other.waiting_on > 0)) \
             ORDER BY jobs.rank, jobs.seq LIMIT ?1"
        );
        let found = self.rows("read waiting gangs", &sql, [sql_limit(limit)], |row| {
            let tasks = row.get(JOB_COLUMN_COUNT).map_err(during("read waiting gangs"))?;
            Ok(WaitingGang { first: row::read_job(row)?, tasks })
        })?;
        for gang in &found {
            self.remember(gang.first.id, gang.first.seq as i64);
        }
        Ok(found)
    }

    pub(crate) fn select_stale_gangs(&self, before: Timestamp, limit: usize) -> Done<Vec<GangId>> {
        const OPERATION: &str = "read stale reservations";
        let sql = "SELECT gang_id FROM jobs INDEXED BY jobs_reserved \
                   WHERE reserved_at < ?1 AND gang_id IS NOT NULL \
                   GROUP BY gang_id ORDER BY min(reserved_at), gang_id LIMIT ?2";
        self.rows(OPERATION, sql, [before.as_micros(), sql_limit(limit)], |row| gang_id(row, 0, OPERATION))
    }

    pub(crate) fn select_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_reserved \
             WHERE reserved_at IS NOT NULL AND worker_id = ?1"
        );
        let keys = workers.iter().map(|worker| [worker.as_str()]);
        let mut jobs = self.rows_of_each("read reserved jobs", &sql, keys, row::read_job)?;
        jobs.sort_by_key(|job| {
            let at =
                if let Phase::Reserved { reserved_at, .. } = job.phase { Some(reserved_at) } else { None };
            (at, job.spec.gang.as_ref().map(|gang| (gang.id, gang.index)))
        });
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_running(&mut self, worker: &WorkerId) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_held \
             WHERE {HELD} AND (status = 'running' OR status = 'reserved') AND worker_id = ?1"
        );
        let jobs = self.rows("read running jobs", &sql, [worker.as_str()], row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_gangs(&self, before_seq: Option<u64>, limit: usize) -> Done<Vec<(u64, GangId)>> {
        const OPERATION: &str = "list gangs";
        let sql = "SELECT seq, gang_id FROM jobs INDEXED BY jobs_gang_first \
                   WHERE gang_index = 0 AND seq < ?1 ORDER BY seq DESC LIMIT ?2";
        let before = before_seq.map_or(i64::MAX, |seq| seq as i64);
        self.rows(OPERATION, sql, [before, sql_limit(limit)], |row| {
            let seq: i64 = row.get(0).map_err(during(OPERATION))?;
            Ok((seq as u64, gang_id(row, 1, OPERATION)?))
        })
    }
}
