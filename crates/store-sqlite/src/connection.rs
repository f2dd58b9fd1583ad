//! Connections with the settings that durability, speed and small memory need, and transactions on them.

use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use muster_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{during, failed};
use crate::tx::{Done, SqliteTx};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than there are texts, so that none is prepared twice.
pub(crate) const STATEMENTS: usize = 256;

/// Opens the file for writing, creating it when it is missing.
pub(crate) fn open_writer(path: &Path) -> Done<Connection> {
    let connection = Connection::open(path).map_err(during("open"))?;
    set_up(&connection)?;
    // `FULL` syncs the log at every commit: what was acknowledged survives a power cut. The log is copied
    // into the database in steps of 16 MiB and cut back afterwards, so that it never stays large.
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; \
             PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;",
        )
        .map_err(during("open"))?;
    Ok(connection)
}

/// Opens the file for reading only. Each transaction sees the last commit before it began.
pub(crate) fn open_reader(path: &Path) -> Done<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(during("open"))?;
    set_up(&connection)?;
    connection
        .execute_batch("PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY;")
        .map_err(during("open"))?;
    Ok(connection)
}

fn set_up(connection: &Connection) -> Done<()> {
    connection.busy_timeout(BUSY_TIMEOUT).map_err(during("open"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else a statement is prepared anew whenever a value is bound that may make another plan better: the one of a
    // `LIMIT`, say. Ours name their index where it matters, and preparing costs more than most of them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(during("open"))?;
    Ok(())
}

fn execute(connection: &Connection, operation: &'static str, sql: &str) -> Done<()> {
    let mut statement = connection.prepare_cached(sql).map_err(during(operation))?;
    statement.execute([]).map(|_| ()).map_err(during(operation))
}

/// Runs `body` in a transaction that writes: committed when it returns `Ok`, forgotten when not.
pub(crate) fn write<T>(connection: &Connection, body: impl FnOnce(&mut SqliteTx<'_>) -> Done<T>) -> Done<T> {
    execute(connection, "begin", "BEGIN IMMEDIATE")?;
    let mut tx = SqliteTx::new(connection);
    let result = body(&mut tx).and_then(|value| {
        tx.finish()?;
        execute(connection, "commit", "COMMIT")?;
        Ok(value)
    });
    if result.is_err() {
        roll_back(connection);
    }
    result
}

/// Runs `body` on one state of the database.
pub(crate) fn read<T>(connection: &Connection, body: impl FnOnce(&mut SqliteTx<'_>) -> Done<T>) -> Done<T> {
    execute(connection, "begin", "BEGIN")?;
    let result = body(&mut SqliteTx::new(connection));
    roll_back(connection);
    result
}

/// Some errors have ended the transaction already; then there is nothing to do.
fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = execute(connection, "roll back", "ROLLBACK") {
        tracing::error!(%error, "a transaction could not be rolled back");
    }
}

/// Drives a verb to its end on this thread. Its primitives never wait; one that does would wait for ever,
/// and is refused instead.
pub(crate) fn ready<T>(future: impl Future<Output = Done<T>>) -> Done<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(waiting()),
    }
}

fn waiting() -> StoreError {
    failed("apply", "a verb waited for something other than the database")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_waits_is_refused_rather_than_waited_for() {
        let error = ready(std::future::pending::<Done<()>>()).unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
        assert_eq!(ready(async { Ok(7) }).unwrap(), 7);
    }

    #[test]
    fn a_full_disk_undoes_the_transaction_and_passes() {
        let dir = tempfile::tempdir().unwrap();
        let mut connection = open_writer(&dir.path().join("full.db")).unwrap();
        crate::migrations::migrate(&mut connection).unwrap();
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let set_limit = |limit: i64| {
            connection.query_row(&format!("PRAGMA max_page_count = {limit}"), [], |_| Ok(())).unwrap();
        };
        let id = muster_domain::JobId::from_random([1; 16]);
        let fill = |tx: &mut SqliteTx<'_>| {
            let spec = muster_domain::JobSpec::shell("x".repeat(100_000));
            let now = muster_domain::Timestamp::default();
            let job = muster_domain::Job::new(id, spec.into(), muster_domain::Phase::Pending, now);
            tx.insert_new_jobs(&mut [job])
        };
        set_limit(pages + 3);
        let error = write(&connection, fill).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(write(&connection, |tx| tx.select_jobs(&[id])).unwrap().is_empty());
        set_limit(pages + 1_000);
        write(&connection, fill).unwrap();
        let jobs = write(&connection, |tx| tx.select_jobs(&[id])).unwrap();
        assert_eq!(jobs.iter().map(|job| job.seq).collect::<Vec<_>>(), [1], "no number was lost");
    }
}
