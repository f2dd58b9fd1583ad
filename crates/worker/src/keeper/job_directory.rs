//! The directories that processes find under `MUSTER_CHECKPOINT_DIR`.
//!
//! Making a directory costs more than many a short job, and few jobs put anything there. So one that is still empty
//! when its job has ended gets the name that the next job needs.
//!
//! Guarantee: a directory with something in it stays where it is, for the next attempt of the same job; an empty one
//! never belongs to two jobs.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// As many as jobs usually run at once; others are made and removed.
const MOST_SPARE: usize = 64;

/// Empty directories of jobs that have ended.
#[derive(Debug, Default)]
pub(super) struct JobDirectories {
    spare: Mutex<Vec<PathBuf>>,
}

impl JobDirectories {
    /// Sees to it that the directory is there; no path means that none is wanted.
    pub(super) fn prepare(&self, path: &str) -> Result<(), String> {
        let path = Path::new(path);
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        // Held until the directory has its name: it must not become another's in between.
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.retain(|known| known != path);
        if path.is_dir() {
            return Ok(());
        }
        if let Some(other) = spare.pop()
            && fs::rename(other, path).is_ok()
        {
            return Ok(());
        }
        drop(spare);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| format!("cannot make the directory {} for checkpoints: {error}", path.display()))
    }

    /// After the end of a process. `wanted` says whether another attempt of the same job has the directory too; one
    /// with something in it is marked, since it is kept for some time after its last use.
    pub(super) fn release(&self, path: &str, wanted: impl FnOnce() -> bool) {
        let path = Path::new(path);
        if path.as_os_str().is_empty() {
            return;
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match is_empty(path) {
            Ok(true) if wanted() => {}
            Ok(true) if spare.len() < MOST_SPARE => spare.push(path.to_owned()),
            Ok(true) => {
                // What cannot be removed now is removed with other old directories.
                let _ = fs::remove_dir(path);
            }
            Ok(false) => {
                if let Ok(directory) = File::open(path) {
                    // One that cannot be marked goes a little earlier.
                    let _ = directory.set_modified(SystemTime::now());
                }
            }
            // The job has removed it.
            Err(_) => {}
        }
    }
}

fn is_empty(path: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(path)?.next().is_none())
}

/// Removes directories with nothing in them, when no job is there that could use them.
pub fn remove_empty_directories(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // The system refuses to remove one that has something in it.
        let _ = fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    struct Folder {
        _root: tempfile::TempDir,
        path: PathBuf,
    }

    impl Folder {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("checkpoints");
            Self { _root: root, path }
        }

        fn of(&self, job: &str) -> String {
            self.path.join(job).to_string_lossy().into_owned()
        }

        fn inode(&self, job: &str) -> u64 {
            fs::metadata(self.path.join(job)).unwrap().ino()
        }

        fn count(&self) -> usize {
            fs::read_dir(&self.path).unwrap().count()
        }
    }

    fn nobody() -> bool {
        false
    }

    #[test]
    fn an_empty_directory_gets_a_new_name_and_a_used_one_stays() {
        let (folder, directories) = (Folder::new(), JobDirectories::default());
        directories.prepare("").unwrap();
        directories.release("", nobody);
        directories.prepare(&folder.of("a")).unwrap();
        let first = folder.inode("a");
        directories.release(&folder.of("a"), nobody);
        directories.prepare(&folder.of("b")).unwrap();
        assert_eq!((folder.inode("b"), folder.count()), (first, 1), "used again");

        fs::write(folder.path.join("b/weights"), "1").unwrap();
        let old = SystemTime::UNIX_EPOCH;
        File::open(folder.path.join("b")).unwrap().set_modified(old).unwrap();
        directories.release(&folder.of("b"), nobody);
        let used = fs::metadata(folder.path.join("b")).unwrap().modified().unwrap();
        assert_ne!(used, old, "the age counts from now");
        directories.prepare(&folder.of("c")).unwrap();
        directories.prepare(&folder.of("b")).unwrap();
        assert!(folder.path.join("b/weights").exists() && folder.inode("c") != first);
        directories.release(&folder.of("c"), nobody);
        remove_empty_directories(&folder.path);
        assert_eq!(folder.count(), 1);
    }

    #[test]
    fn a_directory_that_another_attempt_has_is_not_given_away() {
        let (folder, directories) = (Folder::new(), JobDirectories::default());
        directories.prepare(&folder.of("a")).unwrap();
        let first = folder.inode("a");
        directories.release(&folder.of("a"), || true);
        directories.prepare(&folder.of("b")).unwrap();
        assert!(folder.inode("b") != first && folder.inode("a") == first);
        // The job comes again after its directory was put aside.
        directories.release(&folder.of("a"), nobody);
        directories.prepare(&folder.of("a")).unwrap();
        directories.prepare(&folder.of("c")).unwrap();
        assert!(folder.inode("a") == first && folder.inode("c") != first);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let path = root.path().join("file/job").to_string_lossy().into_owned();
        assert!(JobDirectories::default().prepare(&path).unwrap_err().contains("file/job"));
    }
}
