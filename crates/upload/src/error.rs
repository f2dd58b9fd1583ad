//! Everything that can be wrong with an upload.

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    #[error("the path {path:?} is refused: {reason}")]
    Path { path: String, reason: &'static str },
    #[error("the paths of an upload are sorted and each is there once, and {path:?} comes after {before:?}")]
    Order { path: String, before: String },
    #[error("{path:?} lies below {parent:?}, which is no directory")]
    Below { path: String, parent: String },
    #[error("the link {path:?} is refused: its target {target:?} {reason}")]
    Link { path: String, target: String, reason: &'static str },
    #[error("the entry {path:?} is refused: {reason}")]
    Entry { path: String, reason: &'static str },
    #[error("the chunk {number} is refused: {reason}")]
    Chunk { number: usize, reason: &'static str },
    #[error("the files have {files} bytes and the chunks {chunks}")]
    Sums { files: u64, chunks: u64 },
    #[error("the upload has {given} {what}, and at most {limit} are allowed")]
    TooMuch { what: &'static str, given: u64, limit: u64 },
    #[error("{text:?} is no SHA-256 in lower-case hexadecimal digits")]
    Digest { text: String },
    #[error("the chunks that were sent are damaged: {reason}")]
    Frame { reason: &'static str },
}
