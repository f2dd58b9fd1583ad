//! Records and the audit log. One writer at a time: reading is as good as locking.

use muster_domain::Timestamp;
use muster_store::{AuditFilter, AuditLine, Chosen, Record, RecordKind};
use rusqlite::params;

use crate::error::during;
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn select_records(&self, kind: RecordKind, chosen: Chosen<'_>) -> Done<Vec<Record>> {
        const OPERATION: &str = "read records";
        let read = |row: &rusqlite::Row<'_>| {
            let fail = during(OPERATION);
            Ok(Record { kind, key: row.get(0).map_err(&fail)?, facts: row.get(1).map_err(&fail)? })
        };
        match chosen {
            Chosen::All => {
                let sql = "SELECT key, facts FROM records WHERE kind = ?1 ORDER BY key";
                self.rows(OPERATION, sql, [kind.name()], read)
            }
            Chosen::Of(keys) | Chosen::Locked(keys) => {
                let sql = "SELECT key, facts FROM records WHERE kind = ?1 AND key = ?2";
                let each = keys.iter().map(|key| [kind.name(), key.as_str()]);
                self.rows_of_each(OPERATION, sql, each, read)
            }
        }
    }

    pub(crate) fn write_records(&self, records: &[Record]) -> Done<()> {
        const OPERATION: &str = "put records";
        let sql = "INSERT OR REPLACE INTO records (kind, key, facts) VALUES (?1, ?2, ?3)";
        let mut statement = self.statement(OPERATION, sql)?;
        for record in records {
            let values = params![record.kind.name(), record.key, record.facts];
            statement.execute(values).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn remove_records(&self, kind: RecordKind, keys: &[String]) -> Done<()> {
        const OPERATION: &str = "delete records";
        let mut statement = self.statement(OPERATION, "DELETE FROM records WHERE kind = ?1 AND key = ?2")?;
        for key in keys {
            statement.execute(params![kind.name(), key]).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn write_audit(&self, lines: &[AuditLine]) -> Done<()> {
        const OPERATION: &str = "append to the audit log";
        let mut statement = self.statement(OPERATION, "INSERT INTO audit (at, facts) VALUES (?1, ?2)")?;
        for line in lines {
            statement.execute(params![line.at.as_micros(), line.facts]).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn select_audit(&self, filter: &AuditFilter) -> Done<Vec<AuditLine>> {
        const OPERATION: &str = "read the audit log";
        let sql = "SELECT seq, at, facts FROM audit WHERE seq < ?1 AND at >= ?2 ORDER BY seq DESC LIMIT ?3";
        let before = filter.before_seq.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX);
        let since = filter.since.map_or(i64::MIN, Timestamp::as_micros);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        self.rows(OPERATION, sql, [before, since, limit], |row| {
            let fail = during(OPERATION);
            Ok(AuditLine {
                seq: row.get::<_, i64>(0).map_err(&fail)?.unsigned_abs(),
                at: Timestamp::from_micros(row.get(1).map_err(&fail)?),
                facts: row.get(2).map_err(&fail)?,
            })
        })
    }

    pub(crate) fn remove_audit(&self, before: Timestamp, limit: usize) -> Done<u32> {
        const OPERATION: &str = "forget old lines of the audit log";
        let sql = "DELETE FROM audit WHERE at < ?1 AND seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?2)";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let gone = self.statement(OPERATION, sql)?.execute([before.as_micros(), limit]);
        gone.map(|gone| u32::try_from(gone).unwrap_or(u32::MAX)).map_err(during(OPERATION))
    }
}
