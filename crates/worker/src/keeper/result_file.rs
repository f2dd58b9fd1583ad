//! The file that a process finds under `MUSTER_OUTPUT`, and what becomes of it when the process has ended.
//!
//! Guarantee: no two attempts ever have the same path, so that a straggler of one cannot speak for another.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::outputs::OutputNames;
use crate::results;

/// The folder of these files in a data directory.
pub fn result_directory(directory: &Path) -> PathBuf {
    directory.join("results")
}

/// The file of one attempt.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
}

/// What an attempt left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Values in order, in the file of this path, which is the agent's from now on.
    Values(String),
    /// Something that is no result, for this reason.
    Mistake(String),
}

impl ResultFile {
    pub(super) fn create(names: &OutputNames) -> Result<Self, String> {
        let path = names.result_path();
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.map_err(|error| format!("cannot create the file {}: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// The variable that tells the process of it.
    pub(super) fn variable(&self) -> (&'static str, &Path) {
        (results::VARIABLE, &self.path)
    }

    /// After the end of the process. Of an attempt that was stopped nothing is wanted: it may have been in the
    /// middle of writing.
    pub(super) fn settle(self, stopped: bool) -> Left {
        let empty = std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.is_file() && file.len() == 0);
        let left = if stopped || empty {
            Left::Nothing
        } else {
            match results::read(&self.path) {
                Ok(None) => Left::Nothing,
                Ok(Some(_)) => return Left::Values(self.path.to_string_lossy().into_owned()),
                Err(mistake) => Left::Mistake(mistake),
            }
        };
        // What cannot be removed now is removed with the other leftovers.
        let _ = std::fs::remove_file(&self.path);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_in_order_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let names = OutputNames::new(root.path()).unwrap();
        let check = |text: &str, stopped: bool| {
            let file = ResultFile::create(&names).unwrap();
            let path = file.path.clone();
            std::fs::write(&path, text).unwrap();
            (file.settle(stopped), path)
        };
        for (text, stopped) in [("", false), ("# nothing\n", false), ("a=1", true), ("oops", true)] {
            let (left, path) = check(text, stopped);
            assert_eq!(left, Left::Nothing, "{text:?}");
            assert!(!path.exists());
        }
        let (left, path) = check("a=1", false);
        assert_eq!(left, Left::Values(path.to_string_lossy().into_owned()));
        assert!(path.exists());
        let (left, path) = check("oops", false);
        assert!(matches!(left, Left::Mistake(mistake) if mistake.contains("line 1")));
        assert!(!path.exists());
    }
}
