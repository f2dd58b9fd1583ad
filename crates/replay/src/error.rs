//! Why a workload cannot be played.

use muster_planner::board::QueueTerms;
use thiserror::Error;

/// A workload that can never be played to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplayError {
    #[error("job {job} (counted from 1) does not fit the cluster even when nothing else runs: {what}")]
    Impossible { job: usize, what: String },
    #[error("job {job} (counted from 1) needs more than queue {queue:?} may ever hold: {terms:?}")]
    Quota { job: usize, queue: String, terms: Box<QueueTerms> },
    #[error("the cluster has no nodes")]
    NoNodes,
}
