//! Real PostgreSQL for tests and benchmarks: a cluster of our own in a temporary directory, on a free
//! loopback port, with a fresh database for each test.
//!
//! Guarantees: nothing outlives the process that started it, however that process ends; a server that
//! cannot be had fails the test with a sentence that says what to install, it never skips it; two test
//! processes on one machine never share a port or a directory.
//!
//! ```no_run
//! let database = muster_pg_testkit::Postgres::shared().database();
//! let url = database.url(); // postgres://muster@127.0.0.1:PORT/NAME
//! ```
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a prerequisite that is missing has to fail the test, loudly and at once"
)]

mod cluster;
mod installation;
mod port;

pub use cluster::{Database, Options, Postgres};
pub use port::PortLease;
