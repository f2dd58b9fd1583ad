//! Errors for programs: `application/problem+json`, sent when the client accepts JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error with a stable code and, where one is to blame, the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable word for programs, such as `job_not_found`.
    pub code: String,
    pub title: String,
    pub status: u16,
    /// The same sentence that the plain-text form carries.
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub request_id: String,
}
