//! Puts the files of an upload together, chunk by chunk.
//!
//! Guarantees: nothing is written outside of the directory, which must have been empty; links are made last, so that nothing is
//! written through one; a directory that was removed meanwhile is not made again.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_protocol::{EntryKind, UploadEntry, UploadManifest};
use muster_upload::Pieces;

const USUAL_FILE: u32 = 0o644;
const USUAL_DIRECTORY: u32 = 0o755;

/// What an upload becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A directory that is there and empty.
    Directory(PathBuf),
    /// One file, for an upload that has one.
    File(PathBuf),
}

/// An upload that is being unpacked. Its manifest was checked.
#[derive(Debug)]
pub(crate) struct Unpacker {
    manifest: UploadManifest,
    pieces: Pieces,
    target: Target,
    /// The file that is being written, by its place in the manifest.
    open: Option<(usize, File)>,
    made: HashSet<String>,
}

impl Unpacker {
    pub(crate) fn new(manifest: UploadManifest, target: Target) -> Self {
        let pieces = Pieces::of(&manifest);
        Self { manifest, pieces, target, open: None, made: HashSet::new() }
    }

    /// Makes what has no bytes: empty files and directories.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        for place in 0..self.manifest.entries.len() {
            let entry = self.manifest.entries[place].clone();
            match entry.kind {
                EntryKind::File if entry.size == 0 => {
                    let file = self.create(&entry)?;
                    finish(&file, &entry)?;
                }
                EntryKind::Directory => {
                    let path = self.path(&entry)?;
                    DirBuilder::new().mode(entry.mode.unwrap_or(USUAL_DIRECTORY)).create(path)?;
                }
                EntryKind::File | EntryKind::Link => {}
            }
        }
        Ok(())
    }

    /// Writes the bytes of a chunk. Chunks come in their order.
    pub(crate) fn write(&mut self, number: usize, mut bytes: &[u8]) -> io::Result<()> {
        for piece in self.pieces.of_chunk(number) {
            let Some((part, rest)) = bytes.split_at_checked(piece.length) else {
                return Err(io::Error::other("a chunk is shorter than its manifest says"));
            };
            bytes = rest;
            if self.open.as_ref().is_none_or(|(entry, _)| *entry != piece.entry) {
                self.close()?;
                let entry = self.manifest.entries[piece.entry].clone();
                self.open = Some((piece.entry, self.create(&entry)?));
            }
            if let Some((_, file)) = &mut self.open {
                file.write_all(part)?;
            }
        }
        Ok(())
    }

    /// Makes the links, after every chunk was written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.close()?;
        for place in 0..self.manifest.entries.len() {
            let entry = self.manifest.entries[place].clone();
            if let (EntryKind::Link, Some(target)) = (entry.kind, &entry.target) {
                symlink(target, self.path(&entry)?)?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some((place, file)) => finish(&file, &self.manifest.entries[place]),
            None => Ok(()),
        }
    }

    fn create(&mut self, entry: &UploadEntry) -> io::Result<File> {
        let path = self.path(entry)?;
        // Writable until it is finished, whatever its mode.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }

    /// Where an entry goes; the directories above it are made.
    fn path(&mut self, entry: &UploadEntry) -> io::Result<PathBuf> {
        let root = match &self.target {
            Target::File(path) => return Ok(path.clone()),
            Target::Directory(root) => root.clone(),
        };
        for (at, _) in entry.path.match_indices('/') {
            let parent = &entry.path[..at];
            if !self.made.contains(parent) {
                make_directory(&root.join(parent))?;
                self.made.insert(parent.to_owned());
            }
        }
        Ok(root.join(&entry.path))
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(USUAL_DIRECTORY).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(error) if !fs::symlink_metadata(path)?.is_dir() => Err(error),
        _ => Ok(()),
    }
}

fn finish(file: &File, entry: &UploadEntry) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(entry.mode.unwrap_or(USUAL_FILE)))?;
    let since = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    match entry.modified_ms {
        Some(ms) if ms >= 0 => {
            file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since(ms)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use muster_protocol::UploadChunk;

    use super::*;

    fn entry(path: &str, size: u64) -> UploadEntry {
        UploadEntry { path: path.into(), size, ..UploadEntry::default() }
    }

    fn unpacked(manifest: &UploadManifest, root: &Path) -> io::Result<()> {
        let mut unpacker = Unpacker::new(manifest.clone(), Target::Directory(root.to_owned()));
        unpacker.begin()?;
        let mut bytes = (0..).map(|number| b'a' + number % 26);
        for (number, chunk) in manifest.chunks.iter().enumerate() {
            let bytes: Vec<u8> = bytes.by_ref().take(chunk.size as usize).collect();
            unpacker.write(number, &bytes)?;
        }
        unpacker.finish()
    }

    #[test]
    fn files_get_their_bytes_modes_times_and_links() {
        let root = tempfile::tempdir().unwrap();
        let link =
            UploadEntry { kind: EntryKind::Link, target: Some("../run".into()), ..entry("sub/link", 0) };
        let manifest = UploadManifest {
            entries: vec![
                UploadEntry { kind: EntryKind::Directory, ..entry("empty", 0) },
                UploadEntry { mode: Some(0o400), ..entry("none", 0) },
                UploadEntry { mode: Some(0o755), modified_ms: Some(1_700_000_000_000), ..entry("run", 3) },
                entry("sub/deep/x", 4),
                link,
            ],
            chunks: [2, 5].map(|size| UploadChunk { sha256: String::new(), size }).to_vec(),
        };
        unpacked(&manifest, root.path()).unwrap();
        let path = |name: &str| root.path().join(name);
        assert_eq!(fs::read(path("run")).unwrap(), b"abc");
        assert_eq!(fs::read(path("sub/deep/x")).unwrap(), b"defg");
        assert_eq!(fs::read(path("sub/link")).unwrap(), b"abc");
        let found = fs::metadata(path("run")).unwrap();
        assert_eq!((found.mode() & 0o777, found.mtime()), (0o755, 1_700_000_000));
        assert_eq!(fs::metadata(path("none")).unwrap().mode() & 0o777, 0o400);
        assert!(path("empty").is_dir());
        assert!(unpacked(&manifest, root.path()).is_err(), "nothing is written over");
    }

    #[test]
    fn a_directory_that_is_gone_is_not_made_again() {
        let root = tempfile::tempdir().unwrap();
        let gone = root.path().join("gone");
        let manifest = UploadManifest { entries: vec![entry("a/b", 0)], chunks: Vec::new() };
        assert!(unpacked(&manifest, &gone).is_err());
        assert!(!gone.exists());
    }
}
