//! What an attempt of a job left behind to be kept: its name, and what became of it.
//!
//! Guarantee: a name that is accepted is a relative path that stays inside any directory it is put into.

use crate::ids::{JobId, Lease};
use crate::time::Timestamp;

/// The longest name, in bytes, and the longest part of one: what file systems take.
pub const LONGEST_NAME: usize = 1024;
const LONGEST_PART: usize = 255;

/// A file that an attempt left, or the word why it could not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    pub job: JobId,
    /// Names the attempt; numbers of attempts can come again when a job is retried.
    pub lease: Lease,
    pub attempt: u32,
    pub name: String,
    pub at: Timestamp,
    pub content: ArtifactContent,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactContent {
    Kept {
        /// The key of its bytes in the blob store.
        blob: String,
        size: u64,
        /// 64 hexadecimal digits.
        sha256: String,
        content_type: String,
    },
    Missing {
        why: String,
    },
    /// It was kept as long as artifacts are.
    Removed {
        at: Timestamp,
    },
}

impl Artifact {
    /// Bytes in the blob store.
    pub fn size(&self) -> u64 {
        match &self.content {
            ArtifactContent::Kept { size, .. } => *size,
            ArtifactContent::Missing { .. } | ArtifactContent::Removed { .. } => 0,
        }
    }

    pub fn blob(&self) -> Option<&str> {
        match &self.content {
            ArtifactContent::Kept { blob, .. } => Some(blob),
            ArtifactContent::Missing { .. } | ArtifactContent::Removed { .. } => None,
        }
    }
}

/// Why a text is no name of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArtifactName {
    #[error("the name is empty")]
    Empty,
    #[error("the name has more than {LONGEST_NAME} bytes, or a part of it more than {LONGEST_PART}")]
    TooLong,
    #[error("the name leads out of the directory: it must be a relative path without . and ..")]
    Escapes,
    #[error("the name has a control character")]
    Control,
}

/// Whether a text may name an artifact: a relative path with `/` between its parts.
pub fn check_artifact_name(name: &str) -> Result<(), InvalidArtifactName> {
    if name.is_empty() {
        return Err(InvalidArtifactName::Empty);
    }
    if name.len() > LONGEST_NAME || name.split('/').any(|part| part.len() > LONGEST_PART) {
        return Err(InvalidArtifactName::TooLong);
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(InvalidArtifactName::Escapes);
    }
    if name.chars().any(char::is_control) {
        return Err(InvalidArtifactName::Control);
    }
    Ok(())
}

/// Why a text is no pattern of artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArtifactPattern {
    #[error(transparent)]
    Name(#[from] InvalidArtifactName),
    #[error("** stands for whole folders: write it alone between two /")]
    Folders,
    #[error("a [ has no ] behind it")]
    Open,
}

/// Whether a text may say which files of a working directory are kept: a relative path whose parts may have `*`, `?` and
/// `[...]`; `**` stands for any folders.
pub fn check_artifact_pattern(pattern: &str) -> Result<(), InvalidArtifactPattern> {
    check_artifact_name(pattern)?;
    for part in pattern.split('/') {
        if part.contains("**") && part != "**" {
            return Err(InvalidArtifactPattern::Folders);
        }
        let mut rest = part;
        while let Some((_, inside)) = rest.split_once('[') {
            let closed = inside.char_indices().skip(1).find(|(_, c)| *c == ']');
            let Some((end, _)) = closed else { return Err(InvalidArtifactPattern::Open) };
            rest = &inside[end + 1..];
        }
    }
    Ok(())
}

/// What may be kept, in bytes and in number; `None` sets no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArtifactBounds {
    /// Artifacts of one attempt.
    pub files: Option<u64>,
    /// Bytes of all attempts of a job.
    pub job: Option<u64>,
    /// Bytes of all jobs of a user.
    pub user: Option<u64>,
    /// Bytes of all jobs of a queue.
    pub queue: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stay_inside() {
        for good in ["out/*.pt", "**/*.pt", "out/**", "run-?/log[!0-9].txt", "log[]a].txt", "plain"] {
            assert_eq!(check_artifact_pattern(good), Ok(()), "{good}");
        }
        for wrong in ["", "/etc/*", "../*", "a/../b", "a**", "x/b**/c", "a[bc", "a//b"] {
            assert!(check_artifact_pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_stay_inside() {
        for good in ["a", "a/b.csv", "\u{e4} b", "...", ".hidden", "a\\b"] {
            assert_eq!(check_artifact_name(good), Ok(()), "{good}");
        }
        let wrong = [
            ("", InvalidArtifactName::Empty),
            ("/etc/passwd", InvalidArtifactName::Escapes),
            ("../x", InvalidArtifactName::Escapes),
            ("a/../../x", InvalidArtifactName::Escapes),
            ("a//b", InvalidArtifactName::Escapes),
            ("a/", InvalidArtifactName::Escapes),
            ("./a", InvalidArtifactName::Escapes),
            ("a\0b", InvalidArtifactName::Control),
            ("a\nb", InvalidArtifactName::Control),
            ("a\u{1b}[2J", InvalidArtifactName::Control),
        ];
        for (name, why) in wrong {
            assert_eq!(check_artifact_name(name), Err(why), "{name:?}");
        }
        assert_eq!(check_artifact_name(&"x".repeat(256)), Err(InvalidArtifactName::TooLong));
        assert_eq!(check_artifact_name(&"x/".repeat(600)), Err(InvalidArtifactName::TooLong));
    }
}
