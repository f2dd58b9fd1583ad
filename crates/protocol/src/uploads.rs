//! Uploads on the wire: directories and files that travel with a job.
//!
//! The files of an upload, one after the other in the order of the manifest, are one stream of bytes. The stream is cut into
//! chunks; a chunk is known by the SHA-256 of its bytes and is sent only when the scheduler does not have it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an upload consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadManifest {
    /// Sorted by path, each path once. Directories that have entries are not listed.
    pub entries: Vec<UploadEntry>,
    /// The chunks of the stream, in order.
    pub chunks: Vec<UploadChunk>,
}

/// One file, empty directory or symbolic link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadEntry {
    /// Relative, with `/` between its parts.
    pub path: String,
    #[serde(default, skip_serializing_if = "EntryKind::is_file")]
    pub kind: EntryKind,
    /// Bytes of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
    /// The permission bits; 420 (0644) for a file and 493 (0755) for a directory when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 511)]
    pub mode: Option<u32>,
    /// When a file was last changed, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ms: Option<i64>,
    /// Where a link points to: relative, and to a place inside the upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    #[default]
    File,
    Directory,
    Link,
}

impl EntryKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    const fn is_file(&self) -> bool {
        matches!(self, Self::File)
    }
}

/// A piece of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadChunk {
    /// In lower-case hexadecimal digits.
    pub sha256: String,
    #[schema(minimum = 1)]
    pub size: u32,
}

/// An upload as the scheduler has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    /// The SHA-256 of the manifest.
    pub id: String,
    /// Every chunk is there: jobs may name it.
    pub complete: bool,
    pub files: u64,
    pub bytes: u64,
    /// The chunks that are to be sent, by their place in the manifest. A chunk that is there several times is named once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u32>,
}

/// What one upload may have at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadLimits {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files, links and empty directories.
    pub entries: u64,
    /// Bytes of the standard input of a job.
    pub stdin_bytes: u64,
}

/// The chunks that a worker asks for, by their SHA-256.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChunkRequest {
    pub chunks: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}
