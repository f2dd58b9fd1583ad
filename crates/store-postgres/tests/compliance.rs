//! The `PostgreSQL` store passes the suite, and agrees with the memory store on any script. Two schedulers take
//! turns in all of it, so that each has to learn what the other one did.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use muster_domain::Timestamp;
use muster_pg_testkit::Postgres;
use muster_store::compliance::{Scenario, parity};
use muster_store::engine::Policies;
use muster_store::{Applied, Command, MemoryStore, Query, Reply, Store, StoreError, Wake};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use proptest::prelude::*;
use tokio::runtime::Runtime;

/// Two schedulers on one database, of which each does every other thing.
#[derive(Debug)]
struct Turns {
    stores: [PostgresStore; 2],
    next: AtomicUsize,
}

impl Turns {
    fn next(&self) -> &PostgresStore {
        &self.stores[self.next.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

impl Store for Turns {
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        self.next().apply(now, commands)
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        self.stores[0].read(query)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.stores[0].ping()
    }

    fn time(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.stores[0].time()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        self.stores[0].wakes()
    }

    fn kind(&self) -> &'static str {
        self.stores[0].kind()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            self.stores[0].close().await;
            self.stores[1].close().await;
        }
        .boxed()
    }
}

async fn fresh(policies: Policies) -> Arc<dyn Store> {
    let url = Postgres::shared().database().url();
    let connect = || PostgresStore::connect(&url, PostgresOptions::default(), policies.clone());
    let stores = [connect().await.unwrap(), connect().await.unwrap()];
    Arc::new(Turns { stores, next: AtomicUsize::new(0) })
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
