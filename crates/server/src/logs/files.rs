//! The files: where they are, how they grow, how they are listed and removed.
//!
//! Layout: `logs/<first two digits>/<job>/…`, the names are those of [`super::names`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_domain::{Event, JobId, Lease};
use muster_protocol::{LogAppended, LogRun, LogStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::admission::Admissions;
use super::lanes::Lanes;
use super::layout::{Extent, Layout, Shares};
use super::names::{self, Entry, Kind, Run};
use super::pack::Packed;
use super::times::{self, Tick};
use super::waiting::{Hold, Holds, Waiting};
use super::watchers::Watchers;
use crate::batcher::EndListener;
use crate::moves::Moves;
use crate::private_files::{make_directory, make_own_directory};

const WRITERS: usize = 2;
const READERS: usize = 2;
const FETCHERS: usize = 4;
/// Uploads that are in memory at the same time; the others wait unread, ...
const UPLOADS: usize = 64;
/// ... but not for longer than this.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(10);

/// A piece of one stream, at its place.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) job: JobId,
    pub(crate) lease: Lease,
    pub(crate) attempt: u32,
    pub(crate) stream: LogStream,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
    /// Nobody has what is missing before it.
    pub(crate) skip: bool,
    /// When its bytes were written; not empty.
    pub(crate) ticks: Vec<Tick>,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    Kept(LogAppended),
    /// Something before it is missing.
    Misplaced(LogAppended),
}

impl Appended {
    /// The same, with how far the slowest follower has read.
    fn followed(self, followed: Option<u64>) -> Self {
        match self {
            Self::Kept(kept) => Self::Kept(LogAppended { followed, ..kept }),
            Self::Misplaced(kept) => Self::Misplaced(LogAppended { followed, ..kept }),
        }
    }
}

/// All output below one directory.
#[derive(Debug)]
pub(crate) struct LogStore {
    pub(super) root: PathBuf,
    shares: Shares,
    writers: Arc<Lanes>,
    readers: Lanes,
    /// Threads that may wait for the blob store.
    fetchers: Lanes,
    uploads: Semaphore,
    live_readers: Arc<Semaphore>,
    pub(crate) admissions: Admissions,
    pub(super) watchers: Watchers,
    /// Output that is to move when its attempt has ended.
    pub(crate) waiting: Waiting,
    /// How the moves go.
    pub(crate) moves: Moves,
    holds: Arc<Holds>,
    /// Bytes written since the last look at how much there is.
    pub(super) added: AtomicU64,
}

impl EndListener for LogStore {
    /// Followers look again when something happens to their job: it may have ended.
    fn committed(&self, event: &Event) {
        if let Some(job) = event.job {
            self.admissions.forget(job);
            self.waiting.heard(job, event, Instant::now());
            self.watchers.changed(job);
        }
    }

    /// The output of a job goes with it, behind the back of whoever deleted it.
    fn deleted(&self, job: JobId) {
        let (writers, directory) = (Arc::clone(&self.writers), self.directory(job));
        tokio::spawn(async move {
            if let Err(error) = writers.run(key(job), move || remove_directory(&directory)).await {
                tracing::warn!(%error, job_id = %job, "the output of a deleted job could not be removed");
            }
        });
    }
}

fn key(job: JobId) -> usize {
    job.as_uuid().as_bytes()[15] as usize
}

impl LogStore {
    /// Output below `data_dir`, at most `limit` bytes of each stream, for as many readers that stay.
    pub(crate) fn open(data_dir: &Path, limit: u64, live_readers: usize) -> io::Result<Self> {
        let root = data_dir.join("logs");
        make_own_directory(&root)?;
        Ok(Self {
            root,
            shares: Shares::of(limit),
            writers: Arc::new(Lanes::start("log-write", WRITERS)?),
            readers: Lanes::start("log-read", READERS)?,
            fetchers: Lanes::start("log-fetch", FETCHERS)?,
            uploads: Semaphore::new(UPLOADS),
            live_readers: Arc::new(Semaphore::new(live_readers)),
            admissions: Admissions::default(),
            watchers: Watchers::default(),
            waiting: Waiting::default(),
            moves: Moves::default(),
            holds: Arc::default(),
            added: AtomicU64::new(0),
        })
    }

    /// Output of ended attempts moves on from here.
    #[must_use]
    pub(crate) fn moving(self) -> Self {
        Self { waiting: Waiting::on(), ..self }
    }

    /// Keeps the files of a job where they are for as long as the value lives.
    pub(crate) fn hold(&self, job: JobId) -> Hold {
        self.holds.take(job)
    }

    /// Waits for room to take an upload into memory; `None` when there is none for long.
    pub(crate) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        tokio::time::timeout(UPLOAD_PATIENCE, self.uploads.acquire()).await.ok()?.ok()
    }

    /// A seat for a live reader; `None` when all are taken.
    pub(crate) fn seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.live_readers).try_acquire_owned().ok()
    }

    pub(crate) fn directory(&self, job: JobId) -> PathBuf {
        let digits = job.as_uuid().as_bytes()[0];
        self.root.join(format!("{digits:02x}")).join(job.to_string())
    }

    /// Reads on a thread made for it.
    pub(super) async fn reading<T: Send + 'static>(
        &self,
        job: JobId,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.readers.run(key(job), work).await
    }

    /// The same on a thread that may wait for the blob store.
    pub(super) async fn fetching<T: Send + 'static>(
        &self,
        job: JobId,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.fetchers.run(key(job), work).await
    }

    /// Appends a piece and wakes those who follow the job. The answer says how far they are, so that the worker
    /// sends no more than they can still read.
    pub(crate) async fn append(self: &Arc<Self>, chunk: Chunk) -> io::Result<Appended> {
        let store = Arc::clone(self);
        let (job, stream) = (chunk.job, chunk.stream);
        let run = Run { lease: chunk.lease.0, attempt: chunk.attempt };
        let appended = self.writers.run(key(job), move || store.append_now(&chunk)).await?;
        self.waiting.grew(job, Instant::now());
        self.watchers.grew(job);
        Ok(appended.followed(self.watchers.slowest(job, run, stream, Instant::now())))
    }

    fn append_now(&self, chunk: &Chunk) -> io::Result<Appended> {
        let run = Run { lease: chunk.lease.0, attempt: chunk.attempt };
        let stream = Stream { directory: self.directory(chunk.job), run, kind: chunk.stream };
        let mut layout = stream.layout(&list(&stream.directory)?)?;
        let length = layout.end();
        if chunk.offset > length && !chunk.skip {
            return Ok(Appended::Misplaced(LogAppended { length, followed: None }));
        }
        let mut position = chunk.offset.max(length);
        let known = usize::try_from(position - chunk.offset).unwrap_or(usize::MAX);
        let mut news = chunk.bytes.get(known..).unwrap_or_default();
        let most = usize::try_from(self.shares.tail()).unwrap_or(usize::MAX);
        while !news.is_empty() {
            let place = self.shares.place(&layout, position);
            if place.start > 0 && news.len() > most {
                // The first of it would be dropped at once.
                position += (news.len() - most) as u64;
                news = &news[news.len() - most..];
                continue;
            }
            let count = usize::try_from(place.room).unwrap_or(usize::MAX).min(news.len());
            let (now, rest) = news.split_at(count);
            stream.write(place.start, position, now, &chunk.ticks)?;
            layout.grow(place.start, position + count as u64);
            for surplus in self.shares.surplus(&layout) {
                remove_file(&stream.data(surplus.start))?;
                remove_file(&stream.times(surplus.start))?;
                layout.forget(surplus);
            }
            self.added.fetch_add(count as u64, Ordering::Relaxed);
            position += count as u64;
            news = rest;
        }
        Ok(Appended::Kept(LogAppended { length: layout.end(), followed: None }))
    }

    /// Every file of a job. A job without output has none.
    pub(super) fn entries(&self, job: JobId) -> io::Result<Vec<Entry>> {
        list(&self.directory(job))
    }

    /// What is kept here of the output of a job, by run.
    pub(crate) async fn runs(self: &Arc<Self>, job: JobId) -> io::Result<Vec<LogRun>> {
        let logs = Arc::clone(self);
        let look = move || {
            let entries = logs.entries(job)?;
            let length = |run, stream| logs.layout(job, run, stream, &entries).map(|layout| layout.end());
            let of = |run: Run| {
                Ok(LogRun {
                    lease: run.lease,
                    attempt: run.attempt,
                    stdout_bytes: length(run, LogStream::Stdout)?,
                    stderr_bytes: length(run, LogStream::Stderr)?,
                })
            };
            runs(&entries).into_iter().map(of).collect()
        };
        self.reading(job, look).await
    }

    /// What is kept of one stream.
    pub(super) fn layout(
        &self,
        job: JobId,
        run: Run,
        stream: LogStream,
        entries: &[Entry],
    ) -> io::Result<Layout> {
        Stream { directory: self.directory(job), run, kind: stream }.layout(entries)
    }

    /// What lies here of the output of a job, ready to be moved.
    pub(crate) async fn packed(self: &Arc<Self>, job: JobId) -> io::Result<Vec<Packed>> {
        let logs = Arc::clone(self);
        let look = move || {
            let (directory, entries) = (logs.directory(job), logs.entries(job)?);
            runs(&entries).into_iter().map(|run| Packed::look(&directory, run, &entries)).collect()
        };
        self.reading(job, look).await
    }

    /// Small output as one piece of content.
    pub(crate) async fn collected(self: &Arc<Self>, job: JobId, packed: Packed) -> io::Result<Vec<u8>> {
        self.reading(job, move || packed.collect()).await
    }

    /// Removes the files of a run that has moved; false while somebody reads them, or when more has come since.
    pub(crate) async fn leave(self: &Arc<Self>, job: JobId, moved: Packed) -> io::Result<bool> {
        if self.holds.any(job) {
            return Ok(false);
        }
        let directory = self.directory(job);
        let leave = move || leave(&directory, &moved);
        self.writers.run(key(job), leave).await
    }

    /// Removes everything that a job has written.
    pub(crate) async fn remove(self: &Arc<Self>, job: JobId) -> io::Result<()> {
        let directory = self.directory(job);
        self.writers.run(key(job), move || remove_directory(&directory)).await
    }

    /// Removes what a job has written, but keeps in mind how much it was. Returns the bytes freed.
    pub(crate) async fn expire(self: &Arc<Self>, job: JobId) -> io::Result<u64> {
        let directory = self.directory(job);
        self.writers.run(key(job), move || expire(&directory)).await
    }
}

/// The runs among files, oldest first.
pub(super) fn runs(entries: &[Entry]) -> Vec<Run> {
    let mut runs: Vec<Run> = entries.iter().map(|entry| entry.run).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

pub(super) fn list(directory: &Path) -> io::Result<Vec<Entry>> {
    match fs::read_dir(directory) {
        Ok(files) => {
            Ok(files.flatten().filter_map(|file| names::parse(file.file_name().to_str()?)).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// One stream of one run.
pub(super) struct Stream {
    pub(super) directory: PathBuf,
    pub(super) run: Run,
    pub(super) kind: LogStream,
}

impl Stream {
    pub(super) fn data(&self, start: u64) -> PathBuf {
        self.directory.join(names::data(self.run, self.kind, start))
    }

    pub(super) fn times(&self, start: u64) -> PathBuf {
        self.directory.join(names::times(self.run, self.kind, start))
    }

    pub(super) fn layout(&self, entries: &[Entry]) -> io::Result<Layout> {
        let mut extents = Vec::new();
        let mut gone = 0;
        for entry in entries.iter().filter(|entry| entry.run == self.run && entry.stream == self.kind) {
            match entry.kind {
                Kind::Data { start } => match fs::metadata(self.data(start)) {
                    Ok(file) => extents.push(Extent { start, length: file.len() }),
                    // It was dropped since the directory was read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                },
                Kind::Gone => gone = read_gone(&self.directory.join(names::gone(self.run, self.kind)))?,
                Kind::Times => {}
            }
        }
        Ok(Layout::new(extents, gone))
    }

    /// Writes bytes at their position into the file that begins at `start`, and when they were written.
    fn write(&self, start: u64, position: u64, bytes: &[u8], ticks: &[Tick]) -> io::Result<()> {
        let file = open_for_append(&self.data(start))?;
        file.write_all_at(bytes, position - start)?;
        let end = position + bytes.len() as u64;
        let mut own: Vec<Tick> = Vec::with_capacity(ticks.len());
        for tick in ticks.iter().filter(|tick| tick.end > position) {
            own.push(Tick { end: tick.end.min(end), micros: tick.micros });
            if tick.end >= end {
                break;
            }
        }
        if own.last().is_none_or(|last| last.end < end) {
            own.extend(ticks.last().map(|last| Tick { end, micros: last.micros }));
        }
        times::append(&self.times(start), &own, end - start)
    }
}

fn read_gone(path: &Path) -> io::Result<u64> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Replaces every stream by its length.
fn expire(directory: &Path) -> io::Result<u64> {
    let entries = list(directory)?;
    let mut freed = 0;
    for run in runs(&entries) {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let one = Stream { directory: directory.to_owned(), run, kind: stream };
            let layout = one.layout(&entries)?;
            if layout.extents().is_empty() {
                continue;
            }
            // First the memory of it, so that nothing goes without a trace.
            fs::write(directory.join(names::gone(run, stream)), layout.end().to_string())?;
            for extent in layout.extents() {
                freed += extent.length;
                remove_file(&one.data(extent.start))?;
                remove_file(&one.times(extent.start))?;
            }
        }
    }
    Ok(freed)
}

fn leave(directory: &Path, moved: &Packed) -> io::Result<bool> {
    let entries = list(directory)?;
    if Packed::look(directory, moved.run, &entries)?.length() > moved.length() {
        return Ok(false);
    }
    let mut own: Vec<&Entry> = entries.iter().filter(|entry| entry.run == moved.run).collect();
    // The end goes first: a reader in another process finds an early end, and asks where the rest is.
    own.sort_by_key(|entry| std::cmp::Reverse(if let Kind::Data { start } = entry.kind { start } else { 0 }));
    for entry in own {
        let (run, kind) = (entry.run, entry.stream);
        match entry.kind {
            Kind::Data { start } => {
                remove_file(&directory.join(names::data(run, kind, start)))?;
                remove_file(&directory.join(names::times(run, kind, start)))?;
            }
            Kind::Gone => remove_file(&directory.join(names::gone(run, kind)))?,
            Kind::Times => {}
        }
    }
    // Fails while something else is in it, such as a checkpoint.
    let _ = fs::remove_dir(directory);
    Ok(true)
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                make_directory(directory)?;
            }
            open()
        }
        result => result,
    }
}
