//! Commits per second of SQLite with the durability that our store has: write-ahead log, synchronous FULL.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use serde::Serialize;

/// Rows per second with one row and with 500 rows in each transaction.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Commits {
    pub(crate) single: f64,
    pub(crate) grouped: f64,
}

/// Measures for `duration` each, in a new file of `directory`.
pub(crate) fn commits(directory: &Path, duration: Duration) -> Result<Commits> {
    let file = tempfile::Builder::new().prefix("limit-").tempdir_in(directory)?;
    let mut connection = Connection::open(file.path().join("limit.db")).context("opening SQLite")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE work (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let single = rows_per_second(&mut connection, 1, duration)?;
    let grouped = rows_per_second(&mut connection, 500, duration)?;
    Ok(Commits { single, grouped })
}

fn rows_per_second(connection: &mut Connection, group: u32, duration: Duration) -> Result<f64> {
    let body = "x".repeat(100);
    let begin = Instant::now();
    let mut rows = 0;
    while begin.elapsed() < duration {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO work (body) VALUES (?1)")?;
            for _ in 0..group {
                insert.execute(params![body])?;
            }
        }
        transaction.commit()?;
        rows += group;
    }
    Ok(f64::from(rows) / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouping_rows_is_faster_than_committing_each() {
        let directory = tempfile::tempdir().unwrap();
        let commits = commits(directory.path(), Duration::from_millis(100)).unwrap();
        assert!(commits.single > 0.0);
        assert!(commits.grouped > commits.single, "{commits:?}");
    }
}
