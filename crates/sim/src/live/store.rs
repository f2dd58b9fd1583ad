//! The store as one scheduler sees it: it takes its time, may be out of reach, may collide, and may commit without
//! the answer arriving.
//!
//! That last one is more than [`Store`] allows, and what a database does whose connection breaks in the wrong
//! moment.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use muster_domain::Timestamp;
use muster_store::{Applied, Command, Query, Reply, Store, StoreError, Wake};
use tokio::sync::mpsc;

use super::stage::Stage;

/// How long a call waits for a store that does not answer.
const GIVES_UP: (u32, u32) = (300, 3_000);

/// The store, seen by one life of one scheduler.
#[derive(Debug)]
pub(crate) struct SimStore {
    pub(crate) stage: Stage,
    pub(crate) instance: usize,
    pub(crate) life: u64,
}

/// What becomes of one transaction.
struct Fate {
    before: Duration,
    after: Duration,
    fails: Option<StoreError>,
    answer_lost: bool,
}

fn unavailable(operation: &'static str) -> StoreError {
    StoreError::Unavailable { operation, source: "the store is out of reach".into() }
}

impl SimStore {
    fn fate(&self, operation: &'static str) -> Fate {
        let mut world = self.stage.world();
        let weather = world.weather;
        let instance = &mut world.instances[self.instance];
        let slow = instance.is_slow();
        let random = &mut instance.random;
        let fails = match random.below(1000) as u32 {
            n if n < weather.refused => Some(unavailable(operation)),
            n if n < weather.refused + weather.collides => Some(StoreError::Conflict { operation }),
            _ => None,
        };
        let answer_lost = random.chance(weather.answers_lost);
        let (before, after) = if slow {
            (random.within(100, 3_000), random.within(0, 1_000))
        } else {
            (random.within(1, 8), random.within(0, 2))
        };
        if fails.is_some() {
            world.fault("store refused");
        } else if answer_lost {
            world.fault("commit without an answer");
        }
        let millis = |n: u32| Duration::from_millis(u64::from(n));
        Fate { before: millis(before), after: millis(after), fails, answer_lost }
    }

    /// Waits in vain when the store is out of reach.
    async fn reached(&self, operation: &'static str) -> Result<(), StoreError> {
        let waits = {
            let mut world = self.stage.world();
            let instance = &mut world.instances[self.instance];
            let gone = instance.life != self.life;
            let cut = gone || instance.is_cut_off();
            cut.then(|| instance.random.within(GIVES_UP.0, GIVES_UP.1))
        };
        match waits {
            Some(waits) => {
                tokio::time::sleep(Duration::from_millis(u64::from(waits))).await;
                Err(unavailable(operation))
            }
            None => Ok(()),
        }
    }
}

impl Store for SimStore {
    fn apply(&self, told: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        async move {
            let fate = self.fate("apply");
            tokio::time::sleep(fate.before).await;
            self.reached("apply").await?;
            if let Some(error) = fate.fails {
                return Err(error);
            }
            let Some(applied) = self.stage.commit(Some(self.instance), told, commands) else {
                return std::future::pending().await;
            };
            tokio::time::sleep(fate.after).await;
            self.reached("apply").await?;
            if fate.answer_lost { Err(unavailable("apply")) } else { Ok(applied) }
        }
        .boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        async move {
            let fate = self.fate("read");
            tokio::time::sleep(fate.before).await;
            self.reached("read").await?;
            if let Some(error) = fate.fails {
                return Err(error);
            }
            let world = self.stage.world();
            futures::executor::block_on(world.ledger.store.read(query))
        }
        .boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.reached("ping").boxed()
    }

    /// The right time, read somewhere on the way to the answer.
    fn time(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        async move {
            let fate = self.fate("time");
            tokio::time::sleep(fate.before).await;
            self.reached("time").await?;
            let now = self.stage.world().now();
            tokio::time::sleep(fate.after).await;
            Ok(Some(now))
        }
        .boxed()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut world = self.stage.world();
        let instance = &mut world.instances[self.instance];
        if instance.life == self.life {
            instance.wakes = Some(sender);
        }
        let next = |mut receiver: mpsc::UnboundedReceiver<Wake>| async move {
            match receiver.recv().await {
                Some(wake) => Some((wake, receiver)),
                None => std::future::pending().await,
            }
        };
        stream::unfold(receiver, next).boxed()
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}
