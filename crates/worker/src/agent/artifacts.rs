//! Artifacts that attempts leave: kept before the end is reported, so that whoever waits for the end finds them.
//!
//! Guarantees: an end is reported whatever becomes of the artifacts, after a bounded time; a file that could not be kept
//! is named with the reason; what is in memory at a time is bounded.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use muster_client::{BoxError, Client, ClientError, Pieces, Proof};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::agent_loop::Agent;
use super::artifact_scan::{self, Found, Look, Scan, WHOLE};
use super::held::Stage;
use super::start::{RETRY_FIRST, RETRY_MOST};
use crate::backoff::Backoff;
use crate::keeper::{End, Files, Key};

/// Attempts whose artifacts are sent at the same time, and files of each.
const ATTEMPTS: usize = 4;
const FILES: usize = 4;
/// Bytes that are read at a time, and how many such pieces wait to be sent.
const PIECE: usize = 256 * 1024;
const AHEAD: usize = 4;
/// Names of missing files in the message of a report.
const NAMED: usize = 3;

/// The artifacts of an attempt are kept, or it is known why not.
#[derive(Debug)]
pub(super) struct Kept {
    key: Key,
    /// Why some are missing, in words.
    complaint: Option<String>,
}

/// All that are on their way.
#[derive(Debug)]
pub(super) struct Artifacts {
    client: Client,
    patience: Duration,
    room: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<Kept>,
    receiver: mpsc::UnboundedReceiver<Kept>,
}

impl Artifacts {
    /// `patience`: how long a scheduler that answers, but does not take a file, is asked again.
    pub(super) fn new(client: Client, patience: Duration) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { client, patience, room: Arc::new(Semaphore::new(ATTEMPTS)), sender, receiver }
    }

    /// The next attempt that is done.
    pub(super) async fn next(&mut self) -> Option<Kept> {
        self.receiver.recv().await
    }

    fn keep(&self, key: Key, directory: PathBuf) {
        let (sender, room) = (self.sender.clone(), Arc::clone(&self.room));
        let (client, patience) = (self.client.clone(), self.patience);
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _room = room.acquire().await;
            let proof = Proof { lease: Some(key.lease), token: None };
            let sending = Sending { client, proof, key, patience, given_up: AtomicBool::new(false) };
            let complaint = sending.all(&directory).await;
            remove(&directory).await;
            let _ = sender.send(Kept { key: sending.key, complaint });
        });
    }
}

/// Removes what an attempt left that nobody wants.
pub(super) fn discard(files: &Files) {
    if !files.artifacts.is_empty() {
        let directory = PathBuf::from(&files.artifacts);
        tokio::spawn(async move { remove(&directory).await });
    }
}

/// What cannot be removed is removed with the other leftovers.
async fn remove(directory: &Path) {
    if tokio::fs::remove_dir_all(directory).await.is_err() {
        let _ = tokio::fs::remove_file(directory).await;
    }
}

/// The artifacts of one attempt on their way.
struct Sending {
    client: Client,
    proof: Proof,
    key: Key,
    patience: Duration,
    /// Nobody takes anything: the rest is not tried.
    given_up: AtomicBool,
}

impl Sending {
    /// Keeps all that can be kept, and says in words what could not.
    async fn all(&self, directory: &Path) -> Option<String> {
        let root = directory.to_owned();
        let scanned = tokio::task::spawn_blocking(move || artifact_scan::scan(&root)).await;
        let Scan { files, mut refused, beyond } = scanned.unwrap_or_default();
        let total = files.len() + refused.len() + beyond;
        let sent = futures::stream::iter(files).map(|file| self.keep(file)).buffer_unordered(FILES);
        let failed: Vec<(String, String)> = sent.filter_map(|failed| async move { failed }).collect().await;
        refused.extend(failed);
        if beyond > 0 {
            let most = artifact_scan::MOST_FILES;
            let why = format!("{beyond} more files are not kept: an attempt has at most {most} artifacts");
            refused.push((WHOLE.to_owned(), why));
        }
        if refused.is_empty() {
            return None;
        }
        for (name, why) in refused.iter().take(artifact_scan::MOST_FILES) {
            if self.given_up.load(Ordering::Relaxed) {
                break;
            }
            self.tell(name, why).await;
        }
        let missing = refused.len() + beyond.saturating_sub(1);
        let named: Vec<String> =
            refused.iter().take(NAMED).map(|(name, why)| format!("{name}: {why}")).collect();
        let more = if refused.len() > NAMED { ", ..." } else { "" };
        Some(format!("{missing} of {total} artifacts were not kept: {}{more}", named.join(", ")))
    }

    /// Keeps one file, or says why it could not be.
    async fn keep(&self, file: Found) -> Option<(String, String)> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
        let mut answered: Option<Instant> = None;
        let mut changes = 0;
        loop {
            if self.given_up.load(Ordering::Relaxed) {
                return Some((file.name, "the artifacts before it could not be kept either".to_owned()));
            }
            match self.send(&file).await {
                Ok(()) => return None,
                Err(Failed::File(why)) => return Some((file.name, why)),
                // Once more: it may have been written to in this very moment.
                Err(Failed::Changed) if changes == 0 => changes += 1,
                Err(Failed::Changed) => return Some((file.name, "it changed while it was read".to_owned())),
                Err(Failed::Call(error)) => {
                    // A scheduler that does not answer at all could not take the report either, so it is waited for.
                    if !matches!(error, ClientError::Unreachable { .. }) {
                        let since = *answered.get_or_insert_with(Instant::now);
                        if !error.is_transient() {
                            return Some((file.name, error.to_string()));
                        }
                        if since.elapsed() > self.patience {
                            self.given_up.store(true, Ordering::Relaxed);
                            return Some((file.name, error.to_string()));
                        }
                    }
                    tokio::time::sleep(backoff.fail()).await;
                }
            }
        }
    }

    async fn send(&self, file: &Found) -> Result<(), Failed> {
        let path = file.path.clone();
        let opened = tokio::task::spawn_blocking(move || artifact_scan::open(&path)).await;
        let opened = opened.map_err(|error| Failed::File(error.to_string()))?;
        let (opened, look) = opened.map_err(|error| Failed::File(format!("it cannot be read: {error}")))?;
        let (pieces, read) = read(opened, look);
        let call = self.client.put_artifact(&self.key.job_id, &self.proof, &file.name, (look.size, pieces));
        let answer = call.await;
        // The reader is done, or its channel is closed and it ends.
        match (answer, read.await) {
            (_, Ok(Read::Changed)) => Err(Failed::Changed),
            (_, Ok(Read::Broken(why))) => Err(Failed::File(why)),
            (Ok(kept), Ok(Read::Whole(sha256))) if kept.sha256 == sha256 && kept.size == look.size => Ok(()),
            (Ok(_), _) => Err(Failed::File("what arrived is not what was sent".to_owned())),
            (Err(error), _) => Err(Failed::Call(error)),
        }
    }

    /// What cannot be told now is in the message of the report.
    async fn tell(&self, name: &str, why: &str) {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
        let since = Instant::now();
        while let Err(error) = self.client.miss_artifact(&self.key.job_id, &self.proof, name, why).await {
            if !error.is_transient() || since.elapsed() > self.patience {
                tracing::warn!(job_id = %self.key.job_id, name, %error, "a missing artifact could not be told");
                return;
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }
}

/// Why a file was not kept this time.
#[derive(Debug)]
enum Failed {
    /// The file itself cannot be kept.
    File(String),
    Changed,
    Call(ClientError),
}

/// What became of reading a file.
#[derive(Debug)]
enum Read {
    /// Its SHA-256.
    Whole(String),
    Changed,
    Broken(String),
    /// Nobody wanted the rest.
    Left,
}

/// Reads a file away from the loop, a few pieces ahead of who sends them.
fn read(mut file: std::fs::File, look: Look) -> (Pieces, oneshot::Receiver<Read>) {
    let (pieces, taken) = mpsc::channel::<Result<Bytes, BoxError>>(AHEAD);
    let (done, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut hash = Sha256::new();
        let mut left = look.size;
        let outcome = loop {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            let mut piece = vec![0; most];
            match file.read(&mut piece) {
                Ok(0) => break finish(&file, look, left, hash),
                Ok(length) => {
                    piece.truncate(length);
                    hash.update(&piece);
                    left -= length as u64;
                    if pieces.blocking_send(Ok(piece.into())).is_err() {
                        break Read::Left;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => break Read::Broken(format!("it cannot be read: {error}")),
            }
        };
        if !matches!(outcome, Read::Whole(_)) {
            let _ = pieces.blocking_send(Err("the file could not be read as it was".into()));
        }
        let _ = done.send(outcome);
    });
    let stream =
        futures::stream::unfold(taken, |mut taken| async move { Some((taken.recv().await?, taken)) });
    (stream.boxed(), told)
}

fn finish(file: &std::fs::File, look: Look, left: u64, hash: Sha256) -> Read {
    let after = file.metadata().map(|found| Look::at(&found));
    if left > 0 || after.is_ok_and(|after| after != look) {
        return Read::Changed;
    }
    Read::Whole(hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

impl Agent {
    /// Keeps the artifacts of an ended attempt before anything is said about its end. Returns the end when there are
    /// none.
    pub(super) fn keep_artifacts_first(&mut self, key: &Key, end: End) -> Option<End> {
        if end.files.artifacts.is_empty() {
            return Some(end);
        }
        let directory = PathBuf::from(&end.files.artifacts);
        self.held.advance(key, Stage::Keeping(Box::new(end)));
        self.artifacts.keep(key.clone(), directory);
        None
    }

    pub(super) fn on_kept(&mut self, kept: Kept) {
        let Kept { key, complaint } = kept;
        let Some(held) = self.held.get_mut(&key) else { return };
        let demo = held.note.demo;
        let Stage::Keeping(end) = std::mem::replace(&mut held.stage, Stage::Reporting) else { return };
        let mut end = *end;
        end.files.artifacts.clear();
        if let Some(complaint) = complaint {
            tracing::warn!(job_id = %key.job_id, complaint, "artifacts not kept");
            end.complaint = Some(match end.complaint {
                Some(before) => format!("{before}; {complaint}"),
                None => complaint,
            });
        }
        if let Some(end) = self.save_first(&key, demo, end) {
            self.conclude(&key, end);
        }
    }
}
