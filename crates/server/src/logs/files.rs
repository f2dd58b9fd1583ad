//! The files: where they are, how they grow, how they are read and removed.
//!
//! Layout: `logs/<first two digits>/<job>/<attempt>.<lease>.<stream>`. The lease is in the name because an
//! attempt that was handed back does not count: the next one has the same number and another lease.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use muster_domain::{Event, JobId, Lease};
use muster_protocol::{LogAppended, LogStream};

use super::watchers::Watchers;
use crate::batcher::EndListener;

/// Uploads to different streams do not wait for one another, except by chance.
const STRIPES: usize = 64;

/// A piece of one stream, at its place.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) job: JobId,
    pub(crate) lease: Lease,
    pub(crate) attempt: u32,
    pub(crate) stream: LogStream,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    Kept(LogAppended),
    /// Something before it is missing.
    Misplaced(LogAppended),
}

/// One attempt of a job that has output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) lease: u64,
    pub(crate) attempt: u32,
}

/// All output below one directory.
#[derive(Debug)]
pub(crate) struct LogStore {
    root: PathBuf,
    limit: u64,
    stripes: Vec<Mutex<()>>,
    pub(super) watchers: Watchers,
}

fn stream_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    }
}

impl EndListener for LogStore {
    /// Followers look again when something happens to their job: it may have ended.
    fn committed(&self, event: &Event) {
        if let Some(job) = event.job {
            self.watchers.wake(job);
        }
    }
}

impl LogStore {
    /// Output below `data_dir`, at most `limit` bytes of each stream.
    pub(crate) fn open(data_dir: &Path, limit: u64) -> io::Result<Self> {
        let root = data_dir.join("logs");
        fs::create_dir_all(&root)?;
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Ok(Self { root, limit, stripes, watchers: Watchers::default() })
    }

    fn directory(&self, job: JobId) -> PathBuf {
        let digits = job.as_uuid().as_bytes()[0];
        self.root.join(format!("{digits:02x}")).join(job.to_string())
    }

    pub(super) fn path(&self, job: JobId, run: Run, stream: LogStream) -> PathBuf {
        self.directory(job).join(format!("{}.{}.{}", run.attempt, run.lease, stream_name(stream)))
    }

    /// Appends a piece and wakes those who follow the job.
    pub(crate) async fn append(self: &Arc<Self>, chunk: Chunk) -> io::Result<Appended> {
        let store = Arc::clone(self);
        let job = chunk.job;
        let appended = tokio::task::spawn_blocking(move || store.append_now(&chunk)).await;
        let appended = appended.map_err(io::Error::other)??;
        self.watchers.wake(job);
        Ok(appended)
    }

    fn append_now(&self, chunk: &Chunk) -> io::Result<Appended> {
        let run = Run { lease: chunk.lease.0, attempt: chunk.attempt };
        let path = self.path(chunk.job, run, chunk.stream);
        let stripe = chunk.job.as_uuid().as_bytes()[15] as usize % STRIPES;
        let _held = self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(length) = cut_length(&path)? {
            return Ok(Appended::Kept(LogAppended { length, full: true }));
        }
        let file = open_for_append(&path)?;
        let length = file.metadata()?.len();
        if chunk.offset > length {
            return Ok(Appended::Misplaced(LogAppended { length, full: false }));
        }
        let known = usize::try_from(length - chunk.offset).unwrap_or(usize::MAX);
        let news = chunk.bytes.get(known..).unwrap_or_default();
        let room = usize::try_from(self.limit.saturating_sub(length)).unwrap_or(usize::MAX);
        if news.len() <= room {
            file.write_all_at(news, length)?;
            let length = length + news.len() as u64;
            return Ok(Appended::Kept(LogAppended { length, full: false }));
        }
        file.write_all_at(&news[..room], length)?;
        self.cut(&path, &file, length + room as u64)
    }

    /// Marks the end of what is kept, in the stream itself and beside it.
    fn cut(&self, path: &Path, file: &File, length: u64) -> io::Result<Appended> {
        let mark = format!("\n[muster: output cut at the limit of {} bytes]\n", self.limit);
        file.write_all_at(mark.as_bytes(), length)?;
        fs::write(cut_path(path), length.to_string())?;
        Ok(Appended::Kept(LogAppended { length, full: true }))
    }

    /// The attempts that have output, oldest first.
    pub(super) fn runs(&self, job: JobId) -> io::Result<Vec<Run>> {
        let entries = match fs::read_dir(self.directory(job)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut runs: Vec<Run> =
            entries.flatten().filter_map(|entry| parse_run(&entry.file_name())).collect();
        runs.sort_unstable();
        runs.dedup();
        Ok(runs)
    }

    /// Up to `most` bytes of a stream from `position` on; empty at its end and when there is none.
    pub(super) fn read(path: &Path, position: u64, most: usize) -> io::Result<Bytes> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Bytes::new()),
            Err(error) => return Err(error),
        };
        let left = file.metadata()?.len().saturating_sub(position);
        let mut buffer = vec![0; usize::try_from(left).unwrap_or(most).min(most)];
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(filled);
        Ok(buffer.into())
    }

    /// Jobs whose output has not changed for longer than `age`, at most `most` of them.
    pub(crate) async fn old_jobs(self: &Arc<Self>, age: Duration, most: usize) -> io::Result<Vec<JobId>> {
        let store = Arc::clone(self);
        tokio::task::spawn_blocking(move || store.old_jobs_now(age, most)).await.map_err(io::Error::other)?
    }

    fn old_jobs_now(&self, age: Duration, most: usize) -> io::Result<Vec<JobId>> {
        let Some(before) = SystemTime::now().checked_sub(age) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for shard in fs::read_dir(&self.root)?.flatten() {
            for entry in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
                let Some(job) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                let changed = entry.metadata().and_then(|metadata| metadata.modified());
                if changed.is_ok_and(|changed| changed < before) {
                    found.push(job);
                }
                if found.len() == most {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Removes everything that a job has written.
    pub(crate) async fn remove(self: &Arc<Self>, job: JobId) -> io::Result<()> {
        let directory = self.directory(job);
        let removed = tokio::task::spawn_blocking(move || fs::remove_dir_all(directory)).await;
        match removed.map_err(io::Error::other)? {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn cut_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".cut");
    PathBuf::from(name)
}

/// How much was kept of a stream that was cut.
fn cut_length(path: &Path) -> io::Result<Option<u64>> {
    match fs::read_to_string(cut_path(path)) {
        Ok(text) => Ok(Some(text.trim().parse().unwrap_or(0))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            open()
        }
        result => result,
    }
}

fn parse_run(name: &std::ffi::OsStr) -> Option<Run> {
    let mut parts = name.to_str()?.split('.');
    let attempt = parts.next()?.parse().ok()?;
    let lease = parts.next()?.parse().ok()?;
    Some(Run { lease, attempt })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, bytes: &'static [u8]) -> Chunk {
        Chunk {
            job: JobId::from_random([3; 16]),
            lease: Lease(1),
            attempt: 1,
            stream: LogStream::Stdout,
            offset,
            bytes: Bytes::from_static(bytes),
        }
    }

    fn content(store: &LogStore) -> String {
        let path = store.path(JobId::from_random([3; 16]), Run { lease: 1, attempt: 1 }, LogStream::Stdout);
        fs::read_to_string(path).unwrap()
    }

    fn kept(length: u64, full: bool) -> Appended {
        Appended::Kept(LogAppended { length, full })
    }

    #[tokio::test]
    async fn repeated_and_overlapping_pieces_are_kept_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(LogStore::open(directory.path(), 1000).unwrap());
        assert_eq!(store.append(chunk(0, b"hello")).await.unwrap(), kept(5, false));
        assert_eq!(store.append(chunk(0, b"hello")).await.unwrap(), kept(5, false));
        assert_eq!(store.append(chunk(3, b"lo wor")).await.unwrap(), kept(9, false));
        assert_eq!(store.append(chunk(0, b"he")).await.unwrap(), kept(9, false));
        assert_eq!(content(&store), "hello wor");
    }

    #[tokio::test]
    async fn a_gap_is_answered_with_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(LogStore::open(directory.path(), 1000).unwrap());
        store.append(chunk(0, b"abc")).await.unwrap();
        let answer = store.append(chunk(5, b"fgh")).await.unwrap();
        assert_eq!(answer, Appended::Misplaced(LogAppended { length: 3, full: false }));
        assert_eq!(content(&store), "abc");
    }

    #[tokio::test]
    async fn the_limit_is_marked_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(LogStore::open(directory.path(), 6).unwrap());
        assert_eq!(store.append(chunk(0, b"abcdef")).await.unwrap(), kept(6, false));
        assert_eq!(store.append(chunk(6, b"ghi")).await.unwrap(), kept(6, true));
        assert_eq!(store.append(chunk(9, b"jkl")).await.unwrap(), kept(6, true));
        assert_eq!(content(&store), "abcdef\n[muster: output cut at the limit of 6 bytes]\n");
    }

    #[tokio::test]
    async fn attempts_are_found_by_lease_and_old_output_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(LogStore::open(directory.path(), 1000).unwrap());
        let job = chunk(0, b"").job;
        store.append(chunk(0, b"first")).await.unwrap();
        store.append(Chunk { lease: Lease(3), ..chunk(0, b"again") }).await.unwrap();
        let runs = store.runs(job).unwrap();
        assert_eq!(runs, [Run { lease: 1, attempt: 1 }, Run { lease: 3, attempt: 1 }]);
        assert_eq!(store.old_jobs(Duration::from_secs(3600), 10).await.unwrap(), []);
        assert_eq!(store.old_jobs(Duration::ZERO, 10).await.unwrap(), [job]);
        store.remove(job).await.unwrap();
        store.remove(job).await.unwrap();
        assert_eq!(store.runs(job).unwrap(), []);
    }
}
