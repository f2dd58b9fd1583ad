//! How much there is, in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `GET /summary`. Jobs that have ended are not counted: that would cost a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Summary {
    /// How many jobs have each status; a status that no job has is left out.
    pub jobs: BTreeMap<String, u64>,
    /// How many jobs are pending in each queue; the empty name is the default queue.
    pub pending_by_queue: BTreeMap<String, u64>,
}
