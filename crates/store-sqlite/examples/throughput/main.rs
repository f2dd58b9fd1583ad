//! How fast the `SQLite` store is here: `cargo run --release --example throughput -p muster-store-sqlite [JOBS]`.

mod workload;

use muster_store::Store;
use muster_store::engine::Policy;
use muster_store_sqlite::SqliteStore;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("muster.db");
    let store = SqliteStore::open(&path, Policy::default())?;
    futures::executor::block_on(async {
        workload::run(&store, count).await?;
        println!("{} bytes a job on disk", std::fs::metadata(&path)?.len() / (2 * count as u64));
        store.close().await;
        Ok(())
    })
}
