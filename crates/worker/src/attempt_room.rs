//! The room of an attempt: a directory with the directories that belong to it alone, such as the copy of an upload that it
//! runs in.
//!
//! Only an attempt that needs one has one. Its name follows from job and lease, so that whoever looks after the attempt later
//! finds it again.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::attempt_files::attempt_name;
use crate::keeper::Key;

/// The copy of an upload.
const WORK: &str = "work";
/// Artifacts of needed jobs, where they are not in the copy of an upload.
const INPUTS: &str = "inputs";

/// The folder of all rooms.
pub(crate) fn rooms_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("rooms")
}

/// One room, whether it is there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttemptRoom {
    path: PathBuf,
}

impl AttemptRoom {
    pub(crate) fn of(data_dir: &Path, key: &Key) -> Self {
        Self { path: rooms_directory(data_dir).join(attempt_name(key)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the copy of an upload is.
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    /// Where artifacts of needed jobs are, if the attempt has no copy of an upload.
    pub(crate) fn inputs(&self) -> PathBuf {
        self.path.join(INPUTS)
    }

    /// Makes the empty directory for the copy of an upload, and the room if need be.
    pub(crate) fn make_work(&self) -> io::Result<PathBuf> {
        self.make(self.work())
    }

    /// The same for artifacts of needed jobs.
    pub(crate) fn make_inputs(&self) -> io::Result<PathBuf> {
        self.make(self.inputs())
    }

    fn make(&self, directory: PathBuf) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        DirBuilder::new().mode(0o755).create(&directory)?;
        Ok(directory)
    }

    /// Removes the room with everything in it. What the job took its own rights away from is given them back first.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            // Root needs no rights, and must not follow what the user of a job swaps meanwhile.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() => {
                open_up(&self.path);
                fs::remove_dir_all(&self.path)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes it away from the caller's thread.
    pub(crate) fn remove_soon(self) {
        tokio::task::spawn_blocking(move || {
            if let Err(error) = self.remove() {
                tracing::warn!(path = %self.path.display(), %error, "the directory of an attempt cannot be removed");
            }
        });
    }
}

/// Makes directories writable for their owner. Links are not followed.
fn open_up(path: &Path) {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return;
    }
    // What cannot be changed shows when it is removed.
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

/// Removes the rooms of attempts that nobody knows any more.
pub(crate) fn remove_strangers(data_dir: &Path, known: &[Key]) {
    let known: Vec<String> = known.iter().map(attempt_name).collect();
    for entry in fs::read_dir(rooms_directory(data_dir)).into_iter().flatten().flatten() {
        if !known.iter().any(|name| entry.file_name() == name.as_str()) {
            // What cannot be removed now is tried again at the next start.
            let _ = AttemptRoom { path: entry.path() }.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_goes_with_all_that_is_in_it() {
        let root = tempfile::tempdir().unwrap();
        let key = |lease| Key { job_id: "job-1".into(), lease };
        let room = AttemptRoom::of(root.path(), &key(7));
        let work = room.make_work().unwrap();
        assert_eq!(work, root.path().join("rooms/job-1.7/work"));
        assert!(room.make_work().is_err(), "it is empty, or it is not made");
        fs::create_dir(work.join("closed")).unwrap();
        fs::write(work.join("closed/file"), "x").unwrap();
        std::os::unix::fs::symlink("/", work.join("link")).unwrap();
        fs::set_permissions(work.join("closed"), Permissions::from_mode(0o000)).unwrap();
        room.remove().unwrap();
        room.remove().unwrap();
        assert!(!work.exists());
        for lease in [7, 8] {
            AttemptRoom::of(root.path(), &key(lease)).make_work().unwrap();
        }
        remove_strangers(root.path(), &[key(8)]);
        assert!(!room.work().exists() && AttemptRoom::of(root.path(), &key(8)).work().exists());
    }
}
