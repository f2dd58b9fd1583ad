//! The directories that processes find under `MUSTER_CHECKPOINT_DIR`.
//!
//! Making a directory costs more than many a short job, and few jobs put anything there. So one that is still empty
//! when its job has ended gets the name that the next job needs. Whether anybody put something there tells its time
//! of change, which is set to a moment long past when it is made: so a job that leaves its directory alone costs two
//! calls of the system.
//!
//! Guarantee: a directory with something in it stays where it is, for the next attempt of the same job; an empty one
//! never belongs to two jobs.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

/// As many as jobs usually run at once; others are made and removed.
const MOST_SPARE: usize = 64;
/// Seconds since 1970 at which a directory was changed that nobody has changed.
pub(super) const UNTOUCHED: i64 = 1;

/// Empty directories of jobs that have ended.
#[derive(Debug, Default)]
pub(super) struct JobDirectories {
    spare: Mutex<Vec<Spare>>,
}

#[derive(Debug)]
struct Spare {
    path: PathBuf,
    inode: u64,
}

/// The directory that an attempt was given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lent {
    /// Of one that was empty and marked as untouched.
    inode: Option<u64>,
}

impl JobDirectories {
    /// Sees to it that the directory is there; no path means that none is wanted.
    pub(super) fn prepare(&self, path: &str) -> Result<Lent, String> {
        let path = Path::new(path);
        if path.as_os_str().is_empty() {
            return Ok(Lent::default());
        }
        // Held until the directory has its name: it must not become another's in between.
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = spare.iter().position(|known| known.path == path) {
            spare.swap_remove(own);
        } else if let Some(other) = spare.pop() {
            match renameat2(AT_FDCWD, &other.path, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
                Ok(()) => return Ok(Lent { inode: Some(other.inode) }),
                Err(Errno::EEXIST) => spare.push(other),
                // It is gone, or the file system cannot do it.
                Err(_) => {}
            }
        }
        drop(spare);
        if path.is_dir() {
            return Ok(Lent::default());
        }
        make(path)
            .map(|inode| Lent { inode: Some(inode) })
            .map_err(|error| format!("cannot make the directory {} for checkpoints: {error}", path.display()))
    }

    /// After the end of a process. `wanted` says whether another attempt of the same job has the directory too; one
    /// with something in it is marked, since it is kept for some time after its last use.
    pub(super) fn release(&self, path: &str, lent: &Lent, wanted: impl FnOnce() -> bool) {
        let path = Path::new(path);
        if path.as_os_str().is_empty() {
            return;
        }
        let Some(inode) = lent.untouched(path).or_else(|| emptied(path)) else { return };
        if wanted() {
            return;
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(Spare { path: path.to_owned(), inode });
        } else {
            // What cannot be removed now is removed with other old directories.
            let _ = fs::remove_dir(path);
        }
    }
}

impl Lent {
    /// The number of the directory, if it is the one that was given and nobody has changed it.
    fn untouched(&self, path: &Path) -> Option<u64> {
        let inode = self.inode?;
        let found = fs::symlink_metadata(path).ok()?;
        (found.ino() == inode && found.mtime() == UNTOUCHED).then_some(inode)
    }
}

pub(super) fn make(path: &Path) -> io::Result<u64> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    mark_untouched(path)
}

pub(super) fn mark_untouched(path: &Path) -> io::Result<u64> {
    let directory = File::open(path)?;
    directory.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(UNTOUCHED.unsigned_abs()))?;
    Ok(directory.metadata()?.ino())
}

/// Looks into a directory that was changed. One that is empty again may be used again; one that is not is marked as
/// used now.
fn emptied(path: &Path) -> Option<u64> {
    // The job may have removed it, or put something else in its place.
    let is_empty = fs::symlink_metadata(path).ok()?.is_dir() && fs::read_dir(path).ok()?.next().is_none();
    if is_empty {
        return mark_untouched(path).ok();
    }
    if let Ok(directory) = File::open(path) {
        // One that cannot be marked goes a little earlier.
        let _ = directory.set_modified(SystemTime::now());
    }
    None
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
        assert_eq!(directories.prepare("").unwrap(), Lent::default());
        directories.release("", &Lent::default(), nobody);
        let lent = directories.prepare(&folder.of("a")).unwrap();
        let first = folder.inode("a");
        directories.release(&folder.of("a"), &lent, nobody);
        let lent = directories.prepare(&folder.of("b")).unwrap();
        assert_eq!((folder.inode("b"), folder.count()), (first, 1), "used again");
        assert_eq!(lent, Lent { inode: Some(first) });

        fs::write(folder.path.join("b/weights"), "1").unwrap();
        let old = SystemTime::UNIX_EPOCH;
        File::open(folder.path.join("b")).unwrap().set_modified(old).unwrap();
        directories.release(&folder.of("b"), &lent, nobody);
        let used = fs::metadata(folder.path.join("b")).unwrap().modified().unwrap();
        assert_ne!(used, old, "the age counts from now");
        let of_c = directories.prepare(&folder.of("c")).unwrap();
        let of_b = directories.prepare(&folder.of("b")).unwrap();
        assert!(folder.path.join("b/weights").exists() && folder.inode("c") != first);
        directories.release(&folder.of("c"), &of_c, nobody);
        directories.release(&folder.of("b"), &of_b, nobody);
        let of_d = directories.prepare(&folder.of("d")).unwrap();
        assert!(folder.path.join("b/weights").exists() && of_d.inode.is_some());
        directories.release(&folder.of("d"), &of_d, nobody);
        remove_empty_directories(&folder.path);
        assert_eq!(folder.count(), 1);
        assert!(directories.prepare(&folder.of("e")).is_ok() && folder.count() == 2, "a spare may be gone");
    }

    #[test]
    fn what_was_put_there_is_never_handed_to_another() {
        let (folder, directories) = (Folder::new(), JobDirectories::default());
        let end = |job: &str, lent: &Lent| directories.release(&folder.of(job), lent, nobody);
        // Written to and emptied again: as good as new.
        let lent = directories.prepare(&folder.of("a")).unwrap();
        fs::write(folder.path.join("a/x"), "").unwrap();
        fs::remove_file(folder.path.join("a/x")).unwrap();
        end("a", &lent);
        let lent = directories.prepare(&folder.of("b")).unwrap();
        assert_eq!(folder.count(), 1);
        // Another directory in its place, as those do that write aside and swap.
        fs::rename(folder.path.join("b"), folder.path.join("b.old")).unwrap();
        fs::create_dir(folder.path.join("b")).unwrap();
        fs::write(folder.path.join("b/weights"), "1").unwrap();
        end("b", &lent);
        let lent = directories.prepare(&folder.of("c")).unwrap();
        assert!(folder.path.join("b/weights").exists() && !folder.path.join("c/weights").exists());
        fs::remove_dir(folder.path.join("c")).unwrap();
        end("c", &lent);
        directories.prepare(&folder.of("d")).unwrap();
        assert!(folder.path.join("d").is_dir());
    }

    #[test]
    fn a_directory_that_another_attempt_has_is_not_given_away() {
        let (folder, directories) = (Folder::new(), JobDirectories::default());
        let lent = directories.prepare(&folder.of("a")).unwrap();
        let first = folder.inode("a");
        directories.release(&folder.of("a"), &lent, || true);
        directories.prepare(&folder.of("b")).unwrap();
        assert!(folder.inode("b") != first && folder.inode("a") == first);
        // The job comes again after its directory was put aside.
        directories.release(&folder.of("a"), &lent, nobody);
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
