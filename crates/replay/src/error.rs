//! Why a workload cannot be played.

use thiserror::Error;

/// A workload that can never be played to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplayError {
    #[error("job {job} (counted from 1) does not fit the cluster even when nothing else runs: {what}")]
    Impossible { job: usize, what: String },
    #[error("the cluster has no nodes")]
    NoNodes,
}
