//! The memory store passes the suite, and two of them agree on any script.

use std::sync::Arc;

use muster_store::compliance::{Scenario, parity};
use muster_store::engine::Policy;
use muster_store::{MemoryStore, Store};
use proptest::prelude::*;

fn fresh() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Policy::default()))
}

fn on_a_fresh_store(scenario: Scenario) {
    let store = Arc::new(MemoryStore::new(scenario.policies()));
    futures::executor::block_on(scenario.run(store));
}

muster_store::compliance_suite!(on_a_fresh_store);

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// With itself the comparison is trivial; the invariants after every step are not.
    #[test]
    fn any_script_keeps_the_invariants(script in prop::collection::vec(any::<parity::Step>(), 1..120)) {
        futures::executor::block_on(parity::run(fresh(), fresh(), &script));
    }
}
