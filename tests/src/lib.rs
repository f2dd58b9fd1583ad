//! The harness of the end-to-end tests: it starts the real binaries on free loopback ports, talks to them
//! over raw sockets, and ends them.
//!
//! Guarantees: nothing waits without a bound; every process that a test starts is ended with it, by its id;
//! a missing prerequisite fails the test and says what to do.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: what goes wrong here has to fail the test, loudly and at once"
)]

pub mod tree;
