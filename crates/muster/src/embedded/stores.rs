//! Opens the store that was chosen.

use std::sync::Arc;

use anyhow::Context as _;
use muster_server::make_directory;
use muster_server::settings::StoreChoice;
use muster_store::engine::Policies;
use muster_store::{MemoryStore, Store};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use muster_store_sqlite::SqliteStore;

/// A store and what was chosen about it.
#[derive(Debug, Clone)]
pub(crate) struct StoreSettings {
    pub(crate) choice: StoreChoice,
    pub(crate) policies: Policies,
    /// Connections to a database server.
    pub(crate) pool_size: usize,
}

impl StoreSettings {
    pub(super) async fn open(self) -> anyhow::Result<Arc<dyn Store>> {
        match self.choice {
            StoreChoice::Memory => Ok(Arc::new(MemoryStore::new(self.policies))),
            StoreChoice::Sqlite(path) => {
                let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
                if let Some(directory) = directory {
                    make_directory(directory)
                        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
                }
                let store = SqliteStore::open(&path, self.policies)
                    .with_context(|| format!("cannot open the database {}", path.display()))?;
                Ok(Arc::new(store))
            }
            StoreChoice::Postgres(url) => {
                let options = PostgresOptions { pool_size: self.pool_size, ..PostgresOptions::default() };
                // The URL may hold a password, so that the message does not.
                let store = PostgresStore::connect_or_wait(&url, options, self.policies)
                    .await
                    .context("cannot connect to the database of --db-url")?;
                Ok(store)
            }
        }
    }
}
