//! Sends what the scheduler does not have: says what there is, sends the chunks that are missing, says that it is all.
//!
//! Guarantees: an upload is named only after every chunk is there; files that change meanwhile are read again, and in the end
//! refused by name; a scheduler that is away for a moment is waited for.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use muster_client::{Client, ClientError};
use muster_protocol::{Upload, UploadLimits, UploadManifest};
use muster_upload::{FRAME_HEAD, LONGEST_CHUNK, Pieces, encode_frame};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::pack::{PackError, Package};
use super::walk;
use crate::output::quantities::bytes;
use crate::output::{note, status};

/// Bytes of chunks that travel in one request.
const BATCH: usize = 4 * 1024 * 1024;
/// Requests that are under way at the same time.
const AT_ONCE: usize = 3;
/// How often files that change are read again.
const TRIES: usize = 3;
/// How often a request is repeated that was not answered, and how long is waited in between at most.
const REPEATS: u32 = 12;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(200);

/// Sends a directory and returns the id of the upload.
pub(crate) async fn directory(client: &Client, root: &Path) -> anyhow::Result<String> {
    let limits = limits(client).await?;
    let root = root.to_owned();
    send(client, Words::Said, move || walk::walk(&root, &limits)).await
}

/// Sends one file as a standard input.
pub(crate) async fn file(client: &Client, path: &Path) -> anyhow::Result<String> {
    let limits = limits(client).await?;
    super::stdin::of_path(client, path, &limits).await
}

pub(super) async fn limits(client: &Client) -> anyhow::Result<UploadLimits> {
    client.upload_limits().await.map_err(|error| match error.status() {
        Some(status) if status.as_u16() == 404 => {
            anyhow!("the scheduler at {} is of a version that takes no uploads", client.url())
        }
        _ => error.into(),
    })
}

/// Whether people are told what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Said,
    /// While it takes long only.
    Unsaid,
}

/// Sends what `find` finds; it is asked again when files have changed.
pub(super) async fn send(
    client: &Client,
    words: Words,
    find: impl Fn() -> anyhow::Result<Package> + Send + Sync + 'static,
) -> anyhow::Result<String> {
    let find = Arc::new(find);
    let mut tries = 0;
    loop {
        tries += 1;
        let find = Arc::clone(&find);
        let package = tokio::task::spawn_blocking(move || find()).await??;
        match attempt(client, words, package).await {
            Ok(id) => return Ok(id),
            Err(Failure::Pack(error @ PackError::Changed { .. })) if tries < TRIES => {
                note(&format!("{error}; reading again"));
            }
            Err(Failure::Pack(error @ PackError::Changed { .. })) => {
                return Err(anyhow!(
                    "{error}, {TRIES} times; wait until it is written, or name it in .musterignore"
                ));
            }
            // Somebody removed it between two requests.
            Err(Failure::Call(error)) if tries < TRIES && is_gone(&error) => {}
            Err(Failure::Pack(error)) => return Err(error.into()),
            Err(Failure::Call(error)) => return Err(error.into()),
            Err(Failure::Other(error)) => return Err(error),
        }
    }
}

enum Failure {
    Pack(PackError),
    Call(ClientError),
    Other(anyhow::Error),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Call(error)
    }
}

fn is_gone(error: &ClientError) -> bool {
    error.status().is_some_and(|status| status.as_u16() == 404)
}

async fn attempt(client: &Client, words: Words, package: Package) -> Result<String, Failure> {
    let meter = Meter::start(package.bytes());
    let package = Arc::new(package);
    let (reader, read) = (Arc::clone(&package), Arc::clone(&meter.read));
    let manifest = tokio::task::spawn_blocking(move || reader.manifest(&read)).await;
    let manifest = manifest.map_err(|error| Failure::Other(error.into()))?.map_err(Failure::Pack)?;
    let manifest = Arc::new(manifest);
    let mut upload = insist(|| client.declare_upload(&manifest)).await?;
    meter.missing.store(missing_bytes(&manifest, &upload), Ordering::Relaxed);
    while !upload.complete {
        send_chunks(client, &package, &manifest, &upload, &meter.sent).await?;
        upload = insist(|| client.complete_upload(&upload.id)).await?;
    }
    if words == Words::Said {
        meter.tell(&upload);
    }
    Ok(upload.id)
}

fn missing_bytes(manifest: &UploadManifest, upload: &Upload) -> u64 {
    let chunks = upload.missing.iter().filter_map(|number| manifest.chunks.get(*number as usize));
    chunks.map(|chunk| u64::from(chunk.size)).sum()
}

/// Reads the missing chunks and sends them, a few requests at a time.
async fn send_chunks(
    client: &Client,
    package: &Arc<Package>,
    manifest: &Arc<UploadManifest>,
    upload: &Upload,
    sent: &Arc<AtomicU64>,
) -> Result<(), Failure> {
    let (batches, mut ready) = mpsc::channel::<Bytes>(1);
    let (package, manifest, missing) = (Arc::clone(package), Arc::clone(manifest), upload.missing.clone());
    let reading = tokio::task::spawn_blocking(move || read_batches(&package, &manifest, &missing, &batches));
    let mut sending: JoinSet<Result<u64, ClientError>> = JoinSet::new();
    let mut failed = None;
    while let Some(batch) = ready.recv().await {
        let (client, id) = (client.clone(), upload.id.clone());
        sending.spawn(async move {
            insist(|| client.send_chunks(&id, batch.clone())).await.map(|()| batch.len() as u64)
        });
        while sending.len() >= AT_ONCE && failed.is_none() {
            failed = account(sending.join_next().await, sent).err();
        }
        if failed.is_some() {
            break;
        }
    }
    // Without a receiver the reader ends.
    drop(ready);
    while let Some(ended) = sending.join_next().await {
        failed = failed.or(account(Some(ended), sent).err());
    }
    let read = reading.await.map_err(|error| Failure::Other(error.into()))?;
    match failed {
        Some(failure) => Err(failure),
        None => read.map_err(Failure::Pack),
    }
}

fn account(
    ended: Option<Result<Result<u64, ClientError>, tokio::task::JoinError>>,
    sent: &AtomicU64,
) -> Result<(), Failure> {
    match ended {
        Some(Ok(Ok(bytes))) => {
            sent.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        }
        Some(Ok(Err(error))) => Err(Failure::Call(error)),
        Some(Err(error)) => Err(Failure::Other(error.into())),
        None => Ok(()),
    }
}

fn read_batches(
    package: &Package,
    manifest: &UploadManifest,
    missing: &[u32],
    batches: &mpsc::Sender<Bytes>,
) -> Result<(), PackError> {
    let pieces = Pieces::of(manifest);
    let mut batch = Vec::new();
    for number in missing {
        let (digest, chunk) = package.chunk(manifest, &pieces, *number as usize)?;
        if batch.is_empty() {
            batch.reserve(BATCH + LONGEST_CHUNK + FRAME_HEAD);
        }
        encode_frame(&digest, &chunk, &mut batch);
        if batch.len() >= BATCH && batches.blocking_send(std::mem::take(&mut batch).into()).is_err() {
            return Ok(());
        }
    }
    if !batch.is_empty() {
        // Nobody listens any more when something else has failed.
        let _ = batches.blocking_send(batch.into());
    }
    Ok(())
}

/// Repeats a request that was not answered, or that is to be repeated. What was sent twice counts once.
async fn insist<T, F: Future<Output = Result<T, ClientError>>>(
    ask: impl Fn() -> F,
) -> Result<T, ClientError> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..REPEATS {
        match ask().await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            answered => return answered,
        }
    }
    ask().await
}

/// How far it is, at the bottom of the terminal.
struct Meter {
    total: u64,
    read: Arc<AtomicU64>,
    missing: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    shown: Option<tokio::task::JoinHandle<()>>,
}

impl Meter {
    fn start(total: u64) -> Self {
        let (read, missing, sent) = (Arc::default(), Arc::new(AtomicU64::new(u64::MAX)), Arc::default());
        let mut meter = Self { total, read, missing, sent, shown: None };
        if status::is_possible() {
            let (read, missing, sent) =
                (Arc::clone(&meter.read), Arc::clone(&meter.missing), Arc::clone(&meter.sent));
            meter.shown = Some(tokio::spawn(async move {
                loop {
                    tokio::time::sleep(TICK).await;
                    let (read, sent) = (read.load(Ordering::Relaxed), sent.load(Ordering::Relaxed));
                    status::show(&match missing.load(Ordering::Relaxed) {
                        u64::MAX => format!("reading {} of {}", bytes(read), bytes(total)),
                        missing => format!("sending {} of {}", bytes(sent), bytes(missing)),
                    });
                }
            }));
        }
        meter
    }

    /// Says in the end what was sent and what was there.
    fn tell(&self, upload: &Upload) {
        let missing = self.missing.load(Ordering::Relaxed);
        let files = match upload.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let (sent, total) = (bytes(missing), bytes(self.total));
        match missing {
            0 => note(&format!("{files}, {total}: all of it was sent before")),
            missing if missing >= self.total => note(&format!("{files}, {total} sent")),
            _ => note(&format!("{files}, {total}: {sent} sent, the rest was there")),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.abort();
            status::clear();
        }
    }
}
