//! The `SQLite` store passes the suite, and agrees with the memory store on any script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use muster_store::compliance::{Scenario, parity};
use muster_store::engine::Policies;
use muster_store::{MemoryStore, Store};
use muster_store_sqlite::SqliteStore;
use proptest::prelude::*;
use tempfile::TempDir;

fn fresh(policies: Policies) -> (TempDir, Arc<dyn Store>) {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("muster.db"), policies).unwrap();
    (dir, Arc::new(store))
}

fn on_a_fresh_store(scenario: Scenario) {
    let (_dir, store) = fresh(scenario.policies());
    futures::executor::block_on(scenario.run(store));
}

muster_store::compliance_suite!(on_a_fresh_store);

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_script_gives_what_memory_gives(script in prop::collection::vec(any::<parity::Step>(), 1..80)) {
        let (_dir, store) = fresh(Policies::default());
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(Policies::default()));
        futures::executor::block_on(parity::run(memory, store, &script));
    }
}
