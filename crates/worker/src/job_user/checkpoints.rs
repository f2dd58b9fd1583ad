//! The directories that jobs keep their checkpoints in, where jobs have users of their own: one folder for each user, so that
//! what a job left under one user is never found by it under another.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::ways::{make_owned, passable};
use super::{JobUser, acting_as};
use crate::checkpoint_dirs;

/// Sees to it that the directory is there and the user's.
pub(crate) fn prepare_checkpoints(path: &str, user: &JobUser) -> Result<(), String> {
    let path = Path::new(path);
    let make = || {
        if let Some(folder) = path.parent() {
            passable(folder)?;
        }
        make_owned(path, user)
    };
    make().map_err(|error| format!("cannot make the directory {} for checkpoints: {error}", path.display()))
}

/// After the end of an attempt: an empty one goes, and one with something in it counts as used now.
pub(crate) fn release_checkpoints(path: &str, user: &JobUser) {
    // The system refuses to remove one that has something in it.
    if !path.is_empty() && fs::remove_dir(path).is_err() {
        // One that cannot be marked goes a little earlier.
        let _ = in_use_again(Path::new(path), user);
    }
}

/// Marks a directory as used now.
fn in_use_again(path: &Path, user: &JobUser) -> io::Result<()> {
    acting_as(Some(user), || File::open(path)?.set_modified(SystemTime::now()))
}

/// Removes directories that no attempt has used for so long. Returns how many there were.
pub(crate) fn sweep_checkpoints(
    folder: &Path,
    keep: Duration,
    in_use: &HashSet<String>,
    now: SystemTime,
) -> usize {
    let of_users = fs::read_dir(folder).into_iter().flatten().flatten();
    of_users.map(|of_user| checkpoint_dirs::sweep(&of_user.path(), keep, in_use, now)).sum()
}
