//! What a scheduler brings its roster up to date by: what the log says changed, and what changes without a word.

use muster_domain::{Job, Timestamp, WorkerId};
use muster_store::{Apart, Changed};
use tokio_postgres::Row;

use crate::error::during;
use crate::row::{self, JOB_COLUMNS, WORKER_COLUMNS, from_json, worker_names};
use crate::tx::{Done, PostgresTx};

impl PostgresTx {
    /// Reads beyond the number up to which the log is complete: who has had a lock sees all that was committed by
    /// those who had it before.
    pub(crate) async fn select_changed(&mut self, position: u64, limit: u64) -> Done<Option<Changed>> {
        const OPERATION: &str = "read what changed";
        let upto = self.decided().await?.max(position as i64) as u64;
        if upto - position > limit {
            return Ok(None);
        }
        // The note of removals is read first: it is written with them.
        let removed = self.select_removed().await?;
        let sql = "SELECT DISTINCT job, worker_id FROM events WHERE seq > $1";
        let rows = self.query(OPERATION, sql, &[&(position as i64)]).await?;
        let mut changed = Changed { upto, removed, ..Changed::default() };
        for row in &rows {
            let job: Option<i64> = row.try_get(0).map_err(during(OPERATION))?;
            let worker: Option<String> = row.try_get(1).map_err(during(OPERATION))?;
            changed.jobs.extend(job.map(|seq| seq as u64));
            changed.workers.extend(worker.map(WorkerId::new));
        }
        changed.jobs.sort_unstable();
        changed.jobs.dedup();
        changed.workers.sort_unstable();
        changed.workers.dedup();
        Ok(Some(changed))
    }

    async fn select_removed(&mut self) -> Done<Option<Timestamp>> {
        const OPERATION: &str = "read the last removal";
        let rows = self.query(OPERATION, "SELECT value FROM secrets WHERE name = 'removed'", &[]).await?;
        let value: Option<String> =
            rows.first().map(|row| row.try_get(0)).transpose().map_err(during(OPERATION))?;
        Ok(value.and_then(|micros| micros.parse().ok()).map(Timestamp::from_micros))
    }

    pub(crate) async fn write_removed(&mut self, newest: Timestamp) -> Done<()> {
        let sql = "INSERT INTO secrets (name, value) VALUES ('removed', $1::bigint::text) \
                   ON CONFLICT (name) DO UPDATE \
                   SET value = greatest(secrets.value::bigint, excluded.value::bigint)::text";
        self.execute("note a removal", sql, &[&newest.as_micros()]).await?;
        Ok(())
    }

    pub(crate) async fn select_all_held(&mut self) -> Done<Vec<Job>> {
        let sql =
            format!("SELECT {JOB_COLUMNS} FROM jobs WHERE status IN ('reserved', 'running', 'preempting')");
        let rows = self.query("read all held jobs", &sql, &[]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>> {
        let seqs: Vec<i64> = seqs.iter().map(|seq| *seq as i64).collect();
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs \
             WHERE seq = ANY($1) AND status IN ('reserved', 'running', 'preempting')"
        );
        let rows = self.query("read held jobs", &sql, &[&seqs]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_some_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<muster_domain::Worker>> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM workers WHERE id = ANY($1)");
        let rows = self.query("read some workers", &sql, &[&worker_names(ids)]).await?;
        rows.iter().map(row::read_worker).collect()
    }

    /// Goes over all workers, which are few beside jobs; an index would have to be written with every sign of life.
    pub(crate) async fn select_apart(&mut self, since: Timestamp) -> Done<Vec<Apart>> {
        const OPERATION: &str = "read silent workers";
        let sql = "SELECT id, status <> 'active' OR last_heartbeat < $1, kept FROM workers \
                   WHERE status <> 'active' OR last_heartbeat < $1 OR kept IS NOT NULL";
        let rows = self.query(OPERATION, sql, &[&since.as_micros()]).await?;
        let read = |row: &Row| {
            let fail = during(OPERATION);
            let id: String = row.try_get(0).map_err(&fail)?;
            let kept: Option<String> = row.try_get(2).map_err(&fail)?;
            let kept = kept.map(|kept| from_json(&kept, &format!("room of worker {id}"))).transpose()?;
            Ok(Apart { worker: WorkerId::new(id), silent: row.try_get(1).map_err(&fail)?, kept })
        };
        rows.iter().map(read).collect()
    }
}
