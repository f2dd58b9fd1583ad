//! Where a scheduler keeps its data in a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_pg_testkit::Postgres;
use tempfile::TempDir;

/// The three stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    Memory,
    Sqlite,
    Postgres,
}

/// The data behind one or more schedulers, one after the other or side by side; removed with the last.
#[derive(Debug, Clone)]
pub struct Backing {
    kind: StoreKind,
    url: String,
    directory: Arc<TempDir>,
}

impl Backing {
    /// Empty data; on PostgreSQL a fresh database of the shared cluster.
    pub fn new(kind: StoreKind) -> Self {
        let directory = make_directory();
        let url = match kind {
            StoreKind::Memory => String::new(),
            StoreKind::Sqlite => directory.path().join("muster.db").display().to_string(),
            StoreKind::Postgres => Postgres::shared().database().url(),
        };
        Self { kind, url, directory }
    }

    /// A fresh database of a cluster that the test may stop.
    pub fn on(cluster: &Postgres) -> Self {
        Self { kind: StoreKind::Postgres, url: cluster.database().url(), directory: make_directory() }
    }

    /// A database file in this directory, which the caller keeps.
    pub fn sqlite_in(directory: &Path) -> Self {
        let kept = TempDir::with_prefix_in("data-", directory).expect("the directory is writable");
        let url = kept.path().join("muster.db").display().to_string();
        Self { kind: StoreKind::Sqlite, url, directory: Arc::new(kept) }
    }

    /// The same data as seen from a machine that has the server at this address.
    #[must_use]
    pub fn seen_from(&self, server: std::net::Ipv4Addr) -> Self {
        Self { url: self.url.replace("127.0.0.1", &server.to_string()), ..self.clone() }
    }

    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// What `--db-driver` takes.
    pub fn driver(&self) -> &'static str {
        match self.kind {
            StoreKind::Memory => "memory",
            StoreKind::Sqlite => "sqlite",
            StoreKind::Postgres => "postgres",
        }
    }

    /// What `--db-url` takes.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// For logs and everything else that is not in the store.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

fn make_directory() -> Arc<TempDir> {
    Arc::new(TempDir::with_prefix("muster-test-").expect("the temporary directory is writable"))
}
