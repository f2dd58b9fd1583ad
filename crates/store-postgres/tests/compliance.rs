//! The `PostgreSQL` store passes the suite, and agrees with the memory store on any script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use muster_pg_testkit::Postgres;
use muster_store::compliance::{Scenario, parity};
use muster_store::engine::Policies;
use muster_store::{MemoryStore, Store};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use proptest::prelude::*;
use tokio::runtime::Runtime;

async fn fresh(policies: Policies) -> Arc<dyn Store> {
    let url = Postgres::shared().database().url();
    Arc::new(PostgresStore::connect(&url, PostgresOptions::default(), policies).await.unwrap())
}

fn on_a_fresh_store(scenario: Scenario) {
    Runtime::new().unwrap().block_on(async {
        let store = fresh(scenario.policies()).await;
        scenario.run(Arc::clone(&store)).await;
        store.close().await;
    });
}

muster_store::compliance_suite!(on_a_fresh_store);

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn any_script_gives_what_memory_gives(script in prop::collection::vec(any::<parity::Step>(), 1..80)) {
        Runtime::new().unwrap().block_on(async {
            let store = fresh(Policies::default()).await;
            let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(Policies::default()));
            parity::run(memory, Arc::clone(&store), &script).await;
            store.close().await;
        });
    }
}
