//! Artifacts of attempts: what is asked and answered about them. Their bytes lie in the blob store.

use muster_domain::{ArtifactBounds, ArtifactContent, Caller, JobId, Lease, Timestamp};

/// What an attempt left, told by whoever holds its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepArtifacts {
    pub job: JobId,
    pub caller: Caller,
    /// Each with its name. One that is kept under this name already is replaced.
    pub artifacts: Vec<(String, ArtifactContent)>,
    pub bounds: ArtifactBounds,
}

/// Artifacts that were kept before a time go; their names stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpireArtifacts {
    pub before: Timestamp,
    pub limit: usize,
}

/// Which artifacts of a job to read: by attempt, the last first, then by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFilter {
    pub job: JobId,
    pub lease: Lease,
    pub name: Option<String>,
    /// Only names behind this one: the cursor of the last page.
    pub after: Option<String>,
    pub limit: usize,
}

impl ArtifactFilter {
    pub fn of(job: JobId, lease: Lease) -> Self {
        Self { job, lease, name: None, after: None, limit: usize::MAX }
    }
}

/// What is known of the artifacts of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactRun {
    pub lease: Lease,
    pub attempt: u32,
    /// Files that are kept, and their bytes.
    pub files: u64,
    pub bytes: u64,
    /// Files that could not be kept.
    pub missing: u64,
}

/// Whose bytes to add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactsOf<'a> {
    Queue(&'a str),
    User(&'a str),
}
