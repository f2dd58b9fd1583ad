//! Files as one stream: cut into chunks, and read again chunk by chunk.
//!
//! Guarantee: a file that is another one than when it was found, or that changes while it is read, is noticed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use muster_protocol::{UploadChunk, UploadEntry, UploadManifest};
use muster_upload::{Cutter, Digest, Piece, Pieces};
use nix::libc;

use super::walk::modified_ms;

/// Bytes that are read at a time.
const STEP: usize = 512 * 1024;

/// Where the bytes of an entry come from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    Path(PathBuf),
    /// An open file, from a place on.
    Open {
        file: Arc<File>,
        start: u64,
    },
}

/// What is to be sent.
#[derive(Debug, Clone)]
pub(super) struct Package {
    pub(super) entries: Vec<UploadEntry>,
    /// One for each entry.
    pub(super) origins: Vec<Origin>,
}

/// Why it could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackError {
    #[error("{path} changed while it was read")]
    Changed { path: String },
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
}

impl Package {
    pub(super) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// Reads everything once, and says what chunks it has. `read` counts the bytes.
    pub(super) fn manifest(&self, read: &AtomicU64) -> Result<UploadManifest, PackError> {
        let (mut cutter, mut chunks) = (Cutter::default(), Vec::new());
        let mut buffer = vec![0; STEP];
        for (entry, origin) in self.entries.iter().zip(&self.origins).filter(|(entry, _)| entry.size > 0) {
            let mut source = Source::open(entry, origin)?;
            let mut left = entry.size;
            while left > 0 {
                let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                source.read(&mut buffer[..wanted])?;
                left -= wanted as u64;
                read.fetch_add(wanted as u64, Ordering::Relaxed);
                cutter.push(&buffer[..wanted]);
                while let Some(chunk) = cutter.next_chunk() {
                    chunks.push(described(chunk));
                }
            }
            source.check()?;
        }
        while let Some(chunk) = cutter.last_chunk() {
            chunks.push(described(chunk));
        }
        Ok(UploadManifest { entries: self.entries.clone(), chunks })
    }

    /// Reads a chunk again. It is the one that the manifest names, or there is an error.
    pub(super) fn chunk(
        &self,
        manifest: &UploadManifest,
        pieces: &Pieces,
        number: usize,
    ) -> Result<(Digest, Vec<u8>), PackError> {
        let mut bytes = Vec::new();
        let parts = pieces.of_chunk(number);
        for part in &parts {
            self.read_piece(*part, &mut bytes)?;
        }
        let digest = Digest::of(&bytes);
        let expected = manifest.chunks.get(number).and_then(|chunk| chunk.sha256.parse::<Digest>().ok());
        if expected != Some(digest) {
            let entry = parts.first().and_then(|part| self.entries.get(part.entry));
            let path = entry.map_or_else(String::new, |entry| entry.path.clone());
            return Err(PackError::Changed { path });
        }
        Ok((digest, bytes))
    }

    fn read_piece(&self, piece: Piece, bytes: &mut Vec<u8>) -> Result<(), PackError> {
        let (entry, origin) = (&self.entries[piece.entry], &self.origins[piece.entry]);
        let source = Source::open(entry, origin)?;
        let at = bytes.len();
        bytes.resize(at + piece.length, 0);
        let read = source.file.read_exact_at(&mut bytes[at..], source.at + piece.offset);
        read.map_err(|error| source.failed(error))
    }
}

fn described(chunk: &[u8]) -> UploadChunk {
    UploadChunk { sha256: Digest::of(chunk).to_string(), size: chunk.len() as u32 }
}

/// One file that is being read.
struct Source<'a> {
    entry: &'a UploadEntry,
    file: Arc<File>,
    at: u64,
    /// The whole file; of an open one that begins later a part is meant.
    start: u64,
}

impl<'a> Source<'a> {
    fn open(entry: &'a UploadEntry, origin: &Origin) -> Result<Self, PackError> {
        let (file, start) = match origin {
            Origin::Open { file, start } => (Arc::clone(file), *start),
            Origin::Path(path) => {
                // Something else may have come in its place: no link is followed and no pipe waited for.
                let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
                let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
                let opened = opened.map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound => PackError::Changed { path: entry.path.clone() },
                    _ => PackError::Read { path: entry.path.clone(), source },
                });
                (Arc::new(opened?), 0)
            }
        };
        let source = Self { entry, file, at: start, start };
        source.check()?;
        Ok(source)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), PackError> {
        self.file.read_exact_at(buffer, self.at).map_err(|error| self.failed(error))?;
        self.at += buffer.len() as u64;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> PackError {
        let path = self.entry.path.clone();
        match source.kind() {
            io::ErrorKind::UnexpectedEof => PackError::Changed { path },
            _ => PackError::Read { path, source },
        }
    }

    /// Whether it is still what it was when it was found.
    fn check(&self) -> Result<(), PackError> {
        let path = || self.entry.path.clone();
        let found = self.file.metadata().map_err(|source| PackError::Read { path: path(), source })?;
        let same = found.is_file()
            && found.len() == self.start + self.entry.size
            && self.entry.modified_ms.is_none_or(|at| at == modified_ms(&found));
        if same { Ok(()) } else { Err(PackError::Changed { path: path() }) }
    }
}

/// Copies what a stream has into a file that nobody else sees, as far as `limit` and one byte more.
pub(super) fn spool(mut stream: impl io::Read, limit: u64) -> io::Result<(File, u64)> {
    let mut file = tempfile::tempfile()?;
    let length = io::copy(&mut stream.by_ref().take(limit.saturating_add(1)), &mut file)?;
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use muster_protocol::UploadLimits;

    use super::super::walk::walk;
    use super::*;

    const LIMITS: UploadLimits = UploadLimits { bytes: u64::MAX, entries: 100, stdin_bytes: 0 };

    #[test]
    fn what_is_read_again_is_what_was_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "hello ").unwrap();
        std::fs::write(root.path().join("b"), vec![7; 5_000_000]).unwrap();
        std::fs::write(root.path().join("empty"), "").unwrap();
        let package = walk(root.path(), &LIMITS).unwrap();
        let manifest = package.manifest(&AtomicU64::new(0)).unwrap();
        let pieces = Pieces::of(&manifest);
        let chunks: Vec<_> = (0..manifest.chunks.len())
            .map(|number| package.chunk(&manifest, &pieces, number).unwrap().1)
            .collect();
        let bytes = chunks.concat();
        assert!(bytes.starts_with(b"hello \x07") && bytes.len() == 5_000_006);
        muster_upload::check(&manifest, &muster_upload::Limits { bytes: u64::MAX, entries: 10 }).unwrap();
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        std::fs::write(&path, "first").unwrap();
        let package = walk(root.path(), &LIMITS).unwrap();
        let manifest = package.manifest(&AtomicU64::new(0)).unwrap();
        let pieces = Pieces::of(&manifest);
        let changed = |result: Result<(), PackError>| matches!(result, Err(PackError::Changed { .. }));
        std::fs::write(&path, "longer").unwrap();
        assert!(changed(package.manifest(&AtomicU64::new(0)).map(|_| ())));
        assert!(changed(package.chunk(&manifest, &pieces, 0).map(|_| ())));
        // As long and as old as before, so that only the bytes tell.
        std::fs::write(&path, "other").unwrap();
        let at = std::time::SystemTime::UNIX_EPOCH
            + std::time::Duration::from_millis(package.entries[0].modified_ms.unwrap().unsigned_abs());
        File::open(&path).unwrap().set_modified(at).unwrap();
        assert!(changed(package.chunk(&manifest, &pieces, 0).map(|_| ())));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(package.manifest(&AtomicU64::new(0)).is_err());
    }
}
