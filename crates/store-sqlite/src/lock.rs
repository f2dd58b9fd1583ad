//! One process at a time: a lock on a file beside the database, held for as long as the store is open.
//!
//! The kernel gives the lock up when the process ends, however it ends; the file itself may stay behind.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use muster_store::StoreError;

use crate::error::failed;

/// Keeps other processes away from the database until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl Drop for FileLock {
    /// Given up by name, not only by closing the file: a process that is being made has the file open, too, until it becomes
    /// another program.
    fn drop(&mut self) {
        // What fails here, closing does.
        let _ = self.0.unlock();
    }
}

impl FileLock {
    pub(crate) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = lock_path(database);
        let opened =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let cannot = |error: std::io::Error| StoreError::Unavailable {
            operation: "open",
            source: format!("{}: {error}", path.display()).into(),
        };
        let mut file = opened.map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(database, &path, &mut file)),
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        // The number is for people who meet the lock; nothing depends on it.
        let noted = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        noted.map_err(cannot)?;
        Ok(Self(file))
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn in_use(database: &Path, lock: &Path, file: &mut File) -> StoreError {
    let mut holder = String::new();
    let _unknown = file.rewind().and_then(|()| file.read_to_string(&mut holder));
    let holder = match holder.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    };
    failed(
        "open",
        format!(
            "{} is in use by {holder}, which holds {}: stop that process, or choose another file",
            database.display(),
            lock.display()
        ),
    )
}
