//! Artifacts that attempts leave: kept before the end is reported, so that whoever waits for the end finds them.
//!
//! Guarantees: an end is reported whatever becomes of the artifacts, after a bounded time; a file that could not be kept
//! is named with the reason; what is in memory at a time is bounded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use muster_client::{Client, ClientError, Proof, Trust};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::agent_loop::Agent;
use super::artifact_direct::{Direct, Holder};
use super::artifact_pieces::{Digests, Read, read};
use super::artifact_scan::{self, Found, Places, Scan, WHOLE};
use super::held::Stage;
use super::start::{RETRY_FIRST, RETRY_MOST};
use crate::backoff::Backoff;
use crate::keeper::{End, Files, Key, Outcome};
use crate::launch::WantedFiles;

/// Attempts whose artifacts are sent at the same time, and files of each.
const ATTEMPTS: usize = 4;
const FILES: usize = 4;
/// Files up to this size are handed in many at a time.
const SMALL: u64 = 1024 * 1024;
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
    direct: Direct,
    room: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<Kept>,
    receiver: mpsc::UnboundedReceiver<Kept>,
}

impl Artifacts {
    /// `patience`: how long a scheduler that answers, but does not take a file, is asked again.
    /// `trust`: the authorities that vouch for the blob store.
    pub(super) fn new(client: Client, patience: Duration, trust: Trust) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let direct = Direct::new(trust);
        Self { client, patience, direct, room: Arc::new(Semaphore::new(ATTEMPTS)), sender, receiver }
    }

    /// The next attempt that is done.
    pub(super) async fn next(&mut self) -> Option<Kept> {
        self.receiver.recv().await
    }

    fn keep(&self, key: Key, places: Places) {
        let (sender, room) = (self.sender.clone(), Arc::clone(&self.room));
        let (client, patience, direct) = (self.client.clone(), self.patience, self.direct.clone());
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _room = room.acquire().await;
            let proof = Proof { lease: Some(key.lease), token: None };
            let sending = Sending { client, direct, proof, key, patience, given_up: AtomicBool::new(false) };
            let complaint = sending.all(places.clone()).await;
            if !places.artifacts.as_os_str().is_empty() {
                remove(&places.artifacts).await;
            }
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
    direct: Direct,
    proof: Proof,
    key: Key,
    patience: Duration,
    /// Nobody takes anything: the rest is not tried.
    given_up: AtomicBool,
}

impl Sending {
    /// Keeps all that can be kept, and says in words what could not.
    async fn all(&self, places: Places) -> Option<String> {
        let scanned = tokio::task::spawn_blocking(move || artifact_scan::scan_all(&places)).await;
        let Scan { files, mut refused, beyond, .. } = scanned.unwrap_or_default();
        let total = files.len() + refused.len() + beyond;
        let (small, mut files): (Vec<Found>, Vec<Found>) =
            files.into_iter().partition(|file| file.size <= SMALL);
        files.extend(self.direct.send_many(self.holder(), small).await);
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

    fn holder(&self) -> Holder<'_> {
        Holder { client: &self.client, job_id: &self.key.job_id, proof: &self.proof }
    }

    /// Keeps one file, or says why it could not be.
    async fn keep(&self, file: Found) -> Option<(String, String)> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
        let mut answered: Option<Instant> = None;
        let (mut changes, mut known) = (0, None);
        loop {
            if self.given_up.load(Ordering::Relaxed) {
                return Some((file.name, "the artifacts before it could not be kept either".to_owned()));
            }
            match self.send(&file, &mut known).await {
                Ok(()) => return None,
                Err(Failed::File(why)) => return Some((file.name, why)),
                // Once more: it may have been written to in this very moment.
                Err(Failed::Changed) if changes == 0 => changes += 1,
                Err(Failed::Changed) => return Some((file.name, "it changed while it was read".to_owned())),
                Err(Failed::Store(why)) => {
                    if answered.get_or_insert_with(Instant::now).elapsed() > self.patience {
                        self.given_up.store(true, Ordering::Relaxed);
                        return Some((file.name, why));
                    }
                    tokio::time::sleep(backoff.fail()).await;
                }
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

    /// Straight to the blob store where that works, else through the scheduler.
    async fn send(&self, file: &Found, known: &mut Option<Digests>) -> Result<(), Failed> {
        match self.direct.ready(self.holder()).await {
            Some(blobs) => self.direct.send(self.holder(), blobs, file, known).await,
            None => self.send_through(file).await,
        }
    }

    async fn send_through(&self, file: &Found) -> Result<(), Failed> {
        let found = file.clone();
        let opened = tokio::task::spawn_blocking(move || artifact_scan::open(&found)).await;
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
pub(super) enum Failed {
    /// The file itself cannot be kept.
    File(String),
    Changed,
    /// The blob store did not take it this time.
    Store(String),
    Call(ClientError),
}

impl Agent {
    /// Keeps the artifacts of an ended attempt before anything is said about its end. Returns the end when there are
    /// none.
    pub(super) fn keep_artifacts_first(&mut self, key: &Key, end: End) -> Option<End> {
        let wanted = self.wanted_files(key, &end.outcome);
        if end.files.artifacts.is_empty() && wanted.is_none() {
            return Some(end);
        }
        let user = self.held.get(key).and_then(|held| held.note.user.clone()).map(Arc::new);
        let places = Places { artifacts: PathBuf::from(&end.files.artifacts), wanted, user };
        self.held.advance(key, Stage::Keeping(Box::new(end)));
        self.artifacts.keep(key.clone(), places);
        None
    }

    /// Which files of the working directory the job wants to be kept; none of one that never ran.
    fn wanted_files(&self, key: &Key, outcome: &Outcome) -> Option<WantedFiles> {
        if matches!(outcome, Outcome::NotStarted(_) | Outcome::Withdrawn) {
            return None;
        }
        let note = &self.held.get(key)?.note;
        let mut wanted = note.wanted.clone()?;
        if note.room {
            wanted.directory = self.attempts.room(key)?.work().join(&wanted.directory);
        }
        Some(wanted)
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
