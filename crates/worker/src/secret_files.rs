//! Secrets as files: in memory, for one attempt, readable by its user alone.
//!
//! Guarantees: a file lies on a file system in memory or is not made; it goes with its attempt; whatever is left when everybody
//! who looked after it was killed is removed by the guard, or by the next worker of the data directory.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::geteuid;

use crate::attempt_files::{attempt_directory, fingerprint};
use crate::job_user::{JobUser, acting_as, hand_over};

/// Where every Linux keeps a file system in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The folder of the files of one data directory, and nothing else in it.
pub(crate) fn folder(data_dir: &Path) -> PathBuf {
    let attempts = attempt_directory(data_dir);
    if !in_memory(Path::new(SHARED_MEMORY)) && in_memory(data_dir) {
        return attempts.join("secrets");
    }
    let name = fingerprint(data_dir.as_os_str().as_encoded_bytes());
    Path::new(SHARED_MEMORY).join(format!("muster-{}-{name:016x}", geteuid()))
}

fn in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC)
}

/// Removes everything; called when no job is alive.
pub(crate) fn remove_all(data_dir: &Path) {
    match fs::remove_dir_all(folder(data_dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            eprintln!("files of secrets cannot be removed: {error}");
        }
        _ => {}
    }
}

/// A file that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct SecretFile {
    path: PathBuf,
}

impl SecretFile {
    /// `user`: who may read it, where that is not the worker's user.
    pub(crate) fn write(
        folder: &Path,
        name: &str,
        value: &[u8],
        user: Option<&JobUser>,
    ) -> Result<Self, String> {
        let path = folder.join(name);
        let write = || {
            make_private(folder)?;
            if user.is_some() {
                // Others pass to what is theirs, and see nothing.
                fs::set_permissions(folder, Permissions::from_mode(0o711))?;
            }
            if !in_memory(folder) {
                return Err(io::Error::other("there is no file system in memory here"));
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            let own = Self { path: path.clone() };
            file.write_all(value)?;
            hand_over(user, [&file]).map_err(io::Error::other)?;
            // Where others cannot get to the only file system in memory there is no secret for them.
            acting_as(user, || fs::metadata(&path))?;
            Ok(own)
        };
        write().map_err(|error| format!("cannot make the file {} for a secret: {error}", path.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        // The job may have removed it. What cannot be removed goes with the folder.
        let _ = fs::remove_file(&self.path);
    }
}

/// In a directory that everyone may write to, somebody else may have been first.
fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o066 != 0 {
        return Err(io::Error::other("the folder is open to others, or somebody else's"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_private_in_memory_and_goes() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        let file = SecretFile::write(&folder, "job.1.0", b"sesame", None).unwrap();
        let path = file.path().to_owned();
        assert_eq!(fs::read(&path).unwrap(), b"sesame");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(in_memory(&path));
        assert!(SecretFile::write(&folder, "job.1.0", b"other", None).is_err(), "it is there");
        drop(file);
        assert!(!path.exists());
        let left = SecretFile::write(&folder, "job.1.1", b"sesame", None).unwrap();
        remove_all(root.path());
        assert!(!folder.exists());
        drop(left);
    }

    #[test]
    fn a_folder_that_others_can_open_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let error = SecretFile::write(&folder, "x", b"sesame", None).unwrap_err();
        assert!(error.contains("open to others"), "{error}");
        remove_all(root.path());
        assert!(SecretFile::write(root.path(), "x", b"sesame", None).is_err(), "a disk is no memory");
        assert!(!root.path().join("x").exists());
    }
}
