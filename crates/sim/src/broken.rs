//! What a run can end with other than well.

use muster_domain::Timestamp;
use muster_domain::invariants::Violation;
use muster_store::StoreError;

/// A promise that did not hold, with the steps that led to it. Transactions are counted from one.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("in transaction {after}, at {}, an invariant broke: {violations:#?}\n{trail}", at.to_rfc3339())]
    Invariant { at: Timestamp, after: u64, violations: Vec<Violation>, trail: String },
    #[error("in transaction {after}, at {}: {what}\n{trail}", at.to_rfc3339())]
    Promise { at: Timestamp, after: u64, what: String, trail: String },
    #[error("after {after} transactions, at {}, nothing moves any more: {}\n{trail}", at.to_rfc3339(), stuck.join("; "))]
    Stuck { at: Timestamp, after: u64, stuck: Vec<String>, trail: String },
    #[error("the run could not begin: {0}")]
    Setup(std::io::Error),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}
