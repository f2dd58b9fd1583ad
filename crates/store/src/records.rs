//! Small facts that are read by their kind and their key: accounts, credentials, sealed secrets. And the audit log.
//!
//! A backend knows nothing of what is in them; the rules that read and write them are in the engine.

use muster_domain::Timestamp;

/// What a record is about. Its name is what backends write down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    /// By the name of the user.
    Account,
    /// By the digest of what its holder shows.
    Credential,
    /// A sealed value, by its name.
    Secret,
    /// The public keys that secrets are sealed to, by the worker that has the private ones.
    SealingKeys,
    /// By its space and its id.
    Upload,
    /// That a job or a set names an upload: by the upload and what names it.
    UploadUse,
    /// Who removes old chunks just now; there is one.
    UploadSweep,
}

impl RecordKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Credential => "credential",
            Self::Secret => "secret",
            Self::SealingKeys => "sealing_keys",
            Self::Upload => "upload",
            Self::UploadUse => "upload_use",
            Self::UploadSweep => "upload_sweep",
        }
    }
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    pub key: String,
    /// A JSON object.
    pub facts: String,
}

/// Which records of a kind are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen<'a> {
    All,
    /// Those of these keys that exist.
    Of(&'a [String]),
    /// The same, locked until the end of the transaction, by key.
    Locked(&'a [String]),
}

/// One line of the audit log, as a backend keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Numbered by the backend; 0 before that.
    pub seq: u64,
    pub at: Timestamp,
    /// A JSON object.
    pub facts: String,
}

/// Which lines of the audit log to read: newest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only lines before this one: the cursor of the last page.
    pub before_seq: Option<u64>,
    pub since: Option<Timestamp>,
    pub limit: usize,
}
