//! Sums of what was used, by hour, user and queue.
//!
//! Schedulers that end attempts of one user at the same time would wait for each other at one row. So each sum is kept
//! in a few rows, of which a connection always uses the same; whoever reads adds them up.

use std::sync::LazyLock;

use muster_domain::{Job, Timestamp, UsageSum};
use muster_store::UsageEntry;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::during;
use crate::row::{self, JOB_COLUMNS, sql_limit, storable};
use crate::tx::{Done, PostgresTx};

const LAST: usize = UsageSum::FIELDS.len() - 1;

static ADD: LazyLock<String> = LazyLock::new(|| {
    let fields = UsageSum::FIELDS;
    let places: Vec<String> = (1..=fields.len()).map(|at| format!("${}::bigint[]", at + 4)).collect();
    let most = i64::MAX;
    let sums = fields[..LAST]
        .iter()
        .map(|field| format!("{field} = least(used.{field}::numeric + excluded.{field}, {most})::bigint"));
    let peak = fields[LAST];
    let changes: Vec<String> =
        sums.chain([format!("{peak} = greatest(used.{peak}, excluded.{peak})")]).collect();
    let names = fields.join(", ");
    format!(
        "INSERT INTO usage_hours AS used (hour, account, queue, private, part, {names}) \
         SELECT hour, account, queue, private, pg_backend_pid() % 16, {names} \
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bool[], {}) \
         AS new (hour, account, queue, private, {names}) \
         ORDER BY hour, account COLLATE \"C\", queue COLLATE \"C\", private \
         ON CONFLICT (hour, account, queue, private, part) DO UPDATE SET {}",
        places.join(", "),
        changes.join(", ")
    )
});

static READ: LazyLock<String> = LazyLock::new(|| {
    let fields = UsageSum::FIELDS;
    let most = i64::MAX;
    let sums = fields[..LAST].iter().map(|field| format!("least(sum({field}), {most})::bigint"));
    let columns: Vec<String> = sums.chain([format!("max({})", fields[LAST])]).collect();
    format!(
        "SELECT hour / $3 AS bucket, account, queue, private, {} FROM usage_hours \
         WHERE hour >= $1 AND hour < $2 GROUP BY bucket, account, queue, private",
        columns.join(", ")
    )
});

impl PostgresTx {
    pub(crate) async fn write_usage(&mut self, entries: &[UsageEntry]) -> Done<()> {
        let hours: Vec<i64> = entries.iter().map(|entry| entry.hour).collect();
        let accounts: Vec<_> = entries.iter().map(|entry| storable(&entry.user)).collect();
        let queues: Vec<_> = entries.iter().map(|entry| storable(&entry.queue)).collect();
        let private: Vec<bool> = entries.iter().map(|entry| entry.private).collect();
        let rows: Vec<_> = entries.iter().map(|entry| entry.sum.to_array()).collect();
        let of = |at: usize| -> Vec<i64> {
            rows.iter().map(|row| i64::try_from(row[at]).unwrap_or(i64::MAX)).collect()
        };
        let numbers: Vec<Vec<i64>> = (0..UsageSum::FIELDS.len()).map(of).collect();
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&hours, &accounts, &queues, &private];
        values.extend(numbers.iter().map(|column| column as &(dyn ToSql + Sync)));
        self.execute("add usage", &ADD, &values).await?;
        Ok(())
    }

    pub(crate) async fn select_usage(&mut self, from: i64, to: i64, bucket: i64) -> Done<Vec<UsageEntry>> {
        let rows = self.query("read usage", &READ, &[&from, &to, &bucket]).await?;
        rows.iter().map(read).collect()
    }

    pub(crate) async fn select_ended_jobs(
        &mut self,
        since: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE done_at >= $1 AND done_at < $2 ORDER BY done_at DESC LIMIT $3"
        );
        let values: [&(dyn ToSql + Sync); 3] = [&since.as_micros(), &until.as_micros(), &sql_limit(limit)];
        row::read_jobs(&self.query("read ended jobs", &sql, &values).await?)
    }

    pub(crate) async fn delete_usage(&mut self, before: i64, limit: usize) -> Done<()> {
        let sql = "DELETE FROM usage_hours WHERE ctid IN \
                   (SELECT ctid FROM usage_hours WHERE hour < $1 ORDER BY hour LIMIT $2 FOR UPDATE SKIP LOCKED)";
        self.execute("forget usage", sql, &[&before, &sql_limit(limit)]).await?;
        Ok(())
    }
}

fn read(row: &Row) -> Done<UsageEntry> {
    let fail = during("read usage");
    let mut numbers = [0; UsageSum::FIELDS.len()];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = row.try_get::<_, i64>(4 + at).map_err(&fail)?.unsigned_abs();
    }
    Ok(UsageEntry {
        hour: row.try_get(0).map_err(&fail)?,
        user: row.try_get(1).map_err(&fail)?,
        queue: row.try_get(2).map_err(&fail)?,
        private: row.try_get(3).map_err(&fail)?,
        sum: UsageSum::from_array(numbers),
    })
}
