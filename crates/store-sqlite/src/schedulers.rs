//! Schedulers, and checkpoints in parts.

use muster_domain::{JobId, Timestamp};
use muster_store::{CheckpointPart, Instance};
use rusqlite::{OptionalExtension as _, params};

use crate::error::during;
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn write_part(&mut self, part: &CheckpointPart) -> Done<()> {
        const OPERATION: &str = "save a part of a checkpoint";
        let seq = self.seq(part.job)?;
        let sql =
            "INSERT OR REPLACE INTO checkpoint_parts (name, number, job, bytes) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.statement(OPERATION, sql)?;
        let values = params![part.name.as_ref(), part.number, seq, part.bytes];
        statement.execute(values).map(|_| ()).map_err(during(OPERATION))
    }

    pub(crate) fn leave_parts(&mut self, id: JobId, name: &str) -> Done<()> {
        const OPERATION: &str = "keep the parts of a checkpoint";
        let seq = self.seq(id)?;
        let sql = "DELETE FROM checkpoint_parts WHERE job = ?1 AND name <> ?2";
        self.statement(OPERATION, sql)?.execute(params![seq, name]).map(|_| ()).map_err(during(OPERATION))
    }

    pub(crate) fn select_parts_length(&mut self, id: JobId, name: &str) -> Done<u64> {
        const OPERATION: &str = "count the parts of a checkpoint";
        let seq = self.seq(id)?;
        let sql = "SELECT coalesce(sum(length(bytes)), 0) FROM checkpoint_parts WHERE job = ?1 AND name = ?2";
        let mut statement = self.statement(OPERATION, sql)?;
        let kept: i64 =
            statement.query_row(params![seq, name], |row| row.get(0)).map_err(during(OPERATION))?;
        Ok(kept.unsigned_abs())
    }

    pub(crate) fn select_part(&self, name: &str, number: u32) -> Done<Option<Vec<u8>>> {
        const OPERATION: &str = "read a part of a checkpoint";
        let sql = "SELECT bytes FROM checkpoint_parts WHERE name = ?1 AND number = ?2";
        let mut statement = self.statement(OPERATION, sql)?;
        statement.query_row(params![name, number], |row| row.get(0)).optional().map_err(during(OPERATION))
    }

    pub(crate) fn write_instance(&mut self, instance: &Instance) -> Done<()> {
        const OPERATION: &str = "note a scheduler";
        let sql = "INSERT OR REPLACE INTO schedulers (id, url, seen_at) VALUES (?1, ?2, ?3)";
        let mut statement = self.statement(OPERATION, sql)?;
        let values = params![instance.id, instance.url, instance.seen_at.as_micros()];
        statement.execute(values).map(|_| ()).map_err(during(OPERATION))
    }

    pub(crate) fn select_instances(&self) -> Done<Vec<Instance>> {
        const OPERATION: &str = "read schedulers";
        self.rows(OPERATION, "SELECT id, url, seen_at FROM schedulers ORDER BY id", [], |row| {
            let fail = during(OPERATION);
            Ok(Instance {
                id: row.get(0).map_err(&fail)?,
                url: row.get(1).map_err(&fail)?,
                seen_at: Timestamp::from_micros(row.get(2).map_err(&fail)?),
            })
        })
    }
}
