//! The store that many schedulers share: `PostgreSQL`, version 12 or later.
//!
//! * [`PostgresStore`] is the server's side: a pool of connections, a transaction a batch, retried when
//!   two of them collide.
//! * `tx` and the files beside it (`jobs`, `pending`, `held`, `workers`, `lists`, `events`) are the
//!   primitives; each is one statement, or a fixed number of them, whatever the number of rows.
//! * `wakes` tells other instances of commits, `leadership` lets one instance at a time run a loop.
//! * `row` maps rows, `error` maps errors, `encryption` is TLS to the server, `migrations` brings an older database up to date.

mod artifacts;
mod encryption;
mod error;
mod events;
mod gangs;
mod gates;
mod held;
mod history;
mod jobs;
mod leadership;
mod lists;
mod migrations;
mod output;
mod pending;
#[cfg(test)]
mod plans_tests;
mod pool;
mod probe;
mod records;
mod roster;
mod row;
mod schedulers;
mod scope;
mod sets;
mod store;
mod transaction;
mod tx;
mod usage;
mod wakes;
mod webhooks;
mod workers;

pub use pool::PostgresOptions;
pub use store::PostgresStore;
