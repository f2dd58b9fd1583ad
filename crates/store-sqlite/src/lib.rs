//! The store in one file: `SQLite`, with one thread that writes and two that read.
//!
//! * [`SqliteStore`] is the server's side. An acknowledged batch survives a power cut.
//! * `tx` and the files beside it (`jobs`, `pending`, `held`, `workers`, `lists`, `events`) are the
//!   primitives; SQL is found nowhere else.
//! * `row` maps rows, `error` maps errors, `migrations` brings an older file up to date.

mod artifacts;
mod connection;
#[cfg(test)]
mod cost_tests;
mod error;
mod events;
mod extent;
mod gangs;
mod gates;
mod held;
mod history;
mod jobs;
mod leadership;
mod lists;
mod lock;
mod migrations;
mod numbers;
mod output;
mod pending;
#[cfg(test)]
mod plans_tests;
mod private;
mod records;
mod roster;
mod row;
mod schedulers;
mod sets;
mod states;
mod store;
mod thread;
mod tx;
mod usage;
mod webhooks;
mod workers;

pub use store::SqliteStore;
