//! Uploads that an attempt needs: fetched chunk by chunk, and put together where the attempt finds them.
//!
//! Guarantees: an attempt starts with all of its files or not at all; every chunk has the digest that the manifest names, and the
//! manifest the digest that the job names; what is in memory at a time is bounded over all attempts.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use muster_client::{Client, ClientError};
use muster_protocol::{ChunkRequest, UploadManifest};
use muster_upload::{Digest, FrameReader, Limits, UploadError, check, manifest_id};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::super::start::{RETRY_FIRST, RETRY_MOST};
use super::{Cost, Unready};
use crate::attempt_room::AttemptRoom;
use crate::backoff::Backoff;
use crate::job_user::{JobUser, acting_as};
use crate::keeper::StartSpec;
use crate::uploads::{ChunkCache, Target, Unpacker, open_to_all};

/// How long a scheduler that answers, but not well, is asked again. One that does not answer at all is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are fetched and written together; the next are fetched meanwhile.
const GROUP: u64 = 4 * 1024 * 1024;
/// How many uploads are unpacked at a time, over all attempts.
const AT_ONCE: usize = 2;

/// What uploads are unpacked with.
#[derive(Debug)]
pub(super) struct Uploads {
    cache: ChunkCache,
    room: Semaphore,
}

impl Uploads {
    pub(super) fn new(data_dir: &Path, limit: u64) -> Self {
        Self { cache: ChunkCache::new(data_dir, limit), room: Semaphore::new(AT_ONCE) }
    }

    /// Puts an upload that the job names where it belongs.
    pub(super) async fn fetch(
        &self,
        client: &Client,
        spec: &StartSpec,
        id: &str,
        target: Target,
    ) -> Result<(), Unready> {
        // The semaphore is never closed.
        let _room = self.room.acquire().await;
        let job = &spec.key.job_id;
        let source = Source { client: client.clone(), job: job.to_string(), id: id.to_owned() };
        // A single file lies among the worker's own until it is handed over.
        let user = spec.user.as_deref().filter(|_| matches!(target, Target::Directory(_))).cloned();
        self.unpack(&source, target, user).await.map_err(|failure| failure.unready(id))
    }

    async fn unpack(&self, source: &Source, target: Target, user: Option<JobUser>) -> Result<(), Failure> {
        let manifest = source.manifest().await?;
        let groups = groups(&manifest)?;
        let mut unpacker = Unpacker::new(manifest, target);
        let acting = user.clone();
        unpacker =
            blocking(move || acting_as(acting.as_ref(), || unpacker.begin()).map(|()| unpacker)).await?;
        let mut fetched = self.group(source, groups.first()).await?;
        for number in 0..groups.len() {
            let chunks = std::mem::take(&mut fetched);
            let acting = user.clone();
            let writing = blocking(move || {
                let mut each = chunks.iter();
                let write = || each.try_for_each(|(number, bytes)| unpacker.write(*number, bytes));
                acting_as(acting.as_ref(), write).map(|()| unpacker)
            });
            let (written, next) = tokio::join!(writing, self.group(source, groups.get(number + 1)));
            (unpacker, fetched) = (written?, next?);
        }
        blocking(move || acting_as(user.as_ref(), || unpacker.finish())).await
    }

    /// The chunks of a group, from what is here and from the scheduler.
    async fn group(&self, source: &Source, group: Option<&Group>) -> Result<Vec<(usize, Bytes)>, Failure> {
        let Some(group) = group else { return Ok(Vec::new()) };
        let (cache, wanted) = (self.cache.clone(), group.chunks.clone());
        let mut have: HashMap<Digest, Bytes> = blocking(move || {
            Ok(wanted.iter().filter_map(|(_, digest)| Some((*digest, cache.get(digest)?))).collect())
        })
        .await?;
        let missing: Vec<(usize, Digest)> =
            group.chunks.iter().filter(|(_, digest)| !have.contains_key(digest)).copied().collect();
        if !missing.is_empty() {
            let new = source.chunks(&missing).await?;
            let (cache, kept) = (self.cache.clone(), new.clone());
            blocking(move || {
                for (digest, bytes) in &kept {
                    cache.put(digest, bytes);
                }
                Ok(())
            })
            .await?;
            have.extend(new);
        }
        let found =
            |(number, digest): &(usize, Digest)| have.get(digest).map(|bytes| (*number, bytes.clone()));
        Ok(group.chunks.iter().filter_map(found).collect())
    }
}

/// Chunks that are fetched together.
#[derive(Debug, Default)]
struct Group {
    chunks: Vec<(usize, Digest)>,
    bytes: u64,
}

fn groups(manifest: &UploadManifest) -> Result<Vec<Group>, Failure> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, chunk) in manifest.chunks.iter().enumerate() {
        let digest = chunk.sha256.parse().map_err(Failure::Damaged)?;
        if groups.last().is_none_or(|group| group.bytes >= GROUP) {
            groups.push(Group::default());
        }
        if let Some(group) = groups.last_mut() {
            group.chunks.push((number, digest));
            group.bytes += u64::from(chunk.size);
        }
    }
    Ok(groups)
}

/// Where the chunks of one upload come from.
struct Source {
    client: Client,
    job: String,
    id: String,
}

impl Source {
    async fn manifest(&self) -> Result<UploadManifest, Failure> {
        let manifest = insist(|| async {
            let manifest = self.client.job_upload(&self.job, &self.id).await.map_err(Failure::Call)?;
            if manifest_id(&manifest).to_string() == self.id {
                return Ok(manifest);
            }
            Err(Failure::Damaged(UploadError::Frame { reason: "the manifest has another digest" }))
        })
        .await?;
        // The scheduler has checked it; but it is this machine that files are made on.
        let all = Limits { bytes: u64::MAX, entries: u64::MAX };
        check(&manifest, &all).map_err(Failure::Damaged)?;
        Ok(manifest)
    }

    async fn chunks(&self, wanted: &[(usize, Digest)]) -> Result<HashMap<Digest, Bytes>, Failure> {
        let request = ChunkRequest { chunks: wanted.iter().map(|(_, digest)| digest.to_string()).collect() };
        insist(|| async {
            let mut reader =
                self.client.job_chunks(&self.job, &self.id, &request).await.map_err(Failure::Call)?;
            let (mut frames, mut found) = (FrameReader::default(), HashMap::new());
            while let Some(piece) = reader.next().await.map_err(Failure::Call)? {
                frames.push(&piece);
                while let Some((digest, bytes)) = frames.next_chunk().map_err(Failure::Damaged)? {
                    found.insert(digest, bytes);
                }
            }
            if wanted.iter().all(|(_, digest)| found.contains_key(digest)) {
                return Ok(found);
            }
            Err(Failure::Damaged(UploadError::Frame { reason: "not all chunks came" }))
        })
        .await
    }
}

/// Asks again while it may help.
pub(super) async fn insist<T, F: Future<Output = Result<T, Failure>>>(
    ask: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut answered: Option<Instant> = None;
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
    loop {
        let failure = match ask().await {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        if !matches!(failure, Failure::Call(ClientError::Unreachable { .. })) {
            let since = *answered.get_or_insert_with(Instant::now);
            if !failure.is_transient() || since.elapsed() > PATIENCE {
                return Err(failure);
            }
        }
        tokio::time::sleep(backoff.fail()).await;
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    done: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let ended = tokio::task::spawn_blocking(done).await;
    ended.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(Failure::File)
}

/// Why something is not there.
#[derive(Debug)]
pub(super) enum Failure {
    Call(ClientError),
    Damaged(UploadError),
    /// What came is not what should have come.
    Wrong(&'static str),
    File(io::Error),
}

impl Failure {
    fn is_transient(&self) -> bool {
        match self {
            Self::Call(error) => error.is_transient(),
            // A body that broke off comes whole the next time.
            Self::Damaged(_) | Self::Wrong(_) => true,
            Self::File(_) => false,
        }
    }

    fn unready(self, id: &str) -> Unready {
        let short: String = id.chars().take(12).collect();
        let (message, cost) = match self {
            Self::Call(error) => {
                let cost = if error.is_transient() { Cost::Free } else { Cost::Attempt };
                (format!("the upload {short} cannot be fetched: {error}"), cost)
            }
            Self::Damaged(error) => (format!("the upload {short} is damaged: {error}"), Cost::Attempt),
            Self::Wrong(why) => (format!("the upload {short} is damaged: {why}"), Cost::Attempt),
            Self::File(error) => {
                (format!("the upload {short} cannot be unpacked here: {error}"), Cost::Attempt)
            }
        };
        Unready { message, cost }
    }
}

/// Where the standard input of an attempt lies until its process is started.
pub(super) fn stdin_target(spec: &StartSpec) -> Result<Target, Unready> {
    let path = spec.stdin.as_ref().map(PathBuf::from);
    path.map(Target::File).ok_or_else(|| Unready {
        message: "this worker has no place for the standard input of the job".to_owned(),
        cost: Cost::Attempt,
    })
}

/// Lets any user inside a container use the copy.
pub(super) async fn open(work: PathBuf) -> Result<(), Unready> {
    let opened = blocking(move || open_to_all(&work)).await;
    opened.map_err(|failure| failure.unready("in the container"))
}

/// The empty directory that an upload is unpacked into.
pub(super) fn directory_target(room: &AttemptRoom, user: Option<&JobUser>) -> Result<Target, Unready> {
    acting_as(user, || room.make_work()).map(Target::Directory).map_err(|error| Unready {
        message: format!("the directory {} cannot be made: {error}", room.work().display()),
        cost: Cost::Attempt,
    })
}
