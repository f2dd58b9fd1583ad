//! What a scheduler keeps holds commands, output, checkpoints and the secret of tokens: it is for its own user only.
//!
//! Guarantee: no directory is closed that is not ours. One that was there is left as it is; what is made in it is
//! private all the same.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;

/// Nothing for anybody but the owner.
const OTHERS: u32 = 0o077;
const DIRECTORY: u32 = 0o700;

/// Call it first in a program that is a scheduler: from now on its files are for its own user only. Returns the umask
/// that was in force.
pub fn keep_files_private() -> u32 {
    umask(Mode::from_bits_truncate(OTHERS)).bits()
}

/// Makes a directory for us alone, unless it is there.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// The same for a directory that nobody but a scheduler makes. Older versions left it open to others; that is
/// mended.
pub(crate) fn make_own_directory(path: &Path) -> io::Result<()> {
    make_directory(path)?;
    let found = fs::metadata(path)?;
    if found.uid() == geteuid().as_raw() && found.mode() & OTHERS != 0 {
        fs::set_permissions(path, Permissions::from_mode(DIRECTORY))?;
        tracing::info!(path = %path.display(), "closed a directory that others could read");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_directories_are_closed_and_others_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(root.path().join(name)).unwrap().mode() & 0o777;
        for name in ["theirs", "ours"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::set_permissions(root.path().join(name), Permissions::from_mode(0o755)).unwrap();
        }
        make_directory(&root.path().join("theirs")).unwrap();
        make_directory(&root.path().join("new/below")).unwrap();
        make_own_directory(&root.path().join("ours")).unwrap();
        make_own_directory(&root.path().join("theirs/logs")).unwrap();
        let modes = ["theirs", "ours", "new", "new/below", "theirs/logs"].map(mode);
        assert_eq!(modes, [0o755, 0o700, 0o700, 0o700, 0o700]);
    }
}
