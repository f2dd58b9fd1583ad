//! The file that a process finds under `MUSTER_OUTPUT`, and what becomes of it when the process has ended.
//!
//! Making and removing a file is a noticeable part of the cost of a short job, and few jobs hand anything on. So
//! a slot keeps its file for the next attempt as long as it stays empty.
//!
//! Guarantee: an attempt gets a file that another had only when that one has no process left and nobody has the file
//! open, so that none can speak for another.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::outputs::{OutputNames, nobody_else_has_it_open};
use super::personal::Personal;
use crate::job_user::JobUser;
use crate::results;

/// Its name in the directory of an attempt that has a user of its own.
const OF_USER: &str = "result";

/// The folder of these files in a data directory.
pub fn result_directory(directory: &Path) -> PathBuf {
    directory.join("results")
}

/// The file of a slot: that of the attempt that runs, or an empty one for the next.
#[derive(Debug, Default)]
pub(super) struct SlotResult {
    file: Option<ResultFile>,
    of_user: Option<UsersFile>,
}

/// One file, with a handle of our own by which its state is known.
#[derive(Debug)]
struct ResultFile {
    path: PathBuf,
    own: File,
    inode: u64,
}

/// Of an attempt that has a user of its own. It is used once.
#[derive(Debug)]
struct UsersFile {
    path: PathBuf,
    user: JobUser,
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

impl SlotResult {
    /// An empty file for an attempt.
    pub(super) fn prepare(
        &mut self,
        names: &OutputNames,
        personal: Option<&Personal<'_>>,
    ) -> Result<&Path, String> {
        if let Some(personal) = personal {
            let made = personal.file(OF_USER, b"");
            let path = made.map_err(|error| format!("cannot create the file for results: {error}"))?;
            let user = personal.user().clone();
            return Ok(&self.of_user.insert(UsersFile { path, user }).path);
        }
        let file = match self.file.take() {
            Some(spare) => spare,
            None => ResultFile::create(names.result_path())?,
        };
        Ok(&self.file.insert(file).path)
    }

    /// After the end of the process. Of an attempt that was stopped nothing is wanted: it may have been in the
    /// middle of writing.
    pub(super) fn settle(&mut self, stopped: bool) -> Left {
        if let Some(UsersFile { path, user }) = self.of_user.take() {
            return left(&path, if stopped { Ok(None) } else { results::read(&path, Some(&user)) });
        }
        let Some(file) = self.file.take() else { return Left::Nothing };
        if file.is_untouched() {
            self.file = Some(file);
            return Left::Nothing;
        }
        left(&file.path, if stopped { Ok(None) } else { results::read(&file.path, None) })
    }
}

/// What is wanted stays for the agent.
fn left(path: &Path, read: Result<Option<Map<String, Value>>, String>) -> Left {
    let left = match read {
        Ok(None) => Left::Nothing,
        Ok(Some(_)) => return Left::Values(path.to_string_lossy().into_owned()),
        Err(mistake) => Left::Mistake(mistake),
    };
    // What cannot be removed now is removed with the other leftovers.
    let _ = std::fs::remove_file(path);
    left
}

impl Drop for SlotResult {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}

impl ResultFile {
    fn create(path: PathBuf) -> Result<Self, String> {
        let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let made = opened.and_then(|own| Ok((own.metadata()?.ino(), own)));
        let (inode, own) =
            made.map_err(|error| format!("cannot create the file {}: {error}", path.display()))?;
        Ok(Self { path, own, inode })
    }

    /// Whether the file is as empty as it was, still in its place, and nobody can write to it any more.
    fn is_untouched(&self) -> bool {
        let there = std::fs::symlink_metadata(&self.path);
        there.is_ok_and(|there| there.ino() == self.inode && there.len() == 0)
            && nobody_else_has_it_open(&self.own)
    }

    fn remove(&self) {
        // What cannot be removed now is removed with the other leftovers.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> (tempfile::TempDir, OutputNames) {
        let root = tempfile::tempdir().unwrap();
        let names = OutputNames::new(root.path()).unwrap();
        (root, names)
    }

    #[test]
    fn only_values_in_order_are_kept() {
        let (_root, names) = names();
        let check = |text: &str, stopped: bool| {
            let mut slot = SlotResult::default();
            let path = slot.prepare(&names, None).unwrap().to_owned();
            std::fs::write(&path, text).unwrap();
            let left = slot.settle(stopped);
            drop(slot);
            (left, path)
        };
        for (text, stopped) in [("", false), ("# nothing\n", false), ("a=1", true), ("oops", true)] {
            let (left, path) = check(text, stopped);
            assert_eq!(left, Left::Nothing, "{text:?}");
            assert!(!path.exists());
        }
        let (left, path) = check("a=1", false);
        assert_eq!(left, Left::Values(path.to_string_lossy().into_owned()));
        assert!(path.exists(), "the agent wants to read it");
        let (left, path) = check("oops", false);
        assert!(matches!(left, Left::Mistake(mistake) if mistake.contains("line 1")));
        assert!(!path.exists());
    }

    #[test]
    fn an_untouched_file_is_used_again_and_others_are_not() {
        let (_root, names) = names();
        let mut slot = SlotResult::default();
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        let first = slot.prepare(&names, None).unwrap().to_owned();
        let first_inode = inode(&first);
        assert_eq!(slot.settle(false), Left::Nothing);
        let second = slot.prepare(&names, None).unwrap().to_owned();
        assert_eq!((&second, inode(&second)), (&first, first_inode));

        // Somebody keeps it open.
        let straggler = OpenOptions::new().append(true).open(&second).unwrap();
        assert_eq!(slot.settle(false), Left::Nothing);
        let third = slot.prepare(&names, None).unwrap().to_owned();
        assert_ne!(inode(&third), first_inode);
        drop(straggler);

        // Somebody puts another empty file in its place.
        std::fs::remove_file(&third).unwrap();
        // Open as long as it is compared with, or its number could be given again.
        let foreign = File::create(&third).unwrap();
        assert_eq!(slot.settle(false), Left::Nothing);
        let fourth = slot.prepare(&names, None).unwrap().to_owned();
        assert!(!third.exists() && inode(&fourth) != foreign.metadata().unwrap().ino());
    }
}
