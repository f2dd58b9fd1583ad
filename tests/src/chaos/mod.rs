//! Scheduler, workers and PostgreSQL are killed and frozen at random moments under load; afterwards the accounts are
//! compared: what was acknowledged to clients, what ran (each process writes to a ledger), and what the store says.
//!
//! [`drill`] is the whole of it, for `make chaos`; the tests use the parts.

pub mod checker;
pub mod drill;
pub mod faults;
pub mod ledger;
pub mod leftovers;
pub mod load;
pub mod operator;
pub mod results;
pub mod storm;

/// Whether a job in this state has ended.
pub fn is_final(status: &str) -> bool {
    matches!(status, "done" | "failed" | "cancelled")
}
