//! Open files that become a user's: what the worker has made and a process of that user reads and writes.

use std::fs::File;
use std::os::fd::AsFd;

use nix::unistd::{Uid, fchown};

use super::JobUser;

/// Gives open files, pipes or terminals to the user of a job, which may open them again by `/dev/stdout` and the like.
pub(crate) fn hand_over<'a>(
    user: Option<&JobUser>,
    files: impl IntoIterator<Item = &'a File>,
) -> Result<(), String> {
    let Some(user) = user else { return Ok(()) };
    for file in files {
        fchown(file.as_fd(), Some(Uid::from_raw(user.uid)), None).map_err(|errno| {
            format!("the files of the job cannot be given to the user {}: {}", user.name, errno.desc())
        })?;
    }
    Ok(())
}
