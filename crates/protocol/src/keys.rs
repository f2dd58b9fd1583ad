//! Keys that jobs share: how many of one run at a time, and how many there may be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// At most `limit` jobs of one `key` run at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Concurrency {
    pub key: String,
    pub limit: u32,
}

/// At most one unfinished job has this key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Unique {
    pub key: String,
    /// What happens when there is one: it is returned, or replaced while it waits.
    pub on_conflict: OnConflict,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    #[default]
    Existing,
    Replace,
}
