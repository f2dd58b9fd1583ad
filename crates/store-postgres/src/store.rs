//! The store's public face: a pool, a transaction a batch, collisions tried again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use deadpool_postgres::{Client, Pool};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use muster_domain::Timestamp;
use muster_store::engine::{self, Policies, Roster};
use muster_store::{Applied, Command, Query, Reply, Store, StoreError, Wake};

use crate::error::{acquiring, during, is_untrusted};
use crate::pool::{self, PostgresOptions, Target};
use crate::probe::Probe;
use crate::tx::{Done, PostgresTx, Scope};
use crate::{migrations, wakes};

/// How often a batch that met another is tried in all.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(2);
/// Between two tries to reach a server that was away at the start.
const PREPARE_PAUSE: Duration = Duration::from_millis(500);

/// Jobs, workers and events in a `PostgreSQL` database that any number of instances share.
#[derive(Debug)]
pub struct PostgresStore {
    policies: Policies,
    pool: Pool,
    /// Why the schema could not be brought up to date; `None` once it was.
    unprepared: Mutex<Option<String>>,
    roster: Mutex<Roster>,
    probe: Probe,
    target: Arc<Target>,
    /// Tells our own notifications from those of others.
    instance: u64,
}

impl PostgresStore {
    /// Connects and brings the schema up to date.
    pub async fn connect(
        url: &str,
        options: PostgresOptions,
        policies: impl Into<Policies>,
    ) -> Result<Self, StoreError> {
        let store = Self::open(url, options, policies)?;
        store.prepare().await?;
        Ok(store)
    }

    /// The same, but a server that is out of reach is waited for; one that is not trusted is not. Until it was reached every call is
    /// [`StoreError::Unavailable`].
    pub async fn connect_or_wait(
        url: &str,
        options: PostgresOptions,
        policies: impl Into<Policies>,
    ) -> Result<Arc<Self>, StoreError> {
        let store = Arc::new(Self::open(url, options, policies)?);
        match store.prepare().await {
            Err(error) if is_untrusted(&error) => return Err(error),
            Err(error @ StoreError::Unavailable { .. }) => {
                tracing::warn!(%error, "PostgreSQL is out of reach; waiting for it");
                tokio::spawn(keep_preparing(Arc::downgrade(&store)));
            }
            prepared => prepared?,
        }
        Ok(store)
    }

    fn open(url: &str, options: PostgresOptions, policies: impl Into<Policies>) -> Result<Self, StoreError> {
        let target = pool::configure(url, &options)?;
        Ok(Self {
            policies: policies.into(),
            pool: pool::build(target.clone(), &options)?,
            unprepared: Mutex::new(Some("it was not reached yet".to_owned())),
            roster: Mutex::default(),
            probe: Probe::default(),
            target: Arc::new(target),
            instance: rand::random(),
        })
    }

    /// Brings the schema up to date. Nothing else is done before.
    async fn prepare(&self) -> Done<()> {
        let prepared = match self.pool.get().await {
            Ok(client) => migrations::migrate(client).await,
            Err(error) => Err(acquiring("connect")(error)),
        };
        *self.unprepared() = prepared.as_ref().err().map(StoreError::reason);
        prepared
    }

    fn unprepared(&self) -> MutexGuard<'_, Option<String>> {
        self.unprepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_prepared(&self, operation: &'static str) -> Done<()> {
        if self.pool.is_closed() {
            return Err(StoreError::Closed);
        }
        match self.unprepared().as_deref() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Unavailable { operation, source: reason.into() }),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn client(&self, operation: &'static str) -> Done<Client> {
        self.check_prepared(operation)?;
        self.pool.get().await.map_err(acquiring(operation))
    }

    async fn apply_once(&self, now: Timestamp, commands: &[Command]) -> Done<Applied> {
        let mut tx = PostgresTx::new(self.client("apply").await?, Scope::Write);
        // Bids come beside the batches and need no roster; whoever takes it leaves none for the others.
        let bids = commands.iter().all(|command| matches!(command, Command::Lead(_)));
        // Lost on every way out but the last: it knows what is not committed.
        let mut roster = if bids { Roster::default() } else { self.remembered().take() };
        match engine::apply(&mut tx, &self.policies, &mut roster, now, commands).await {
            Ok(applied) => {
                let payload = wakes::notification(self.instance, &applied.wake);
                tx.commit(payload.map(|payload| (wakes::CHANNEL, payload))).await?;
                if !bids {
                    self.remembered().put(roster);
                }
                Ok(applied)
            }
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    async fn apply_until_clear(&self, now: Timestamp, commands: &[Command]) -> Done<Applied> {
        let mut attempt = 1;
        loop {
            match self.apply_once(now, commands).await {
                Err(StoreError::Conflict { operation }) if attempt < ATTEMPTS => {
                    tracing::debug!(operation, attempt, "a batch collided with another; trying again");
                    // At random, so that the same two do not meet again.
                    let pause = PAUSE * 2_u32.pow(attempt.min(6));
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.2..1.0))).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn answer(&self, query: &Query) -> Done<Reply> {
        // The log is read without gaps only when each statement sees the latest commits.
        let scope = match query {
            Query::Events(_) | Query::LastEvent => Scope::Single,
            Query::Job(_)
            | Query::Jobs(_)
            | Query::Workers
            | Query::Counts
            | Query::Part { .. }
            | Query::Instances
            | Query::Stops(_)
            | Query::States(_)
            | Query::Queues
            | Query::Webhooks { .. }
            | Query::Accounts
            | Query::Account { .. }
            | Query::Credentials
            | Query::Credential { .. }
            | Query::Audit(_)
            | Query::DeadLetters(_)
            | Query::Secrets(_)
            | Query::SealingKeys(_)
            | Query::ArtifactRuns(_)
            | Query::KnownBlobs(_)
            | Query::MovedOutput(_)
            | Query::MovedBytes
            | Query::Artifacts(_)
            | Query::Uploads(_)
            | Query::UploadUses
            | Query::Sets(_)
            | Query::Gang(_)
            | Query::Gangs(_)
            | Query::CancelPreview(_)
            | Query::Overview { .. }
            | Query::Usage(_)
            | Query::Ended(_)
            | Query::Finished { .. }
            | Query::Why { .. }
            | Query::Standings
            | Query::WaitingByUser(_) => Scope::Snapshot,
        };
        let mut tx = PostgresTx::new(self.client("read").await?, scope);
        let reply = engine::read(&mut tx, &self.policies, query).await;
        tx.roll_back().await;
        reply
    }
}

/// Tries until it works or the store is closed. It is a task of its own: a call that is given up would undo a long
/// migration.
async fn keep_preparing(store: Weak<PostgresStore>) {
    loop {
        tokio::time::sleep(PREPARE_PAUSE).await;
        let Some(store) = store.upgrade().filter(|store| !store.pool.is_closed()) else { return };
        match store.prepare().await {
            Ok(()) => return tracing::info!("PostgreSQL is in reach"),
            Err(StoreError::Unavailable { .. }) => {}
            Err(error) => tracing::error!(%error, "the PostgreSQL database cannot be used"),
        }
    }
}

impl Store for PostgresStore {
    /// A connection that breaks during the commit itself leaves open whether it happened: the answer is then
    /// `Unavailable`, and the caller's repetition meets either state.
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        async move { self.apply_until_clear(now, &commands).await }.boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        async move { self.answer(&query).await }.boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async {
            self.check_prepared("ping")?;
            if self.probe.ask(&self.target).await? {
                // The connection before it was lost. So are others that were idle, and each would cost a batch.
                self.pool.retain(|_, _| false);
            }
            Ok(())
        }
        .boxed()
    }

    fn time(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        async {
            let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
            let row = self.client("time").await?.query_one(sql, &[]).await.map_err(during("time"))?;
            row.try_get(0).map(|micros| Some(Timestamp::from_micros(micros))).map_err(during("time"))
        }
        .boxed()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        wakes::listen(Arc::clone(&self.target), self.instance)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            self.pool.close();
            self.probe.close();
        }
        .boxed()
    }
}
