//! The agent: one loop that orders everything that happens to the worker's jobs.
//!
//! The loop owns all state. Requests, the keeper and the log shipper run beside it and report to it, so
//! nothing is shared and nothing blocks it.

mod agent_loop;
mod artifact_direct;
mod artifact_patterns;
mod artifact_pieces;
mod artifact_scan;
mod artifacts;
mod calls;
mod checkpoints;
mod claim_keys;
mod claims;
mod containers;
mod drain;
mod held;
mod isolation;
mod joining;
mod pace;
mod preparation;
mod registration;
mod reports;
mod rounds;
mod secrets;
mod start;
mod terminals;

pub use drain::{ExitSummary, Shutdown, shutdown_on_signals};
pub use start::run;
