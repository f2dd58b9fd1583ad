//! What a scheduler brings its roster up to date by: what the log says changed, and what changes without a word.

use muster_domain::{Job, Timestamp, WorkerId};
use muster_store::{Apart, Changed};
use rusqlite::OptionalExtension;

use crate::error::during;
use crate::row::{self, JOB_COLUMNS, from_json};
use crate::states::HELD;
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn select_changed(&self, position: u64, limit: u64) -> Done<Option<Changed>> {
        const OPERATION: &str = "read what changed";
        let upto = self.select_last_event()?;
        if upto.saturating_sub(position) > limit {
            return Ok(None);
        }
        let after = i64::try_from(position).unwrap_or(i64::MAX);
        let sql = "SELECT DISTINCT job FROM events WHERE seq > ?1 AND job IS NOT NULL ORDER BY job";
        let jobs = self.rows(OPERATION, sql, [after], |row| {
            row.get::<_, i64>(0).map(|seq| seq as u64).map_err(during(OPERATION))
        })?;
        let sql = "SELECT DISTINCT worker_id FROM events WHERE seq > ?1 AND worker_id IS NOT NULL ORDER BY worker_id";
        let workers = self.rows(OPERATION, sql, [after], |row| {
            row.get::<_, String>(0).map(WorkerId::new).map_err(during(OPERATION))
        })?;
        Ok(Some(Changed { upto, jobs, workers, removed: self.select_removed()? }))
    }

    fn select_removed(&self) -> Done<Option<Timestamp>> {
        const OPERATION: &str = "read the last removal";
        let mut statement = self.statement(OPERATION, "SELECT value FROM secrets WHERE name = 'removed'")?;
        let value: Option<String> =
            statement.query_row([], |row| row.get(0)).optional().map_err(during(OPERATION))?;
        Ok(value.and_then(|micros| micros.parse().ok()).map(Timestamp::from_micros))
    }

    pub(crate) fn write_removed(&self, newest: Timestamp) -> Done<()> {
        const OPERATION: &str = "note a removal";
        let newest = self.select_removed()?.map_or(newest, |before| before.max(newest));
        let sql = "INSERT OR REPLACE INTO secrets (name, value) VALUES ('removed', ?1)";
        let mut statement = self.statement(OPERATION, sql)?;
        statement.execute([newest.as_micros().to_string()]).map(|_| ()).map_err(during(OPERATION))
    }

    pub(crate) fn select_all_held(&mut self) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_held \
             WHERE {HELD}"
        );
        let jobs = self.rows("read all held jobs", &sql, [], row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_held_among(&mut self, seqs: &[u64]) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE seq = ?1 AND {HELD}");
        let keys = seqs.iter().map(|seq| [*seq as i64]);
        let jobs = self.rows_of_each("read held jobs", &sql, keys, row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_apart(&self, since: Timestamp) -> Done<Vec<Apart>> {
        const OPERATION: &str = "read silent workers";
        let sql = "SELECT id, status <> 'active' OR last_heartbeat < ?1, kept FROM workers \
                   WHERE status <> 'active' OR last_heartbeat < ?1 OR kept IS NOT NULL";
        self.rows(OPERATION, sql, [since.as_micros()], |row| {
            let fail = during(OPERATION);
            let id: String = row.get(0).map_err(&fail)?;
            let kept: Option<String> = row.get(2).map_err(&fail)?;
            let kept = kept.map(|kept| from_json(&kept, &format!("room of worker {id}"))).transpose()?;
            Ok(Apart { worker: WorkerId::new(id), silent: row.get(1).map_err(&fail)?, kept })
        })
    }
}
