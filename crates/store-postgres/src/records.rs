//! Records and the audit log.

use muster_domain::Timestamp;
use muster_store::{AuditFilter, AuditLine, Chosen, Record, RecordKind};

use crate::error::during;
use crate::row::{sql_limit, storable};
use crate::tx::{Done, PostgresTx};

impl PostgresTx {
    pub(crate) async fn select_records(&mut self, kind: RecordKind, chosen: Chosen<'_>) -> Done<Vec<Record>> {
        const OPERATION: &str = "read records";
        let rows = match chosen {
            Chosen::All => {
                let sql = "SELECT key, facts FROM records WHERE kind = $1 ORDER BY key";
                self.query(OPERATION, sql, &[&kind.name()]).await?
            }
            Chosen::Of(keys) => {
                let sql = "SELECT key, facts FROM records WHERE kind = $1 AND key = ANY($2) ORDER BY key";
                self.query(OPERATION, sql, &[&kind.name(), &keys]).await?
            }
            Chosen::Locked(keys) => {
                let sql = "SELECT key, facts FROM records WHERE kind = $1 AND key = ANY($2) \
                           ORDER BY key FOR UPDATE";
                self.query(OPERATION, sql, &[&kind.name(), &keys]).await?
            }
        };
        let fail = during(OPERATION);
        let read = |row: &tokio_postgres::Row| {
            Ok(Record { kind, key: row.try_get(0).map_err(&fail)?, facts: row.try_get(1).map_err(&fail)? })
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn write_records(&mut self, records: &[Record]) -> Done<()> {
        let kinds: Vec<&str> = records.iter().map(|record| record.kind.name()).collect();
        let keys: Vec<_> = records.iter().map(|record| storable(&record.key)).collect();
        let facts: Vec<_> = records.iter().map(|record| storable(&record.facts)).collect();
        let sql = "INSERT INTO records (kind, key, facts) SELECT kind, key, facts \
                   FROM unnest($1::text[], $2::text[], $3::text[]) AS new (kind, key, facts) ORDER BY kind, key \
                   ON CONFLICT (kind, key) DO UPDATE SET facts = excluded.facts";
        self.execute("put records", sql, &[&kinds, &keys, &facts]).await?;
        Ok(())
    }

    pub(crate) async fn remove_records(&mut self, kind: RecordKind, keys: &[String]) -> Done<()> {
        let sql = "DELETE FROM records WHERE kind = $1 AND key = ANY($2)";
        self.execute("delete records", sql, &[&kind.name(), &keys]).await?;
        Ok(())
    }

    pub(crate) async fn write_audit(&mut self, lines: &[AuditLine]) -> Done<()> {
        let at: Vec<i64> = lines.iter().map(|line| line.at.as_micros()).collect();
        let facts: Vec<_> = lines.iter().map(|line| storable(&line.facts)).collect();
        let sql = "INSERT INTO audit (at, facts) SELECT at, facts \
                   FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS new (at, facts, place) ORDER BY place";
        self.execute("append to the audit log", sql, &[&at, &facts]).await?;
        Ok(())
    }

    pub(crate) async fn select_audit(&mut self, filter: &AuditFilter) -> Done<Vec<AuditLine>> {
        const OPERATION: &str = "read the audit log";
        let sql = "SELECT seq, at, facts FROM audit WHERE seq < $1 AND at >= $2 ORDER BY seq DESC LIMIT $3";
        let before = filter.before_seq.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX);
        let since = filter.since.map_or(i64::MIN, Timestamp::as_micros);
        let rows = self.query(OPERATION, sql, &[&before, &since, &sql_limit(filter.limit)]).await?;
        let fail = during(OPERATION);
        let read = |row: &tokio_postgres::Row| {
            Ok(AuditLine {
                seq: row.try_get::<_, i64>(0).map_err(&fail)?.unsigned_abs(),
                at: Timestamp::from_micros(row.try_get(1).map_err(&fail)?),
                facts: row.try_get(2).map_err(&fail)?,
            })
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn remove_audit(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        let sql = "DELETE FROM audit WHERE at < $1 AND seq IN (SELECT seq FROM audit ORDER BY seq LIMIT $2)";
        let gone = self
            .execute("forget old lines of the audit log", sql, &[&before.as_micros(), &sql_limit(limit)])
            .await?;
        Ok(u32::try_from(gone).unwrap_or(u32::MAX))
    }
}
