//! How long runs of one name took.

use muster_domain::{RunTimes, Span, Timestamp};
use tokio_postgres::Row;

use crate::error::during;
use crate::row::sql_limit;
use crate::tx::{Done, PostgresTx};

impl PostgresTx {
    pub(crate) async fn select_run_times(&mut self, series: &[String]) -> Done<Vec<(String, RunTimes)>> {
        let sql = "SELECT series, last_us, before_us FROM run_times WHERE series = ANY($1)";
        let rows = self.query("read run times", sql, &[&series]).await?;
        rows.iter().map(read).collect()
    }

    /// Rows are written in the order of their names, so that two transactions never wait for each other.
    pub(crate) async fn write_run_times(&mut self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()> {
        let series: Vec<&String> = times.iter().map(|(series, _)| series).collect();
        let last: Vec<i64> = times.iter().map(|(_, times)| times.last.as_micros() as i64).collect();
        let before: Vec<i64> = times.iter().map(|(_, times)| times.before.as_micros() as i64).collect();
        let sql = "INSERT INTO run_times (series, last_us, before_us, at) \
                   SELECT series, last_us, before_us, $4 \
                   FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS new (series, last_us, before_us) \
                   ORDER BY series COLLATE \"C\" \
                   ON CONFLICT (series) DO UPDATE \
                   SET last_us = excluded.last_us, before_us = excluded.before_us, at = excluded.at";
        self.execute("put run times", sql, &[&series, &last, &before, &at.as_micros()]).await?;
        Ok(())
    }

    pub(crate) async fn delete_run_times(&mut self, before: Timestamp, limit: usize) -> Done<()> {
        let sql = "DELETE FROM run_times WHERE series IN \
                   (SELECT series FROM run_times WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)";
        self.execute("forget run times", sql, &[&before.as_micros(), &sql_limit(limit)]).await?;
        Ok(())
    }
}

fn read(row: &Row) -> Done<(String, RunTimes)> {
    let fail = during("read run times");
    let (last, before): (i64, i64) = (row.try_get(1).map_err(&fail)?, row.try_get(2).map_err(&fail)?);
    let span = |micros: i64| Span::from_micros(micros.unsigned_abs());
    Ok((row.try_get(0).map_err(&fail)?, RunTimes { last: span(last), before: span(before) }))
}
