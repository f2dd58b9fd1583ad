//! Puts files into a directory of an attempt, one by one.
//!
//! Guarantees: nothing is written outside of the directory and nothing through a link; a file is replaced only where the directory is
//! the attempt's own copy of an upload; a directory that was removed meanwhile is not made again.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::job_user::{JobUser, acting_as};

const USUAL_DIRECTORY: u32 = 0o755;
const USUAL_FILE: u32 = 0o644;
/// Of directories in what a container uses: whoever it runs as may write there. The room around them is closed to others.
const OPEN_DIRECTORY: u32 = 0o777;
const OPEN_FILE: u32 = 0o666;

/// Where files are put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// A directory that is there.
    pub(crate) root: PathBuf,
    /// The directory in it that files are put into; empty for the root itself.
    pub(crate) below: String,
    /// It is the copy of an upload, whose files may be replaced.
    pub(crate) is_copy: bool,
    /// A container uses it.
    pub(crate) is_contained: bool,
    /// Whose it is, where that is not the worker's user.
    pub(crate) user: Option<JobUser>,
}

/// Why a file cannot be put there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Placing {
    /// Something else is there, on whatever machine.
    #[error("there is {0} already")]
    Taken(&'static str),
    #[error("{0}")]
    File(#[from] io::Error),
}

impl Place {
    /// Makes an empty file for a path that was checked.
    pub(crate) fn create(&self, path: &str) -> Result<File, Placing> {
        acting_as(self.user.as_ref(), || Ok(self.create_here(path)))?
    }

    fn create_here(&self, path: &str) -> Result<File, Placing> {
        let whole = match self.below.as_str() {
            "" => path.to_owned(),
            below => format!("{below}/{path}"),
        };
        for (at, _) in whole.match_indices('/') {
            self.make_directory(&self.root.join(&whole[..at]))?;
        }
        let target = self.root.join(&whole);
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_dir() => return Err(Placing::Taken("a directory")),
            Ok(_) if self.is_copy => fs::remove_file(&target)?,
            Ok(_) => return Err(Placing::Taken("a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
        let mode = if self.is_contained { OPEN_FILE } else { USUAL_FILE };
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file)
    }

    fn make_directory(&self, path: &Path) -> Result<(), Placing> {
        match DirBuilder::new().mode(USUAL_DIRECTORY).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            Err(_) if !fs::symlink_metadata(path)?.is_dir() => Err(Placing::Taken("a file or a link")),
            Ok(()) if self.is_contained => {
                Ok(fs::set_permissions(path, Permissions::from_mode(OPEN_DIRECTORY))?)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Gives everybody the rights to what lies in a directory that its owner has. Links are left as they are.
pub(crate) fn open_to_all(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(OPEN_DIRECTORY))?;
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    } else if found.is_file() {
        let owner = found.permissions().mode() >> 6 & 0o7;
        fs::set_permissions(path, Permissions::from_mode(owner << 6 | owner << 3 | owner))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn place(root: &Path, is_copy: bool) -> Place {
        Place { root: root.to_owned(), below: String::new(), is_copy, is_contained: false, user: None }
    }

    #[test]
    fn files_of_a_copy_are_replaced_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("target");
        fs::write(&target, "untouched").unwrap();
        symlink(&target, root.path().join("link")).unwrap();
        fs::write(root.path().join("file"), "old").unwrap();
        let own = place(root.path(), false);
        for name in ["file", "link", "file/below"] {
            assert!(matches!(own.create(name), Err(Placing::Taken(_))), "{name}");
        }
        let copy = place(root.path(), true);
        for name in ["file", "link"] {
            copy.create(name).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::read(root.path().join(name)).unwrap(), b"new");
        }
        assert_eq!(fs::read(&target).unwrap(), b"untouched", "nothing is written through a link");
        symlink(outside.path(), root.path().join("away")).unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        assert!(matches!(copy.create("away/x"), Err(Placing::Taken(_))));
        assert!(matches!(copy.create("folder"), Err(Placing::Taken(_))));
        let below = Place { below: "src/app".into(), ..copy };
        below.create("a/b").unwrap();
        assert!(root.path().join("src/app/a/b").is_file());
        let gone = place(&root.path().join("gone"), false);
        assert!(gone.create("a/b").is_err() && !gone.root.exists());
    }

    #[test]
    fn a_container_may_write_to_all_that_its_owner_may() {
        let root = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(root.path().join(name)).unwrap().permissions().mode() & 0o777;
        fs::create_dir(root.path().join("sub")).unwrap();
        for (name, before) in [("sub/run", 0o700), ("plain", 0o644), ("fixed", 0o444)] {
            fs::write(root.path().join(name), "").unwrap();
            fs::set_permissions(root.path().join(name), Permissions::from_mode(before)).unwrap();
        }
        symlink("/etc/passwd", root.path().join("link")).unwrap();
        open_to_all(root.path()).unwrap();
        assert_eq!(
            [mode("sub"), mode("sub/run"), mode("plain"), mode("fixed")],
            [0o777, 0o777, 0o666, 0o444]
        );
        let own = Place { is_contained: true, ..place(root.path(), false) };
        own.create("in/x").unwrap();
        assert_eq!([mode("in"), mode("in/x")], [0o777, 0o666]);
    }
}
