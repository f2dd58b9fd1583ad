//! Health and version of a scheduler.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// New at each start of the scheduler.
    pub instance_id: String,
    /// Such as `45s` or `2h15m30s`.
    pub uptime: String,
    pub status: String,
    /// Additions to the original object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub store: String,
}

/// The answer to `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    pub version: String,
}
