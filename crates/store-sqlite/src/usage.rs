//! Sums of what was used, by hour, user and queue.

use std::sync::LazyLock;

use muster_domain::{Job, Timestamp, UsageSum};
use muster_store::UsageEntry;
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};

use crate::error::during;
use crate::held::sql_limit;
use crate::row::{JOB_COLUMNS, read_job};
use crate::tx::{Done, SqliteTx};

const LAST: usize = UsageSum::FIELDS.len() - 1;

static ADD: LazyLock<String> = LazyLock::new(|| {
    let fields = UsageSum::FIELDS;
    let places: Vec<String> = (1..=4 + fields.len()).map(|at| format!("?{at}")).collect();
    let sums =
        fields[..LAST].iter().map(|field| format!("{field} = min({field} + excluded.{field}, {})", i64::MAX));
    let peak = fields[LAST];
    let changes: Vec<String> = sums.chain([format!("{peak} = max({peak}, excluded.{peak})")]).collect();
    format!(
        "INSERT INTO usage_hours (hour, account, queue, private, {}) VALUES ({}) \
         ON CONFLICT (hour, account, queue, private) DO UPDATE SET {}",
        fields.join(", "),
        places.join(", "),
        changes.join(", ")
    )
});

static READ: LazyLock<String> = LazyLock::new(|| {
    let fields = UsageSum::FIELDS;
    let sums = fields[..LAST].iter().map(|field| format!("CAST(total({field}) AS INTEGER)"));
    let columns: Vec<String> = sums.chain([format!("max({})", fields[LAST])]).collect();
    format!(
        "SELECT hour / ?3 AS bucket, account, queue, private, {} FROM usage_hours \
         WHERE hour >= ?1 AND hour < ?2 GROUP BY bucket, account, queue, private",
        columns.join(", ")
    )
});

impl SqliteTx<'_> {
    pub(crate) fn write_usage(&self, entries: &[UsageEntry]) -> Done<()> {
        let mut statement = self.statement("add usage", &ADD)?;
        for entry in entries {
            let key: [Value; 4] = [
                entry.hour.into(),
                entry.user.clone().into(),
                entry.queue.clone().into(),
                entry.private.into(),
            ];
            let numbers =
                entry.sum.to_array().map(|number| Value::from(i64::try_from(number).unwrap_or(i64::MAX)));
            let values = params_from_iter(key.into_iter().chain(numbers));
            statement.execute(values).map_err(during("add usage"))?;
        }
        Ok(())
    }

    pub(crate) fn select_usage(&self, from: i64, to: i64, bucket: i64) -> Done<Vec<UsageEntry>> {
        self.rows("read usage", &READ, [from, to, bucket], read)
    }

    pub(crate) fn select_ended_jobs(
        &self,
        since: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_done WHERE done_at >= ?1 AND done_at < ?2 \
             ORDER BY done_at DESC LIMIT ?3"
        );
        let values = [since.as_micros(), until.as_micros(), sql_limit(limit)];
        self.rows("read ended jobs", &sql, values, read_job)
    }

    pub(crate) fn delete_usage(&self, before: i64, limit: usize) -> Done<()> {
        let sql = "DELETE FROM usage_hours WHERE (hour, account, queue, private) IN \
                   (SELECT hour, account, queue, private FROM usage_hours WHERE hour < ?1 ORDER BY hour LIMIT ?2)";
        let mut statement = self.statement("forget usage", sql)?;
        statement.execute(params![before, sql_limit(limit)]).map_err(during("forget usage"))?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> Done<UsageEntry> {
    let fail = during("read usage");
    let mut numbers = [0; UsageSum::FIELDS.len()];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = row.get::<_, i64>(4 + at).map_err(&fail)?.unsigned_abs();
    }
    Ok(UsageEntry {
        hour: row.get(0).map_err(&fail)?,
        user: row.get(1).map_err(&fail)?,
        queue: row.get(2).map_err(&fail)?,
        private: row.get(3).map_err(&fail)?,
        sum: UsageSum::from_array(numbers),
    })
}
