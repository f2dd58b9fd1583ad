//! Connections: how they are made, how many there are, and how long anything may take.
//!
//! Every wait has a bound, so that a server which has vanished turns into an error and not into silence.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
};
use muster_store::StoreError;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::encryption::Encryption;
use crate::error::{during, failed};

/// What an operator chooses about the connections.
#[derive(Debug, Clone, Copy)]
pub struct PostgresOptions {
    /// The most connections at once; listening and asking whether the server is there take one more each.
    pub pool_size: usize,
    pub connect_timeout: Duration,
    /// How long to wait for a free connection.
    pub acquire_timeout: Duration,
    pub statement_timeout: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            pool_size: 10,
            connect_timeout: Duration::from_secs(3),
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
        }
    }
}

/// How long data may stay unacknowledged by the other side's kernel.
const TCP_TIMEOUT: Duration = Duration::from_secs(5);

/// Every statement has an index made for it, while statistics lag behind a queue that grows and shrinks
/// within seconds: a plan made when a table was empty must not read all of it later. That goes for bitmaps and
/// for joins of whole tables as well, which collect all matches where an index hands out the first few in
/// order. Fixed plans save the planning, too.
const PLANNING: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off \
    -c enable_mergejoin=off -c plan_cache_mode=force_generic_plan -c jit=off";

/// The server must notice by itself that an instance is gone: until then it keeps the locks of the transaction that was
/// under way. A machine that vanishes closes no connection, and the kernel's own bounds are two hours. A peer that is
/// silent for about five seconds is gone; one that lives and says nothing inside a transaction is cut off after ten,
/// which is more than any pass thinks between two statements.
const PRESENCE: &str = "-c tcp_keepalives_idle=2 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3 \
    -c tcp_user_timeout=5000 -c idle_in_transaction_session_timeout=10000";

/// While the server works or waits for a lock it looks at the connection this often. Servers before version 14 do not
/// know the setting, so it is not among the options.
const LOOK_AT_CLIENT: &str = "SELECT set_config(name, '2000', false) FROM pg_settings \
    WHERE name = 'client_connection_check_interval' AND setting = '0'";

/// A database, and how it is reached. All connections are made by it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    tls: MakeRustlsConnect,
}

/// A connection, which must be polled for its client to get anywhere.
pub(crate) type TargetConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Target {
    pub(crate) async fn connect(&self) -> Result<(Client, TargetConnection), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }
}

/// The settings of every connection; the URL's own options come last and win.
pub(crate) fn configure(url: &str, options: &PostgresOptions) -> Result<Target, StoreError> {
    let (encryption, url) = Encryption::take_from(url)?;
    let mut config: Config = url.parse().map_err(during("read the database URL"))?;
    let tls = encryption.apply(&mut config)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.connect_timeout);
    }
    if config.get_application_name().is_none() {
        config.application_name("muster");
    }
    config.tcp_user_timeout(TCP_TIMEOUT).keepalives_idle(TCP_TIMEOUT).keepalives_interval(TCP_TIMEOUT / 3);
    config.keepalives_retries(3);
    let own = config.get_options().unwrap_or_default().to_owned();
    let timeout = options.statement_timeout.as_millis();
    config.options(format!("{PLANNING} {PRESENCE} -c statement_timeout={timeout} {own}").trim_end());
    Ok(Target { config, tls })
}

/// A pool that makes connections when they are needed and replaces those that were lost.
pub(crate) fn build(target: Target, options: &PostgresOptions) -> Result<Pool, StoreError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(target.config, target.tls, recycling))
        .max_size(options.pool_size.max(1))
        .wait_timeout(Some(options.acquire_timeout))
        .create_timeout(Some(options.connect_timeout * 2))
        .recycle_timeout(Some(options.connect_timeout))
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(|client: &mut ClientWrapper, _| {
            Box::pin(async move { client.batch_execute(LOOK_AT_CLIENT).await.map_err(HookError::Backend) })
        }))
        .build()
        .map_err(|error| failed("build the pool", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_has_the_last_word() {
        let url = "postgres://u@localhost/db?options=-c%20jit%3Don&connect_timeout=7&application_name=mine";
        let config = configure(url, &PostgresOptions::default()).unwrap().config;
        let options = config.get_options().unwrap();
        assert!(options.contains("statement_timeout=30000") && options.ends_with("-c jit=on"), "{options}");
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_application_name(), Some("mine"));
    }

    /// The server ends what a client that is gone has left open.
    #[tokio::test]
    async fn sessions_are_ended_when_their_client_is_gone() {
        let database = muster_pg_testkit::Postgres::shared().database();
        let options = PostgresOptions::default();
        let pool = build(configure(&database.url(), &options).unwrap(), &options).unwrap();
        let client = pool.get().await.unwrap();
        let rows = client.query("SELECT name, setting FROM pg_settings", &[]).await.unwrap();
        let settings: std::collections::HashMap<String, String> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for (name, value) in [
            ("tcp_keepalives_idle", "2"),
            ("tcp_keepalives_interval", "1"),
            ("tcp_keepalives_count", "3"),
            ("tcp_user_timeout", "5000"),
            ("idle_in_transaction_session_timeout", "10000"),
            ("client_connection_check_interval", "2000"),
        ] {
            assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn a_url_that_is_none_is_refused() {
        let error = configure("nonsense", &PostgresOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
    }
}
