//! How fast the `PostgreSQL` store is here, on a cluster of its own that flushes every commit:
//! `cargo run --release --example throughput -p muster-store-postgres [JOBS]`.

#[path = "../../store-sqlite/examples/throughput/workload.rs"]
mod workload;

use muster_pg_testkit::{Options, Postgres};
use muster_store::engine::Policy;
use muster_store_postgres::{PostgresOptions, PostgresStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let cluster = Postgres::start_with(Options { durable: true, everywhere: false });
    let url = cluster.database().url();
    let store = PostgresStore::connect(&url, PostgresOptions::default(), Policy::default()).await?;
    workload::run(&store, count).await?;
    Ok(())
}
