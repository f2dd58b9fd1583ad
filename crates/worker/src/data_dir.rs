//! The data directory: one worker at a time, and the name that the worker keeps.
//!
//! Guarantee: what is in it is for the worker's own user only. The directory itself is left as it is where it was there
//! before; it may be anything.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use crate::error::WorkerError;

const ID_FILE: &str = "worker-id";
const LOCK_FILE: &str = "lock";

/// Nothing for anybody but the owner.
const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;
const OTHERS: u32 = 0o077;

/// Makes a directory for us alone, unless it is there.
fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// The same for a directory that nobody but a worker makes. Older versions left it open to others; that is mended.
pub(crate) fn make_own_directory(path: &Path) -> io::Result<()> {
    make_directory(path)?;
    let found = fs::metadata(path)?;
    if found.uid() == geteuid().as_raw() && found.mode() & OTHERS != 0 {
        fs::set_permissions(path, Permissions::from_mode(DIRECTORY))?;
        tracing::info!(path = %path.display(), "closed a directory that others could read");
    }
    Ok(())
}

/// Writes a line for us alone. It is written aside and moved, so that a crash leaves a whole file or none.
pub(crate) fn write_private(file: &Path, line: &str) -> io::Result<()> {
    let aside = file.with_extension("new");
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(&aside)?;
    writeln!(out, "{line}")?;
    out.sync_all()?;
    std::fs::rename(&aside, file)
}

/// The data directory while this worker uses it. The lock goes with the process, however it ends.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DataDir {
    /// Makes the directory if need be and takes it for this worker.
    pub fn take(path: &Path) -> Result<Self, WorkerError> {
        let failed = |cause| WorkerError::DataDirectory { path: path.to_owned(), cause };
        make_directory(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let mut lock = OpenOptions::new();
        let lock = lock.write(true).create(true).truncate(false).mode(FILE).open(path.join(LOCK_FILE));
        match Flock::lock(lock.map_err(failed)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err((_, Errno::EWOULDBLOCK)) => Err(WorkerError::DataDirectoryTaken { path }),
            Err((_, errno)) => Err(failed(errno.into())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name given, or the one kept from before, or a new one that is kept from now on.
    pub fn worker_id(&self, given: Option<&str>) -> Result<String, WorkerError> {
        if let Some(given) = given {
            return Ok(given.to_owned());
        }
        let file = self.path.join(ID_FILE);
        let failed = |cause| WorkerError::DataDirectory { path: file.clone(), cause };
        match std::fs::read_to_string(&file) {
            Ok(kept) if !kept.trim().is_empty() => return Ok(kept.trim().to_owned()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let made = format!("worker-{:08x}", rand::random::<u32>());
        write_private(&file, &made).map_err(failed)?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_and_the_directory_is_for_one() {
        let root = tempfile::tempdir().unwrap();
        let first = DataDir::take(root.path()).unwrap();
        let name = first.worker_id(None).unwrap();
        assert!(matches!(DataDir::take(root.path()), Err(WorkerError::DataDirectoryTaken { .. })));
        drop(first);
        let second = DataDir::take(root.path()).unwrap();
        assert_eq!(second.worker_id(None).unwrap(), name);
        assert_eq!(second.worker_id(Some("mine")).unwrap(), "mine");
    }
}
