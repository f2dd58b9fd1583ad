//! Moved output.

use muster_domain::{JobId, Lease, Timestamp};
use muster_store::{ExpireOutput, ExpiredOutput, MovedOutput, OutputContent, OutputTx};
use rusqlite::{Row, params};

use crate::error::during;
use crate::tx::{Done, SqliteTx};

impl OutputTx for SqliteTx<'_> {
    async fn outputs(&mut self, jobs: &[JobId]) -> Done<Vec<MovedOutput>> {
        let sql = "SELECT lease, attempt, stdout_written, stderr_written, kept, grown_at, whole, facts, blob, content \
                   FROM outputs WHERE job = ?1 ORDER BY lease";
        let mut found = Vec::new();
        for job in jobs {
            let Some(seq) = self.find_seq(*job)? else { continue };
            found.extend(self.rows("read moved output", sql, [seq], |row| output(row, *job))?);
        }
        Ok(found)
    }

    async fn put_outputs(&mut self, outputs: &[MovedOutput]) -> Done<()> {
        const OPERATION: &str = "keep moved output";
        let sql = "INSERT OR REPLACE INTO outputs (job, lease, attempt, stdout_written, stderr_written, kept, \
                   grown_at, whole, facts, blob, content) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        for output in outputs {
            let seq = self.seq(output.job)?;
            let content = if let OutputContent::Inline(bytes) = &output.content { Some(bytes) } else { None };
            let values = params![
                seq,
                output.lease.0 as i64,
                output.attempt,
                output.written[0] as i64,
                output.written[1] as i64,
                output.kept as i64,
                output.grown_at.as_micros(),
                output.whole,
                output.facts,
                output.blob(),
                content
            ];
            self.statement(OPERATION, sql)?.execute(values).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    async fn expire_outputs(&mut self, wanted: ExpireOutput) -> Done<Vec<ExpiredOutput>> {
        const OPERATION: &str = "remove old output";
        let sql = "SELECT outputs.job, outputs.lease, outputs.kept, outputs.blob FROM outputs \
                   JOIN jobs ON jobs.seq = outputs.job AND jobs.done_at IS NOT NULL \
                   WHERE outputs.kept > 0 AND outputs.grown_at < ?1 ORDER BY outputs.grown_at LIMIT ?2";
        let before = wanted.before.map_or(i64::MAX, Timestamp::as_micros);
        let limit = i64::try_from(wanted.limit).unwrap_or(i64::MAX);
        let old = self.rows(OPERATION, sql, params![before, limit], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map_err(during(OPERATION)).map(i64::unsigned_abs);
            Ok(ExpiredOutput {
                seq: number(0)?,
                lease: Lease(number(1)?),
                bytes: number(2)?,
                blob: row.get(3).map_err(during(OPERATION))?,
            })
        })?;
        let gone = wanted.enough(old);
        let sql = "UPDATE outputs SET kept = 0, blob = NULL, content = NULL WHERE job = ?1 AND lease = ?2";
        for one in &gone {
            let place = params![one.seq as i64, one.lease.0 as i64];
            self.statement(OPERATION, sql)?.execute(place).map_err(during(OPERATION))?;
        }
        Ok(gone)
    }

    async fn output_bytes(&mut self) -> Done<u64> {
        const OPERATION: &str = "add up moved output";
        let sql = "SELECT coalesce(sum(kept), 0) FROM outputs WHERE kept > 0";
        let sum = self.statement(OPERATION, sql)?.query_row([], |row| row.get::<_, i64>(0));
        sum.map(i64::unsigned_abs).map_err(during(OPERATION))
    }
}

fn output(row: &Row<'_>, job: JobId) -> Done<MovedOutput> {
    let fail = during("read moved output");
    let number = |at: usize| row.get::<_, i64>(at).map_err(&fail);
    let blob: Option<String> = row.get(8).map_err(&fail)?;
    let bytes: Option<Vec<u8>> = row.get(9).map_err(&fail)?;
    let inline = bytes.map_or(OutputContent::Removed, OutputContent::Inline);
    Ok(MovedOutput {
        job,
        lease: Lease(number(0)?.unsigned_abs()),
        attempt: row.get(1).map_err(&fail)?,
        written: [number(2)?.unsigned_abs(), number(3)?.unsigned_abs()],
        kept: number(4)?.unsigned_abs(),
        grown_at: Timestamp::from_micros(number(5)?),
        whole: row.get(6).map_err(&fail)?,
        facts: row.get(7).map_err(&fail)?,
        content: blob.map_or(inline, OutputContent::Blob),
    })
}
