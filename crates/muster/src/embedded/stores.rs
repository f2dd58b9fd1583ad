//! Opens the store that was chosen.

use std::sync::Arc;

use anyhow::Context as _;
use muster_store::engine::Policy;
use muster_store::{MemoryStore, Store};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use muster_store_sqlite::SqliteStore;

use crate::settings::StoreChoice;

pub(super) async fn open(choice: &StoreChoice) -> anyhow::Result<Arc<dyn Store>> {
    let policy = Policy::default();
    match choice {
        StoreChoice::Memory => Ok(Arc::new(MemoryStore::new(policy))),
        StoreChoice::Sqlite(path) => {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)
                    .with_context(|| format!("cannot make the directory {}", directory.display()))?;
            }
            let store = SqliteStore::open(path, policy)
                .with_context(|| format!("cannot open the database {}", path.display()))?;
            Ok(Arc::new(store))
        }
        StoreChoice::Postgres(url) => {
            // The URL may hold a password, so that the message does not.
            let store = PostgresStore::connect(url, PostgresOptions::default(), policy)
                .await
                .context("cannot connect to the database of --db-url")?;
            Ok(Arc::new(store))
        }
    }
}
