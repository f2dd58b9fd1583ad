//! Moved output.

use std::collections::HashMap;

use muster_domain::{JobId, Lease, Timestamp};
use muster_store::{ExpireOutput, ExpiredOutput, MovedOutput, OutputContent, OutputTx};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::during;
use crate::tx::{Done, PostgresTx};

impl OutputTx for PostgresTx {
    async fn outputs(&mut self, jobs: &[JobId]) -> Done<Vec<MovedOutput>> {
        const OPERATION: &str = "read moved output";
        self.learn(jobs.iter().copied()).await?;
        let seqs = self.known_seqs(jobs);
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let known = jobs.iter().filter_map(|job| Some((self.seq(*job).ok()?, *job)));
        let ids: HashMap<i64, JobId> = known.collect();
        let sql = "SELECT job, lease, attempt, stdout_written, stderr_written, kept, grown_at, whole, facts, blob, \
                   content FROM outputs WHERE job = ANY($1) ORDER BY job, lease";
        let rows = self.query(OPERATION, sql, &[&seqs]).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let seq: i64 = row.try_get(0).map_err(during(OPERATION))?;
            if let Some(job) = ids.get(&seq) {
                found.push(output(row, *job)?);
            }
        }
        Ok(found)
    }

    async fn put_outputs(&mut self, outputs: &[MovedOutput]) -> Done<()> {
        let mut seqs = Vec::with_capacity(outputs.len());
        for output in outputs {
            seqs.push(self.seq(output.job)?);
        }
        let numbers = |of: fn(&MovedOutput) -> i64| outputs.iter().map(of).collect::<Vec<i64>>();
        let leases = numbers(|one| one.lease.0 as i64);
        let attempts = numbers(|one| i64::from(one.attempt));
        let (stdout, stderr) = (numbers(|one| one.written[0] as i64), numbers(|one| one.written[1] as i64));
        let (kept, grown) = (numbers(|one| one.kept as i64), numbers(|one| one.grown_at.as_micros()));
        let whole: Vec<bool> = outputs.iter().map(|one| one.whole).collect();
        let facts: Vec<&str> = outputs.iter().map(|one| one.facts.as_str()).collect();
        let blobs: Vec<Option<&str>> = outputs.iter().map(MovedOutput::blob).collect();
        let inline = |one: &'_ MovedOutput| match &one.content {
            OutputContent::Inline(bytes) => Some(bytes.clone()),
            OutputContent::Blob(_) | OutputContent::Removed => None,
        };
        let contents: Vec<Option<Vec<u8>>> = outputs.iter().map(inline).collect();
        let sql = "INSERT INTO outputs (job, lease, attempt, stdout_written, stderr_written, kept, grown_at, whole, \
                   facts, blob, content) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], \
                   $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[], $9::text[], $10::text[], \
                   $11::bytea[]) ON CONFLICT (job, lease) DO UPDATE SET attempt = excluded.attempt, \
                   stdout_written = excluded.stdout_written, stderr_written = excluded.stderr_written, \
                   kept = excluded.kept, grown_at = excluded.grown_at, whole = excluded.whole, \
                   facts = excluded.facts, blob = excluded.blob, content = excluded.content";
        let values: [&(dyn ToSql + Sync); 11] =
            [&seqs, &leases, &attempts, &stdout, &stderr, &kept, &grown, &whole, &facts, &blobs, &contents];
        self.execute("keep moved output", sql, &values).await.map(|_| ())
    }

    async fn expire_outputs(&mut self, wanted: ExpireOutput) -> Done<Vec<ExpiredOutput>> {
        const OPERATION: &str = "remove old output";
        let sql = "SELECT outputs.job, outputs.lease, outputs.kept, outputs.blob FROM outputs \
                   JOIN jobs ON jobs.seq = outputs.job AND jobs.done_at IS NOT NULL \
                   WHERE outputs.kept > 0 AND outputs.grown_at < $1 ORDER BY outputs.grown_at LIMIT $2 \
                   FOR UPDATE OF outputs SKIP LOCKED";
        let before = wanted.before.map_or(i64::MAX, Timestamp::as_micros);
        let limit = i64::try_from(wanted.limit).unwrap_or(i64::MAX);
        let mut old = Vec::new();
        for row in self.query(OPERATION, sql, &[&before, &limit]).await? {
            let number =
                |at: usize| row.try_get::<_, i64>(at).map_err(during(OPERATION)).map(i64::unsigned_abs);
            old.push(ExpiredOutput {
                seq: number(0)?,
                lease: Lease(number(1)?),
                bytes: number(2)?,
                blob: row.try_get(3).map_err(during(OPERATION))?,
            });
        }
        let gone = wanted.enough(old);
        let seqs: Vec<i64> = gone.iter().map(|one| one.seq as i64).collect();
        let leases: Vec<i64> = gone.iter().map(|one| one.lease.0 as i64).collect();
        let sql = "UPDATE outputs SET kept = 0, blob = NULL, content = NULL \
                   FROM unnest($1::bigint[], $2::bigint[]) AS gone (job, lease) \
                   WHERE outputs.job = gone.job AND outputs.lease = gone.lease";
        self.execute(OPERATION, sql, &[&seqs, &leases]).await?;
        Ok(gone)
    }

    async fn output_bytes(&mut self) -> Done<u64> {
        const OPERATION: &str = "add up moved output";
        let sql = "SELECT coalesce(sum(kept), 0)::bigint FROM outputs WHERE kept > 0";
        let rows = self.query(OPERATION, sql, &[]).await?;
        let sum = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose().map_err(during(OPERATION))?;
        Ok(sum.unwrap_or(0).unsigned_abs())
    }
}

fn output(row: &Row, job: JobId) -> Done<MovedOutput> {
    let fail = during("read moved output");
    let number = |at: usize| row.try_get::<_, i64>(at).map_err(&fail);
    let blob: Option<String> = row.try_get(9).map_err(&fail)?;
    let bytes: Option<Vec<u8>> = row.try_get(10).map_err(&fail)?;
    let inline = bytes.map_or(OutputContent::Removed, OutputContent::Inline);
    Ok(MovedOutput {
        job,
        lease: Lease(number(1)?.unsigned_abs()),
        attempt: u32::try_from(number(2)?).unwrap_or(u32::MAX),
        written: [number(3)?.unsigned_abs(), number(4)?.unsigned_abs()],
        kept: number(5)?.unsigned_abs(),
        grown_at: Timestamp::from_micros(number(6)?),
        whole: row.try_get(7).map_err(&fail)?,
        facts: row.try_get(8).map_err(&fail)?,
        content: blob.map_or(inline, OutputContent::Blob),
    })
}
