//! What can go wrong, said so that somebody can do something about it.

use std::io;
use std::path::PathBuf;

use muster_tls::TlsError;

use crate::digest::Sha256;
use crate::key::BlobKey;

/// Whatever a source of content failed with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why something could not be done with an object.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("the object {key} is gone from the blob store")]
    NotFound { key: BlobKey },
    #[error("{operation} {}: {source}", path.display())]
    Directory { operation: &'static str, path: PathBuf, source: io::Error },
    /// S3 answered, and it was a no.
    #[error("S3 refused to {operation} in bucket {bucket}: {status} {code}: {message}; {advice}")]
    Refused {
        operation: &'static str,
        bucket: String,
        status: u16,
        code: String,
        message: String,
        advice: &'static str,
    },
    /// S3 did not answer, or not in a way that counts, as often as it was asked.
    #[error("S3 at {endpoint} could not {operation}: {reason}")]
    Unreachable { operation: &'static str, endpoint: String, reason: String },
    #[error("S3 answered {operation} with something unreadable: {reason}")]
    Unreadable { operation: &'static str, reason: String },
    #[error("the content has {found} bytes, and {expected} were announced")]
    WrongLength { expected: u64, found: u64 },
    #[error("the SHA-256 of the content is {found}, and {expected} was announced")]
    WrongDigest { expected: Sha256, found: Sha256 },
    #[error("S3 has the checksum {found} for the content, and the SHA-256 {expected} was announced")]
    WrongChecksum { expected: Sha256, found: String },
    #[error("the content has more than {limit} bytes, which is the most that S3 takes in {parts} parts")]
    TooLarge { limit: u64, parts: u16 },
    #[error("the content could not be read: {0}")]
    Source(BoxError),
    #[error(transparent)]
    Certificates(TlsError),
    #[error(transparent)]
    Settings(#[from] crate::settings::InvalidBlobSettings),
}

impl BlobError {
    /// Whether the same may well work later: the store is out of reach or overloaded.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Unreadable { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Directory { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::NotFound { .. }
            | Self::WrongLength { .. }
            | Self::WrongDigest { .. }
            | Self::WrongChecksum { .. }
            | Self::TooLarge { .. }
            | Self::Source(_)
            | Self::Certificates(_)
            | Self::Settings(_) => false,
        }
    }

    /// Whether the fault lies with what was sent, and not with the store.
    pub fn is_of_the_content(&self) -> bool {
        matches!(
            self,
            Self::WrongLength { .. }
                | Self::WrongDigest { .. }
                | Self::WrongChecksum { .. }
                | Self::Source(_)
                | Self::TooLarge { .. }
        )
    }

    /// Whether no space was left.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Directory { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}
