//! Workers, and the secret that schedulers share.

use muster_domain::{Worker, WorkerId};

use crate::error::during;
use crate::row::{self, WORKER_COLUMNS};
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn select_workers(&self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM workers WHERE id = ?1");
        self.rows_of_each("read workers", &sql, ids.iter().map(|id| [id.as_str()]), row::read_worker)
    }

    pub(crate) fn select_all_workers(&self) -> Done<Vec<Worker>> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM workers ORDER BY id");
        self.rows("read workers", &sql, [], row::read_worker)
    }

    pub(crate) fn write_workers(&self, workers: &[Worker]) -> Done<()> {
        let sql = format!(
            "INSERT OR REPLACE INTO workers ({WORKER_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \
             ?11, ?12, ?13)"
        );
        let mut statement = self.statement("put workers", &sql)?;
        workers.iter().try_for_each(|worker| row::insert_worker(&mut statement, worker))
    }

    pub(crate) fn keep_secret(&self, proposal: &str) -> Done<String> {
        const OPERATION: &str = "keep the secret";
        let mut statement =
            self.statement(OPERATION, "INSERT OR IGNORE INTO secrets (name, value) VALUES ('tokens', ?1)")?;
        statement.execute([proposal]).map_err(during(OPERATION))?;
        let mut statement = self.statement(OPERATION, "SELECT value FROM secrets WHERE name = 'tokens'")?;
        statement.query_row([], |row| row.get(0)).map_err(during(OPERATION))
    }
}
