//! The files by which the kernel is told about groups.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Longer than any of the files that are read here.
const MOST_BYTES: usize = 4096;

/// Writes a value, and names the file when the kernel does not take it.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    let written =
        OpenOptions::new().write(true).open(path).and_then(|file| file.write_all_at(value.as_bytes(), 0));
    written.map_err(|error| named(path, value, &error))
}

pub(super) fn named(path: &Path, value: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{value:?} cannot be written to {}: {error}", path.display()))
}

/// The numbers of the processes in a group, which may be a moment old.
pub(super) fn processes(group: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The groups below a group, the deepest first, and then the group itself.
pub(super) fn deepest_first(group: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(deepest_first(&entry.path()));
        }
    }
    found.push(group.to_owned());
    found
}

/// A file that is read again and again: kept open, each time costs one call.
#[derive(Debug)]
pub(super) struct Kept(File);

impl Kept {
    pub(super) fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// Opens a file that is also written.
    pub(super) fn open_both(path: &Path) -> Option<Self> {
        OpenOptions::new().read(true).write(true).open(path).ok().map(Self)
    }

    pub(super) fn put(&self, value: &str) -> bool {
        self.0.write_all_at(value.as_bytes(), 0).is_ok()
    }

    /// The number that is all of the file.
    pub(super) fn number(&self) -> Option<u64> {
        self.with_text(|text| text.trim().parse().ok())
    }

    /// The number behind a name, each on a line of its own.
    pub(super) fn field(&self, name: &str) -> Option<u64> {
        self.with_text(|text| field(text, name))
    }

    pub(super) fn with_text<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let mut bytes = [0; MOST_BYTES];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        read(std::str::from_utf8(&bytes[..length]).ok()?)
    }
}

pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "oom 1\noom_kill 3\noom_group_kill 2\n";
        assert_eq!(
            (field(text, "oom_kill"), field(text, "oom"), field(text, "kill")),
            (Some(3), Some(1), None)
        );
    }

    #[test]
    fn what_is_deepest_comes_first() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/b")).unwrap();
        std::fs::write(root.path().join("a/cgroup.procs"), "12\n7\n").unwrap();
        let found = deepest_first(root.path());
        assert_eq!(found, [root.path().join("a/b"), root.path().join("a"), root.path().to_owned()]);
        assert_eq!(processes(&found[1]), [12, 7]);
        assert!(processes(&found[0]).is_empty());
    }
}
