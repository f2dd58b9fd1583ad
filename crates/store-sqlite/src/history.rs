//! How long runs of one name took.

use muster_domain::{RunTimes, Span, Timestamp};
use rusqlite::{Row, params};

use crate::error::during;
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn select_run_times(&self, series: &[String]) -> Done<Vec<(String, RunTimes)>> {
        let sql = "SELECT series, last_us, before_us FROM run_times WHERE series = ?1";
        self.rows_of_each("read run times", sql, series.iter().map(|series| [series]), read)
    }

    pub(crate) fn write_run_times(&self, times: &[(String, RunTimes)], at: Timestamp) -> Done<()> {
        let sql = "INSERT OR REPLACE INTO run_times (series, last_us, before_us, at) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.statement("put run times", sql)?;
        for (series, times) in times {
            let (last, before) = (times.last.as_micros() as i64, times.before.as_micros() as i64);
            statement
                .execute(params![series, last, before, at.as_micros()])
                .map_err(during("put run times"))?;
        }
        Ok(())
    }

    pub(crate) fn delete_run_times(&self, before: Timestamp, limit: usize) -> Done<()> {
        let sql = "DELETE FROM run_times WHERE series IN \
                   (SELECT series FROM run_times INDEXED BY run_times_by_age WHERE at < ?1 ORDER BY at LIMIT ?2)";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.statement("forget run times", sql)?;
        statement.execute(params![before.as_micros(), limit]).map_err(during("forget run times"))?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> Done<(String, RunTimes)> {
    let fail = during("read run times");
    let (last, before): (i64, i64) = (row.get(1).map_err(&fail)?, row.get(2).map_err(&fail)?);
    let span = |micros: i64| Span::from_micros(micros.unsigned_abs());
    Ok((row.get(0).map_err(&fail)?, RunTimes { last: span(last), before: span(before) }))
}
