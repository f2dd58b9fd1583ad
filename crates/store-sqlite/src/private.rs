//! The database holds commands, environments and the secret of tokens: it is for its owner only.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const OWNER: u32 = 0o600;
const OTHERS: u32 = 0o077;

/// Makes the file before `SQLite` would make it readable for all, and closes one that an older version left open.
/// `SQLite` gives the files beside it the mode of the database.
pub(crate) fn close(database: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(OWNER).open(database)?;
    for end in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        let path = PathBuf::from(name);
        let Ok(found) = fs::metadata(&path) else { continue };
        if found.permissions().mode() & OTHERS != 0 {
            match fs::set_permissions(&path, Permissions::from_mode(OWNER)) {
                Ok(()) => tracing::info!(path = %path.display(), "closed a file that others could read"),
                // It belongs to another user, who decides who reads it.
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "others can read the database");
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;

    #[test]
    fn only_the_owner_can_read_the_database_and_what_lies_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("muster.db");
        let open = || SqliteStore::open(&path, muster_store::engine::Policies::default()).unwrap();
        let modes = || {
            let files = fs::read_dir(root.path()).unwrap().map(Result::unwrap);
            let mode = |file: fs::DirEntry| file.metadata().unwrap().permissions().mode() & 0o777;
            files.map(mode).collect::<Vec<_>>()
        };
        let store = open();
        assert!(modes().len() > 2 && modes().iter().all(|mode| *mode == OWNER), "{:?}", modes());
        drop(store);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _store = open();
        assert!(modes().iter().all(|mode| *mode == OWNER), "{:?}", modes());
    }
}
