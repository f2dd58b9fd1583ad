//! The directories that processes find under `MUSTER_ARTIFACTS`.
//!
//! Making a directory costs more than many a short job, and few jobs put anything there. So one that is still empty
//! when its job has ended is given to the next job of the same slot as it is. Whether anybody put something there
//! tells its time of change, which is set to a moment long past: a job that leaves its directory alone costs one
//! call of the system.
//!
//! Guarantee: a directory with something in it is handed to the agent and never used again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::job_directory::{UNTOUCHED, make, mark_untouched};
use super::outputs::OutputNames;
use super::personal::{self, Personal};
use crate::job_user::JobUser;

/// Its name in the directory of an attempt that has a user of its own.
const OF_USER: &str = "artifacts";

/// The folder of these directories in a data directory.
pub fn artifact_directory(directory: &Path) -> PathBuf {
    directory.join("artifacts")
}

/// The directory of a slot.
#[derive(Debug, Default)]
pub(super) struct ArtifactRoom {
    given: Option<Room>,
    of_user: Option<(PathBuf, JobUser)>,
}

#[derive(Debug)]
struct Room {
    path: PathBuf,
    inode: u64,
}

impl ArtifactRoom {
    /// The empty directory for the next attempt.
    pub(super) fn prepare(
        &mut self,
        names: &OutputNames,
        personal: Option<&Personal<'_>>,
    ) -> Result<&Path, String> {
        if let Some(personal) = personal {
            let made = personal.directory(OF_USER);
            let path = made.map_err(|error| format!("cannot make the directory for artifacts: {error}"))?;
            return Ok(&self.of_user.insert((path, personal.user().clone())).0);
        }
        if self.given.is_none() {
            let path = names.artifact_path();
            let made = make(&path);
            let inode =
                made.map_err(|error| format!("cannot make the directory {}: {error}", path.display()))?;
            self.given = Some(Room { path, inode });
        }
        Ok(self.given.as_ref().map_or(Path::new(""), |room| room.path.as_path()))
    }

    /// After the end of the attempt: the path, if there is something to keep.
    pub(super) fn settle(&mut self) -> String {
        if let Some((path, user)) = self.of_user.take() {
            let is_used = personal::is_used(&user, &path);
            return if is_used { path.to_string_lossy().into_owned() } else { String::new() };
        }
        let Some(room) = self.given.take() else { return String::new() };
        let Ok(found) = fs::symlink_metadata(&room.path) else { return String::new() };
        let is_ours = found.ino() == room.inode;
        if is_ours && found.mtime() == UNTOUCHED {
            self.given = Some(room);
            return String::new();
        }
        let is_empty =
            found.is_dir() && fs::read_dir(&room.path).is_ok_and(|mut entries| entries.next().is_none());
        if is_ours && is_empty && mark_untouched(&room.path).is_ok() {
            self.given = Some(room);
            return String::new();
        }
        room.path.to_string_lossy().into_owned()
    }
}

impl Drop for ArtifactRoom {
    fn drop(&mut self) {
        if let Some(room) = self.given.take() {
            // What is left is removed by the next worker that starts here.
            let _ = fs::remove_dir(&room.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_directory_is_used_again_and_one_with_files_is_handed_over() {
        let root = tempfile::tempdir().unwrap();
        let names = OutputNames::new(root.path()).unwrap();
        let mut room = ArtifactRoom::default();
        let first = room.prepare(&names, None).unwrap().to_owned();
        assert_eq!(room.settle(), "");
        assert_eq!(room.prepare(&names, None).unwrap(), first);
        fs::write(first.join("a"), "x").unwrap();
        fs::remove_file(first.join("a")).unwrap();
        assert_eq!(room.settle(), "", "it is empty again");
        assert_eq!(room.prepare(&names, None).unwrap(), first);
        fs::create_dir(first.join("sub")).unwrap();
        assert_eq!(room.settle(), first.to_string_lossy());
        let second = room.prepare(&names, None).unwrap().to_owned();
        assert_ne!(second, first);
        // A job may remove it, or put something else there.
        fs::remove_dir(&second).unwrap();
        assert_eq!(room.settle(), "");
        let third = room.prepare(&names, None).unwrap().to_owned();
        fs::remove_dir(&third).unwrap();
        fs::write(&third, "a file").unwrap();
        assert_eq!(room.settle(), third.to_string_lossy());
        room.prepare(&names, None).unwrap();
        drop(room);
        assert_eq!(fs::read_dir(artifact_directory(root.path())).unwrap().count(), 2);
    }
}
