//! Artifacts: files that an attempt of a job left to be kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file of an attempt. One that could not be kept has the reason in `missing`, and nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// A relative path, with `/` between its parts.
    pub name: String,
    pub attempt: u32,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// When it was kept, or found missing.
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// Why it could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Artifacts of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactList {
    /// By name.
    pub artifacts: Vec<Artifact>,
    /// The attempt that left them: the last one that left any, unless another was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// All attempts that left some, the last first.
    pub attempts: Vec<u32>,
    /// Files of this attempt that are kept, on all pages.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of this attempt that could not be kept.
    pub missing: u64,
    /// The name after which the next page begins; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What arrived of an artifact that was handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactKept {
    pub size: u64,
    pub sha256: String,
}

/// A link to an artifact that works without any other credential until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactUrl {
    pub url: String,
    #[schema(value_type = String)]
    pub expires_at: Timestamp,
}
