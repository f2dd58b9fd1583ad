//! Opens the store that the settings name.

use std::sync::Arc;

use anyhow::Context as _;
use muster_server::make_directory;
use muster_server::settings::{SchedulerArgs, StoreChoice};
use muster_store::{MemoryStore, Store};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use muster_store_sqlite::SqliteStore;

pub(crate) async fn open(args: &SchedulerArgs) -> anyhow::Result<Arc<dyn Store>> {
    let policies = args.policies();
    let store: Arc<dyn Store> = match args.store()? {
        StoreChoice::Memory => Arc::new(MemoryStore::new(policies)),
        StoreChoice::Sqlite(path) => {
            if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
                make_directory(directory)
                    .with_context(|| format!("cannot make the directory for {}", path.display()))?;
            }
            let opened = SqliteStore::open(&path, policies);
            Arc::new(opened.with_context(|| format!("cannot open the database {}", path.display()))?)
        }
        StoreChoice::Postgres(url) => {
            let options =
                PostgresOptions { pool_size: usize::from(args.pg_pool_size), ..PostgresOptions::default() };
            // The URL may hold a password, so it is not repeated here.
            let connected = PostgresStore::connect_or_wait(&url, options, policies).await;
            connected.context("cannot open the PostgreSQL database of --db-url")?
        }
    };
    Ok(store)
}
