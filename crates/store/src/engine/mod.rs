//! The verbs, written once over [`Tx`].

use muster_domain::Timestamp;
use muster_planner::Scoring;

use crate::command::{Applied, Command};
use crate::error::StoreError;
use crate::query::{Query, Reply};
use crate::tx::Tx;

/// What an operator chooses about the verbs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    pub scoring: Scoring,
}

/// Applies a batch inside `tx` and answers each command. The backend commits afterwards.
pub async fn apply<T: Tx>(
    _tx: &mut T,
    _policy: Policy,
    _now: Timestamp,
    _commands: &[Command],
) -> Result<Applied, StoreError> {
    Err(StoreError::Closed)
}

/// Answers a question inside `tx`.
pub async fn read<T: Tx>(_tx: &mut T, _query: &Query) -> Result<Reply, StoreError> {
    Err(StoreError::Closed)
}
