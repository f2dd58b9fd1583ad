//! A long history in a SQLite file, written directly: copies of jobs that were really run, with their events.
//!
//! The file is made by the store itself and has its tables, indexes and counters afterwards as if every job had
//! been submitted, only faster.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use muster_store::Store as _;
use muster_store::engine::Policy;
use muster_store_sqlite::SqliteStore;
use rusqlite::{Connection, OpenFlags, params};
use tokio::runtime;

use crate::workloads::run_through;

/// Jobs that are really run, and then copied.
const PATTERN: usize = 1_000;
/// Copies lie as far apart in time as if one pattern had been run each second, the last of them a day ago.
const DAY_MICROS: i64 = 86_400_000_000;

/// Makes the file and puts `count` finished jobs into it, in thousands.
pub(crate) fn fill(file: &Path, count: usize) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = SqliteStore::open(file, Policy::default())?;
        let ran = run_through(&store, PATTERN).await;
        store.close().await;
        ran
    })?;
    let connection = Connection::open(file)?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; BEGIN",
    )?;
    let indexes = take_indexes(&connection)?;
    copy(&connection, (count / PATTERN) as i64)?;
    connection.execute_batch(
        "UPDATE numbers SET last = (SELECT max(seq) FROM jobs) WHERE kind = 'job'; \
         UPDATE numbers SET last = (SELECT max(seq) FROM events) WHERE kind = 'event'",
    )?;
    for sql in indexes {
        connection.execute_batch(&sql)?;
    }
    connection.execute_batch("COMMIT; PRAGMA journal_mode = WAL")?;
    drop(connection);
    // What is still in memory would be written during the measurement.
    File::open(file)?.sync_all()?;
    Ok(())
}

/// Drops the indexes of the big tables, which are made faster at the end, and returns how to make them.
fn take_indexes(connection: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL \
               AND tbl_name IN ('jobs', 'events')";
    let mut statement = connection.prepare(sql)?;
    let found = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let found: Vec<(String, String)> = found.collect::<Result<_, _>>()?;
    drop(statement);
    for (name, _) in &found {
        connection.execute_batch(&format!("DROP INDEX {name}"))?;
    }
    Ok(found.into_iter().map(|(_, sql)| sql).collect())
}

fn copy(connection: &Connection, copies: i64) -> Result<()> {
    let jobs = copying(connection, "jobs", |column| match column {
        "seq" => "seq + ?1 * ?2".to_owned(),
        "id" => "randomblob(16)".to_owned(),
        "created_at" | "ready_at" | "started_at" | "done_at" => format!("{column} - ?3"),
        other => other.to_owned(),
    })?;
    let events = copying(connection, "events", |column| match column {
        "seq" => "seq + ?1 * ?2".to_owned(),
        "job" => "job + ?1 * ?4".to_owned(),
        "at" => "at - ?3".to_owned(),
        other => other.to_owned(),
    })?;
    let last = |table: &str| -> Result<i64> {
        Ok(connection.query_row(&format!("SELECT max(seq) FROM {table}"), [], |row| row.get(0))?)
    };
    let (last_job, last_event) = (last("jobs")?, last("events")?);
    let mut jobs = connection.prepare(&format!("{jobs} WHERE seq <= ?2"))?;
    let mut events = connection.prepare(&format!("{events} WHERE seq <= ?2"))?;
    for number in 1..copies {
        let earlier = DAY_MICROS + (copies - number) * 1_000_000;
        jobs.execute(params![number, last_job, earlier])?;
        events.execute(params![number, last_event, earlier, last_job])?;
    }
    Ok(())
}

/// A statement that copies rows of a table, each column as the rule says.
fn copying(connection: &Connection, table: &str, rule: impl Fn(&str) -> String) -> Result<String> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let columns = statement.query_map([table], |row| row.get::<_, String>(0))?;
    let columns: Vec<String> = columns.collect::<Result<_, _>>()?;
    let values: Vec<String> = columns.iter().map(|column| rule(column)).collect();
    Ok(format!("INSERT INTO {table} ({}) SELECT {} FROM {table}", columns.join(", "), values.join(", ")))
}

/// How many jobs a file holds that nobody uses at the moment.
pub(crate) fn count(file: &Path) -> Result<usize> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let count: i64 = connection
        .query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))
        .context("counting the jobs of the history")?;
    Ok(count as usize)
}

#[cfg(test)]
mod tests {
    use muster_domain::Status;
    use muster_store::{EventFilter, JobFilter, StoreExt as _};

    use super::*;

    #[test]
    fn a_history_reads_like_jobs_that_were_run() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("muster.db");
        fill(&file, 3 * PATTERN).unwrap();
        assert_eq!(count(&file).unwrap(), 3 * PATTERN);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(&file, Policy::default()).unwrap();
            let jobs = store.jobs(JobFilter::default()).await.unwrap().jobs;
            assert_eq!(jobs.len(), 3 * PATTERN);
            assert!(jobs.iter().all(|view| view.job.status() == Status::Done));
            let of_copy = EventFilter { job: Some(jobs[0].job.id), after: 0, limit: 10 };
            assert_eq!(store.events(of_copy).await.unwrap().len(), 3);
            assert_eq!(store.last_event().await.unwrap(), 9 * PATTERN as u64);
            store.close().await;
        });
    }
}
