//! The directories that users of jobs reach inside of the data directory, and the way there.
//!
//! Guarantees: a directory of an attempt is closed to all but its user; of what lies above it, others can pass through and see
//! nothing; its name lies in a directory of the worker, so that nobody puts anything else in its place.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::JobUser;
use crate::attempt_room::{AttemptRoom, rooms_directory};
use crate::keeper::Key;

const CLOSED: u32 = 0o700;
const PASSABLE: u32 = 0o711;
/// Others may pass.
const PASS: u32 = 0o001;

/// The folder of the directories that jobs keep their checkpoints in, by user.
pub(crate) fn checkpoints_folder(data_dir: &Path) -> PathBuf {
    data_dir.join("user-checkpoints")
}

/// Lets others pass to what is theirs. Says what keeps them from getting there.
pub(super) fn open(data_dir: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| {
        format!("the directory {} cannot be opened to others: {error}", path.display())
    };
    for folder in [rooms_directory(data_dir), checkpoints_folder(data_dir)] {
        passable(&folder).map_err(|error| failed(&folder, error))?;
    }
    let mode = fs::metadata(data_dir).map_err(|error| failed(data_dir, error))?.mode();
    if mode & PASS == 0 {
        // All that is in it is closed by itself.
        let opened = Permissions::from_mode(mode & 0o7777 | PASS);
        fs::set_permissions(data_dir, opened).map_err(|error| failed(data_dir, error))?;
    }
    let above = data_dir.ancestors().skip(1);
    let closed = |path: &&Path| fs::metadata(path).is_ok_and(|found| found.mode() & PASS == 0);
    match above.into_iter().find(closed) {
        None => Ok(()),
        Some(path) => Err(format!(
            "other users cannot get to the data directory {}, because {} is closed to them: name another with --data-dir, such as \
             /var/lib/muster-worker",
            data_dir.display(),
            path.display()
        )),
    }
}

/// Makes a directory that others can pass through, whatever the umask.
pub(super) fn passable(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(CLOSED).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(PASSABLE))
}

/// Makes the directory with all that an attempt finds, for its user alone, if it is not there.
pub(crate) fn make_room(data_dir: &Path, key: &Key, user: &JobUser) -> io::Result<PathBuf> {
    let room = AttemptRoom::of(data_dir, key).path().to_owned();
    make_owned(&room, user)?;
    Ok(room)
}

/// Makes a directory of a user in a directory that is the worker's, or finds it.
pub(super) fn make_owned(path: &Path, user: &JobUser) -> io::Result<()> {
    match DirBuilder::new().mode(CLOSED).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.uid() == geteuid().as_raw();
    if !found.is_dir() || !(is_ours || found.uid() == user.uid) {
        return Err(io::Error::other(format!("it belongs to another user than {}", user.name)));
    }
    if is_ours { lchown(path, Some(user.uid), Some(user.gid)) } else { Ok(()) }
}
