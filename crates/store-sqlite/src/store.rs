//! The store's public face: batches go to the thread that writes, questions to those that read. Lists, which
//! can be long, have a thread of their own: nobody waits behind them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use muster_domain::Timestamp;
use muster_store::engine::{self, Policies, Roster};
use muster_store::{Applied, Command, Query, Reply, Store, StoreError, Wake};
use rusqlite::Connection;

use crate::connection::{self, ready};
use crate::error::during;
use crate::lock::FileLock;
use crate::thread::DatabaseThread;
use crate::tx::Done;
use crate::{leadership, migrations, private};

/// Jobs, workers and events in one `SQLite` file, for one process at a time.
#[derive(Debug)]
pub struct SqliteStore {
    policies: Policies,
    roster: Arc<Mutex<Roster>>,
    // Dropped first: the last connection to close is the one that writes, which then cleans up.
    lists: DatabaseThread,
    reader: DatabaseThread,
    writer: DatabaseThread,
    /// Where the file and its log lie.
    directory: PathBuf,
}

impl SqliteStore {
    /// Opens the file, creating it when it is missing and upgrading it when it is older. Beside it lie
    /// `-wal` and `-shm`, which belong to it, and `.lock`, which keeps a second process away.
    pub fn open(path: impl AsRef<Path>, policies: impl Into<Policies>) -> Result<Self, StoreError> {
        let path = absolute(path.as_ref())?;
        let lock = FileLock::take(&path)?;
        private::close(&path)
            .map_err(|error| StoreError::Unavailable { operation: "open", source: error.into() })?;
        let mut writer = connection::open_writer(&path)?;
        migrations::migrate(&mut writer)?;
        leadership::prepare(&writer)?;
        let reader = |name| DatabaseThread::start(name, connection::open_reader(&path)?, |_| ());
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self {
            directory,
            policies: policies.into(),
            roster: Arc::default(),
            lists: reader("muster-db-list")?,
            reader: reader("muster-db-read")?,
            writer: DatabaseThread::start("muster-db-write", writer, move |connection| {
                empty_log(connection);
                drop(lock);
            })?,
        })
    }
}

impl SqliteStore {
    /// Says where no space is left.
    fn placed(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Full { operation, place: None } => {
                StoreError::Full { operation, place: Some(format!("in {}", self.directory.display())) }
            }
            error => error,
        }
    }
}

/// A path that cannot be taken for one of the names that `SQLite` treats specially.
fn absolute(path: &Path) -> Done<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| StoreError::Unavailable { operation: "open", source: Box::new(error) })
}

/// Copies the log into the database, so that a closed store is one file.
fn empty_log(connection: &Connection) {
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    if let Err(error) = emptied {
        tracing::warn!(%error, "the database's log was not emptied; the next start does it");
    }
}

impl Store for SqliteStore {
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        let policies = self.policies.clone();
        let remembered = Arc::clone(&self.roster);
        let task = move |connection: &Connection| {
            let remembered = || remembered.lock().unwrap_or_else(PoisonError::into_inner);
            // Lost when the transaction fails: it knows what is not committed.
            let mut roster = remembered().take();
            let applied = connection::write(connection, |tx| {
                ready(engine::apply(tx, &policies, &mut roster, now, &commands))
            })?;
            remembered().put(roster);
            Ok(applied)
        };
        self.writer.call(task).map(|applied| applied.map_err(|error| self.placed(error))).boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        let thread = match query {
            Query::Jobs(_)
            | Query::Events(_)
            | Query::Sets(_)
            | Query::Gang(_)
            | Query::Gangs(_)
            | Query::CancelPreview(_)
            | Query::Overview { .. }
            | Query::Usage(_)
            | Query::Ended(_)
            | Query::Artifacts(_)
            | Query::KnownBlobs(_)
            | Query::MovedOutput(_)
            | Query::MovedBytes
            | Query::Finished { .. } => &self.lists,
            Query::Job(_)
            | Query::Workers
            | Query::LastEvent
            | Query::Counts
            | Query::Part { .. }
            | Query::Instances
            | Query::Stops(_)
            | Query::States(_)
            | Query::Queues
            | Query::Webhooks { .. }
            | Query::Accounts
            | Query::Account { .. }
            | Query::Credentials
            | Query::Credential { .. }
            | Query::Audit(_)
            | Query::DeadLetters(_)
            | Query::Secrets(_)
            | Query::SealingKeys(_)
            | Query::ArtifactRuns(_)
            | Query::Uploads(_)
            | Query::UploadUses
            | Query::Why { .. }
            | Query::Standings
            | Query::WaitingByUser(_) => &self.reader,
        };
        let policies = self.policies.clone();
        let task = move |connection: &Connection| {
            connection::read(connection, |tx| ready(engine::read(tx, &policies, &query)))
        };
        thread.call(task).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let task = |connection: &Connection| {
            connection.query_row("SELECT 1 FROM numbers", [], |_| Ok(())).map_err(during("ping"))
        };
        self.reader.call(task).boxed()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        stream::pending().boxed()
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            self.lists.close().await;
            self.reader.close().await;
            self.writer.close().await;
        }
        .boxed()
    }
}
