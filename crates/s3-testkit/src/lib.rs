//! A real S3 server for tests and benchmarks: SeaweedFS in a temporary directory, on free loopback ports.
//!
//! Guarantees: it listens on loopback only and reports to nobody; nothing outlives the process that started it,
//! however that process ends; a server that cannot be had fails the test with a sentence that says what to
//! install, it never skips it.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a prerequisite that is missing has to fail the test, loudly and at once"
)]

mod listing;
mod server;

pub use server::{ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed};
