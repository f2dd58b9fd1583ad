//! Chunks of uploads that this machine has had before, so that another attempt does not fetch them again.
//!
//! Guarantees: a chunk that is given out has the digest that was asked for, whatever became of its file; all chunks together
//! have at most the bytes that they may, those that were not used for longest go first; whoever takes bytes out has a copy, so
//! that no job changes what others get.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use muster_upload::{Digest, LONGEST_CHUNK};

/// A use is noted when the last one is longer ago.
const NOTED_AFTER: Duration = Duration::from_secs(600);
/// How much is put in, as a part of the whole, between two looks at what it comes to.
const LOOK_EVERY: u64 = 16;
/// What is left after a look that found too much, in percent.
const KEPT_PERCENT: u64 = 90;

/// Chunks by their digest. Clones are handles on the same files.
#[derive(Debug, Clone)]
pub(crate) struct ChunkCache {
    folder: PathBuf,
    limit: u64,
    /// Bytes put in since the last look.
    added: Arc<AtomicU64>,
    /// Names files that are being written.
    numbers: Arc<AtomicU64>,
}

impl ChunkCache {
    /// With a limit of 0 nothing is kept.
    pub(crate) fn new(data_dir: &Path, limit: u64) -> Self {
        let (added, numbers) = (Arc::default(), Arc::default());
        Self { folder: data_dir.join("chunks"), limit, added, numbers }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.folder.join(&name[..2]).join(name)
    }

    /// The bytes of a chunk, if they are here and whole.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Bytes> {
        let path = self.path(digest);
        let mut file = File::open(&path).ok()?;
        let found = file.metadata().ok()?;
        let mut bytes = Vec::with_capacity((found.len() as usize).min(LONGEST_CHUNK));
        (&mut file).take(LONGEST_CHUNK as u64 + 1).read_to_end(&mut bytes).ok()?;
        if Digest::of(&bytes) != *digest {
            // A crash may have cut it off; it is fetched again.
            let _ = fs::remove_file(&path);
            return None;
        }
        let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > NOTED_AFTER) {
            // One that cannot be marked goes a little earlier.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(Bytes::from(bytes))
    }

    /// Keeps a chunk. One that cannot be kept is fetched again by whoever needs it next.
    pub(crate) fn put(&self, digest: &Digest, bytes: &[u8]) {
        if self.limit == 0 {
            return;
        }
        if let Err(error) = self.write(digest, bytes) {
            tracing::debug!(%error, "a chunk of an upload is not kept");
            return;
        }
        let added = self.added.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        if added > self.limit / LOOK_EVERY {
            self.added.store(0, Ordering::Relaxed);
            self.trim();
        }
    }

    fn write(&self, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(digest);
        let Some(folder) = path.parent() else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!("{number}.{}.draft", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&draft, &path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Removes what was not used for longest, as far as there is too much.
    pub(crate) fn trim(&self) {
        let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for folder in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                if let Ok(found) = entry.metadata() {
                    all.push((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), found.len(), entry.path()));
                }
            }
        }
        let mut total: u64 = all.iter().map(|(_, length, _)| length).sum();
        if total <= self.limit {
            return;
        }
        let enough = self.limit / 100 * KEPT_PERCENT;
        all.sort_unstable();
        for (_, length, path) in all {
            if total <= enough {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u8) -> (Digest, Vec<u8>) {
        let bytes = vec![number; 1_000];
        (Digest::of(&bytes), bytes)
    }

    #[test]
    fn what_was_put_in_comes_out_or_nothing_does() {
        let root = tempfile::tempdir().unwrap();
        let cache = ChunkCache::new(root.path(), 1 << 20);
        let (digest, bytes) = chunk(1);
        assert!(cache.get(&digest).is_none());
        cache.put(&digest, &bytes);
        assert_eq!(cache.get(&digest).unwrap(), bytes);
        fs::write(cache.path(&digest), &bytes[..999]).unwrap();
        assert!(cache.get(&digest).is_none());
        assert!(!cache.path(&digest).exists(), "what is damaged is removed");
        let root = tempfile::tempdir().unwrap();
        let none = ChunkCache::new(root.path(), 0);
        none.put(&digest, &bytes);
        assert!(none.get(&digest).is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let root = tempfile::tempdir().unwrap();
        let cache = ChunkCache::new(root.path(), 4_000);
        let long_ago = |hours: u64| SystemTime::now() - Duration::from_secs(3_600 * hours);
        for number in 1..=4 {
            let (digest, bytes) = chunk(number);
            cache.write(&digest, &bytes).unwrap();
            let file = File::open(cache.path(&digest)).unwrap();
            file.set_modified(long_ago(u64::from(10 - number))).unwrap();
        }
        assert!(cache.get(&chunk(1).0).is_some(), "this is a use");
        cache.put(&chunk(5).0, &chunk(5).1);
        let left: Vec<u8> = (1..=5).filter(|number| cache.path(&chunk(*number).0).exists()).collect();
        assert_eq!(left, [1, 4, 5]);
    }
}
