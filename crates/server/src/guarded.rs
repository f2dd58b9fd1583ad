//! The store with a circuit breaker: nobody waits for one that is known to be out of reach.
//!
//! Guarantee: a call that is under way when the store goes out of reach ends then, and later ones end at once, until the
//! probe ([`crate::loops`]) finds it in reach again. A change that was under way may have been committed, as with any
//! connection that breaks.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use muster_domain::Timestamp;
use muster_store::{Applied, Command, Query, Reply, Store, StoreError, Wake};

use crate::health::StoreHealth;

/// A store, and what is known of its health.
#[derive(Debug)]
pub(crate) struct GuardedStore {
    store: Arc<dyn Store>,
    health: Arc<StoreHealth>,
}

impl GuardedStore {
    /// A store of this machine is never out of reach, and is left as it is.
    pub(crate) fn wrap(store: Arc<dyn Store>, health: &Arc<StoreHealth>) -> Arc<dyn Store> {
        if !store.is_remote() {
            return store;
        }
        Arc::new(Self { store, health: Arc::clone(health) })
    }

    async fn while_in_reach<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let lost = |reason: Arc<str>| StoreError::Unavailable { operation, source: reason.as_ref().into() };
        if let Some(reason) = self.health.outage() {
            return Err(lost(reason));
        }
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            reason = self.health.goes_out_of_reach() => return Err(lost(reason)),
        };
        if answer.is_ok() {
            self.health.heard();
        }
        answer
    }
}

impl Store for GuardedStore {
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        self.while_in_reach("apply", self.store.apply(now, commands)).boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        self.while_in_reach("read", self.store.read(query)).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }

    fn time(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.while_in_reach("time", self.store.time()).boxed()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        self.store.wakes()
    }

    fn directory(&self) -> Option<&Path> {
        self.store.directory()
    }

    fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_store::{Ask, StoreExt as _};

    use super::*;
    use crate::clock::Clock;
    use crate::testing::FakeStore;

    fn claim() -> Command {
        Command::Claim(Ask { max: 1, ..Ask::default() })
    }

    #[tokio::test]
    async fn nobody_waits_for_a_store_that_is_out_of_reach() {
        // Lets nothing through, as a server whose machine is gone.
        let silent = Arc::new(FakeStore::scripted(|_| None));
        let health = Arc::new(StoreHealth::new(Clock::of_this_machine()));
        let store = Arc::new(GuardedStore { store: silent.clone(), health: Arc::clone(&health) });
        let waiting = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.apply_one(Timestamp::default(), claim()).await }
        });
        silent.begun(1).await;
        health.lost("gone");
        assert!(matches!(waiting.await.unwrap(), Err(StoreError::Unavailable { .. })));
        let later = store.apply_one(Timestamp::default(), claim()).await;
        assert!(matches!(later, Err(StoreError::Unavailable { .. })));
        assert_eq!(silent.begun(1).await.len(), 1, "it was not even asked");
        health.reached();
        silent.gate.add_permits(2);
        assert!(!health.heard_within(Duration::from_secs(600)));
        store.apply_one(Timestamp::default(), claim()).await.unwrap().0.unwrap();
        assert!(health.heard_within(Duration::from_secs(600)), "an answer counts as a sign of life");
    }
}
