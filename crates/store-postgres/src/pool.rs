//! Connections: how they are made, how many there are, and how long anything may take.
//!
//! Every wait has a bound, so that a server which has vanished turns into an error and not into silence.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use muster_store::StoreError;
use tokio_postgres::{Config, NoTls};

use crate::error::{during, failed};

/// What an operator chooses about the connections.
#[derive(Debug, Clone, Copy)]
pub struct PostgresOptions {
    /// The most connections at once; leading a role and listening take one more each.
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
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

/// Every statement has an index made for it, while statistics lag behind a queue that grows and shrinks
/// within seconds: a plan made when a table was empty must not read all of it later. That goes for bitmaps and
/// for joins of whole tables as well, which collect all matches where an index hands out the first few in
/// order. Fixed plans save the planning, too.
const PLANNING: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off \
    -c enable_mergejoin=off -c plan_cache_mode=force_generic_plan -c jit=off";

/// A transaction that leads a role sleeps for as long as it leads.
const SLEEPING: &str = "-c idle_in_transaction_session_timeout=0";

/// The settings of every connection; the URL's own options come last and win.
pub(crate) fn configure(url: &str, options: &PostgresOptions) -> Result<Config, StoreError> {
    let mut config: Config = url.parse().map_err(during("read the database URL"))?;
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
    config.options(format!("{PLANNING} {SLEEPING} -c statement_timeout={timeout} {own}").trim_end());
    Ok(config)
}

/// A pool that makes connections when they are needed and replaces those that were lost.
pub(crate) fn build(config: Config, options: &PostgresOptions) -> Result<Pool, StoreError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, NoTls, recycling))
        .max_size(options.pool_size.max(1))
        .wait_timeout(Some(options.acquire_timeout))
        .create_timeout(Some(options.connect_timeout * 2))
        .recycle_timeout(Some(options.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| failed("build the pool", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_has_the_last_word() {
        let url = "postgres://u@localhost/db?options=-c%20jit%3Don&connect_timeout=7&application_name=mine";
        let config = configure(url, &PostgresOptions::default()).unwrap();
        let options = config.get_options().unwrap();
        assert!(options.contains("statement_timeout=30000") && options.ends_with("-c jit=on"), "{options}");
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_application_name(), Some("mine"));
    }

    #[test]
    fn a_url_that_is_none_is_refused() {
        let error = configure("nonsense", &PostgresOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
    }
}
