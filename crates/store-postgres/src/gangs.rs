//! Gangs: their tasks, those that wait, and what is reserved.

use muster_domain::{GangId, Job, JobId, Timestamp, WorkerId};
use muster_store::WaitingGang;
use tokio_postgres::Row;

use crate::error::{corrupt, during};
use crate::row::{self, JOB_COLUMN_COUNT, JOB_COLUMNS, sql_limit, uuids, worker_names};
use crate::tx::{Done, PostgresTx};

/// A gang's id from a column of text.
fn gang_id(row: &Row, column: usize, operation: &'static str) -> Done<GangId> {
    let text: String = row.try_get(column).map_err(during(operation))?;
    text.parse().map_err(|_| corrupt("jobs", format!("gang {text:?}")))
}

fn names(gangs: &[GangId]) -> Vec<String> {
    gangs.iter().map(ToString::to_string).collect()
}

impl PostgresTx {
    pub(crate) async fn select_gang_tasks(&mut self, gangs: &[GangId]) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE gang_id = ANY($1)");
        let rows = self.query("read gangs", &sql, &[&names(gangs)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_siblings(&mut self, ids: &[JobId]) -> Done<Vec<JobId>> {
        // In two steps, so that the second is made only where there are gangs.
        const OPERATION: &str = "read siblings";
        let sql = "SELECT DISTINCT gang_id FROM ids JOIN jobs ON jobs.seq = ids.seq \
                   WHERE ids.id = ANY($1) AND gang_id IS NOT NULL";
        let rows = self.query(OPERATION, sql, &[&uuids(ids)]).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let gangs = rows.iter().map(|row| gang_id(row, 0, OPERATION)).collect::<Done<Vec<GangId>>>()?;
        let rows =
            self.query(OPERATION, "SELECT id FROM jobs WHERE gang_id = ANY($1)", &[&names(&gangs)]).await?;
        row::read_ids(OPERATION, &rows)
    }

    pub(crate) async fn select_waiting_gangs(&mut self, limit: usize) -> Done<Vec<WaitingGang>> {
        const OPERATION: &str = "read waiting gangs";
        let sql = format!(
            "WITH ready AS (SELECT gang_id AS gang, count(*) AS tasks, min(seq) AS first FROM jobs \
                 WHERE status = 'blocked' AND waiting_on = 0 AND gang_id IS NOT NULL GROUP BY gang_id) \
             SELECT {JOB_COLUMNS}, ready.tasks FROM ready JOIN jobs ON jobs.seq = ready.first \
             WHERE (SELECT true FROM jobs AS other WHERE other.gang_id = ready.gang AND other.done_at IS NULL \
                   AND (other.status <> 'blocked' OR other.waiting_on > 0) LIMIT 1) IS NULL \
             ORDER BY jobs.rank, jobs.seq LIMIT $1"
        );
        let rows = self.query(OPERATION, &sql, &[&sql_limit(limit)]).await?;
        let firsts = self.remember_all(row::read_jobs(&rows)?)?;
        let tasks = |row: &Row| row.try_get::<_, i64>(JOB_COLUMN_COUNT).map_err(during(OPERATION));
        let pair = |(first, row): (Job, &Row)| Ok(WaitingGang { first, tasks: tasks(row)? as u32 });
        firsts.into_iter().zip(&rows).map(pair).collect()
    }

    pub(crate) async fn select_stale_gangs(&mut self, before: Timestamp, limit: usize) -> Done<Vec<GangId>> {
        const OPERATION: &str = "read stale reservations";
        let sql = "SELECT gang_id FROM jobs \
                   WHERE status = 'reserved' AND reserved_at < $1 AND gang_id IS NOT NULL \
                   GROUP BY gang_id ORDER BY min(reserved_at), gang_id LIMIT $2";
        let rows = self.query(OPERATION, sql, &[&before.as_micros(), &sql_limit(limit)]).await?;
        rows.iter().map(|row| gang_id(row, 0, OPERATION)).collect()
    }

    pub(crate) async fn select_and_lock_reserved(&mut self, workers: &[WorkerId]) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE status = 'reserved' AND worker_id = ANY($1) \
             ORDER BY reserved_at, gang_id, gang_index FOR UPDATE SKIP LOCKED"
        );
        let rows = self.query("lock reserved jobs", &sql, &[&worker_names(workers)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_running(&mut self, worker: &WorkerId) -> Done<Vec<Job>> {
        let names = worker_names(std::slice::from_ref(worker));
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE status IN ('reserved', 'running') AND worker_id = ANY($1) FOR UPDATE"
        );
        let rows = self.query("read running jobs", &sql, &[&names]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_gangs(
        &mut self,
        before_seq: Option<u64>,
        limit: usize,
    ) -> Done<Vec<(u64, GangId)>> {
        const OPERATION: &str = "list gangs";
        let sql =
            "SELECT seq, gang_id FROM jobs WHERE gang_index = 0 AND seq < $1 ORDER BY seq DESC LIMIT $2";
        let before = before_seq.map_or(i64::MAX, |seq| seq as i64);
        let rows = self.query(OPERATION, sql, &[&before, &sql_limit(limit)]).await?;
        let read = |row: &Row| {
            let seq: i64 = row.try_get(0).map_err(during(OPERATION))?;
            Ok((seq as u64, gang_id(row, 1, OPERATION)?))
        };
        rows.iter().map(read).collect()
    }
}
