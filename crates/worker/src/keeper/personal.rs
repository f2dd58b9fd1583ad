//! What an attempt finds that runs as a user of its own: all of it in one directory, which is that user's.
//!
//! Guarantee: nothing of it is given to another attempt, and it is made and looked at with no more rights than the user has.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::message::StartSpec;
use crate::job_user::{JobUser, acting_as, make_room, prepare_checkpoints};

/// The directory of an attempt and its user.
#[derive(Debug)]
pub(super) struct Personal<'a> {
    room: PathBuf,
    user: &'a JobUser,
}

impl<'a> Personal<'a> {
    /// Makes the directory, where the attempt has a user of its own.
    pub(super) fn prepare(data_dir: &Path, spec: &'a StartSpec) -> Result<Option<Self>, String> {
        let Some(user) = spec.user.as_deref() else { return Ok(None) };
        let room = make_room(data_dir, &spec.key, user);
        let room = room.map_err(|error| format!("cannot make the directory of the attempt: {error}"))?;
        if !spec.paths.checkpoint_dir.is_empty() {
            prepare_checkpoints(&spec.paths.checkpoint_dir, user)?;
        }
        Ok(Some(Self { room, user }))
    }

    pub(super) const fn user(&self) -> &'a JobUser {
        self.user
    }

    /// Makes a file of the user with some text in it.
    pub(super) fn file(&self, name: &str, text: &[u8]) -> io::Result<PathBuf> {
        let path = self.room.join(name);
        let make = || {
            let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
            file?.write_all(text)
        };
        self.acting(make).map(|()| path.clone())
    }

    /// Makes a directory of the user.
    pub(super) fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.room.join(name);
        self.acting(|| DirBuilder::new().mode(0o700).create(&path)).map(|()| path.clone())
    }

    fn acting<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let failed = |error: io::Error| {
            let (room, name) = (self.room.display(), &self.user.name);
            io::Error::new(error.kind(), format!("in {room}, as the user {name}: {error}"))
        };
        acting_as(Some(self.user), act).map_err(failed)
    }
}

/// Whether there is something in a directory of a user. What cannot be looked at is looked at again by who wants it.
pub(super) fn is_used(user: &JobUser, directory: &Path) -> bool {
    let look = || match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(_) => Ok(true),
    };
    acting_as(Some(user), look).unwrap_or(true)
}
