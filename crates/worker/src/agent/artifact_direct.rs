//! Artifacts on their way straight to the blob store, by links of the scheduler.
//!
//! Guarantees: what has arrived is not sent again, also after a restart of the agent or the scheduler; the store takes only
//! content with the SHA-256 that was read beforehand; a store that this machine does not reach is left alone for a while,
//! and files go through the scheduler.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use muster_client::{BlobClient, BlobFailure, Client, Proof, Trust};
use muster_protocol::{
    ArtifactCompletion, ArtifactOffer, ArtifactPlace, BlobLink, OfferedArtifact, OfferedPart, SentArtifact,
    SentArtifactPart,
};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use super::artifact_pieces::{Digests, Read, digests, range};
use super::artifact_scan::{self, Found};
use super::artifacts::Failed;
use crate::backoff::Backoff;

/// How long what the scheduler said, and that a store is out of reach, is taken for true.
const KNOWN: Duration = Duration::from_secs(60);
const AWAY: Duration = Duration::from_secs(20);
/// What is larger is sent in parts of this size, or of more where these were too many.
const PART: u64 = 8 * 1024 * 1024;
const MOST_PARTS: u64 = 10_000;
/// Parts and files that are on their way at the same time, all attempts together, and parts of one file.
const SENDERS: usize = 8;
const PARTS: usize = 4;
/// Links that are asked for at a time; files that are handed in together.
const LINKS: usize = 64;
const BATCH: usize = 100;
/// How often something is sent again before the file is begun anew.
const TRIES: u32 = 4;

/// What is known of the way to the store; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Direct(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    trust: Trust,
    blobs: OnceCell<Option<BlobClient>>,
    senders: Semaphore,
    known: Mutex<Option<(bool, Instant)>>,
}

/// The attempt whose files are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) client: &'a Client,
    pub(super) job_id: &'a str,
    pub(super) proof: &'a Proof,
}

/// Bytes of a part of a file of this size; `None` of what is sent whole.
fn part_size(size: u64) -> Option<u64> {
    (size > PART).then(|| PART.max(size.div_ceil(MOST_PARTS).next_multiple_of(1024 * 1024)))
}

impl Direct {
    pub(super) fn new(trust: Trust) -> Self {
        let senders = Semaphore::new(SENDERS);
        Self(Arc::new(Shared { trust, blobs: OnceCell::new(), senders, known: Mutex::default() }))
    }

    /// The connections to the store, if files can be sent there by themselves.
    pub(super) async fn ready(&self, holder: Holder<'_>) -> Option<&BlobClient> {
        let now = Instant::now();
        let known = *self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_direct = match known {
            Some((known, until)) if now < until => known,
            _ => {
                let nothing = ArtifactOffer::default();
                match holder.client.offer_artifacts(holder.job_id, holder.proof, &nothing).await {
                    Ok(places) => self.note(places.direct, KNOWN),
                    // One of an older version knows nothing of it.
                    Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => self.note(false, AWAY),
                    Err(_) => false,
                }
            }
        };
        if !is_direct {
            return None;
        }
        let open = || async {
            BlobClient::new(&self.0.trust)
                .inspect_err(|error| tracing::warn!(%error, "artifacts go through the scheduler"))
                .ok()
        };
        self.0.blobs.get_or_init(open).await.as_ref()
    }

    fn note(&self, is_direct: bool, life: Duration) -> bool {
        let known = Some((is_direct, Instant::now() + life));
        *self.0.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        is_direct
    }

    /// What a failure of the store means for the file.
    fn failed(&self, failure: BlobFailure) -> Failed {
        match failure {
            // It does not have the digest any more that was read beforehand.
            BlobFailure::Refused { status: StatusCode::BAD_REQUEST, .. } => Failed::Changed,
            other => {
                tracing::warn!(failure = %other, "artifacts go through the scheduler for a while");
                self.note(false, AWAY);
                Failed::Store(other.to_string())
            }
        }
    }

    /// Sends small files, many with one question. Returns those that did not get there, to be tried one by one.
    pub(super) async fn send_many(&self, holder: Holder<'_>, files: Vec<Found>) -> Vec<Found> {
        let mut rest = Vec::new();
        let mut left = files.into_iter();
        loop {
            let batch: Vec<Found> = left.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return rest;
            }
            match self.ready(holder).await {
                Some(blobs) => rest.extend(self.send_batch(holder, blobs, batch).await),
                None => rest.extend(batch),
            }
        }
    }

    async fn send_batch(&self, holder: Holder<'_>, blobs: &BlobClient, batch: Vec<Found>) -> Vec<Found> {
        let (mut rest, mut read) = (Vec::new(), Vec::new());
        for file in batch {
            match digests(file.clone(), |_| None).await {
                Ok(digests) => read.push((file, digests)),
                Err(_) => rest.push(file),
            }
        }
        let files = read.iter().map(|(file, digests)| offered(file, digests)).collect();
        let places =
            holder.client.offer_artifacts(holder.job_id, holder.proof, &ArtifactOffer { files }).await;
        let Ok(places) = places else {
            rest.extend(read.into_iter().map(|(file, _)| file));
            return rest;
        };
        if places.files.len() != read.len() {
            rest.extend(read.into_iter().map(|(file, _)| file));
            return rest;
        }
        let each = read.into_iter().zip(places.files).map(|((file, digests), place)| {
            let sending = async move {
                match self.send_small(blobs, &file, &digests, place).await {
                    Ok(is_kept) => Ok((file, digests, is_kept)),
                    Err(_) => Err(file),
                }
            };
            sending.boxed()
        });
        let each: Vec<BoxFuture<'_, _>> = each.collect();
        let mut arrived = Vec::new();
        let mut each = futures::stream::iter(each).buffer_unordered(SENDERS);
        while let Some(outcome) = each.next().await {
            match outcome {
                Ok((_, _, true)) => {}
                Ok((file, digests, false)) => arrived.push((file, digests)),
                Err(file) => rest.push(file),
            }
        }
        rest.extend(self.complete_many(holder, arrived).await);
        rest
    }

    /// Whether the file was kept already; otherwise it has arrived now.
    async fn send_small(
        &self,
        blobs: &BlobClient,
        file: &Found,
        digests: &Digests,
        place: ArtifactPlace,
    ) -> Result<bool, Failed> {
        if place.kept {
            return Ok(true);
        }
        let link = place.put.ok_or_else(|| Failed::Store("it gave no link".to_owned()))?;
        let opened = open(file, digests).await?;
        self.put(blobs, &link, (&opened, 0, digests.look.size)).await.map(|_| false)
    }

    async fn complete_many(&self, holder: Holder<'_>, arrived: Vec<(Found, Digests)>) -> Vec<Found> {
        if arrived.is_empty() {
            return Vec::new();
        }
        let files = arrived.iter().map(|(file, digests)| sent(file, digests)).collect();
        let said = holder
            .client
            .complete_artifacts(holder.job_id, holder.proof, &ArtifactCompletion { files })
            .await;
        let outcomes = said.map(|said| said.files).unwrap_or_default();
        let good = |at: usize| outcomes.get(at).is_some_and(|outcome| outcome.refused.is_none());
        let each = arrived.into_iter().enumerate();
        each.filter(|(at, _)| !good(*at)).map(|(_, (file, _))| file).collect()
    }

    /// Sends one file. `read` holds its digests from one try to the next.
    pub(super) async fn send(
        &self,
        holder: Holder<'_>,
        blobs: &BlobClient,
        file: &Found,
        read: &mut Option<Digests>,
    ) -> Result<(), Failed> {
        let known = match read.take() {
            Some(known) if open(file, &known).await.is_ok() => known,
            _ => digests(file.clone(), part_size).await.map_err(unread)?,
        };
        let digests = &*read.insert(known);
        let files = vec![offered(file, digests)];
        let places =
            holder.client.offer_artifacts(holder.job_id, holder.proof, &ArtifactOffer { files }).await;
        let mut places = places.map_err(Failed::Call)?;
        let Some(mut place) = places.files.pop().filter(|_| places.direct) else {
            self.note(false, KNOWN);
            return Err(Failed::Store("the scheduler gives no places in the blob store any more".to_owned()));
        };
        if let Some(why) = place.refused.take() {
            return Err(Failed::File(why));
        }
        if place.kept {
            return Ok(());
        }
        let mut whole = sent(file, digests);
        let opened = open(file, digests).await?;
        if let Some(link) = &place.put {
            self.put(blobs, link, (&opened, 0, digests.look.size)).await?;
        } else {
            whole.upload.clone_from(&place.upload);
            whole.parts = self.send_parts(holder, blobs, (file, &opened, digests), place).await?;
        }
        let completion = ArtifactCompletion { files: vec![whole] };
        let said = holder.client.complete_artifacts(holder.job_id, holder.proof, &completion).await;
        match said.map_err(Failed::Call)?.files.pop() {
            Some(outcome) => match outcome.refused {
                None => Ok(()),
                Some(why) if outcome.again => Err(Failed::Store(why)),
                Some(why) => Err(Failed::File(why)),
            },
            None => Err(Failed::Store("the scheduler did not say what became of it".to_owned())),
        }
    }

    /// Sends the parts that have not arrived yet.
    async fn send_parts(
        &self,
        holder: Holder<'_>,
        blobs: &BlobClient,
        (file, opened, digests): (&Found, &Arc<File>, &Digests),
        place: ArtifactPlace,
    ) -> Result<Vec<SentArtifactPart>, Failed> {
        let part = digests.part_size.unwrap_or(PART);
        let mut etags: Vec<Option<String>> = vec![None; digests.parts.len()];
        for there in place.there {
            if let Some(etag) = etags.get_mut(usize::from(there.number).wrapping_sub(1)) {
                *etag = Some(there.etag);
            }
        }
        let missing: Vec<usize> = (0..etags.len()).filter(|at| etags[*at].is_none()).collect();
        for group in missing.chunks(LINKS) {
            let number = |at: usize| u16::try_from(at + 1).unwrap_or(u16::MAX);
            let parts = group
                .iter()
                .map(|at| OfferedPart { number: number(*at), sha256: digests.parts[*at].clone() });
            let wanted = OfferedArtifact {
                upload: place.upload.clone(),
                parts: parts.collect(),
                ..offered(file, digests)
            };
            let offer = ArtifactOffer { files: vec![wanted] };
            let answer = holder.client.offer_artifacts(holder.job_id, holder.proof, &offer).await;
            let links =
                answer.map_err(Failed::Call)?.files.pop().map(|place| place.parts).unwrap_or_default();
            let each = group.iter().copied().zip(links).map(|(at, link)| {
                let sending = async move {
                    let from = at as u64 * part;
                    let length = part.min(digests.look.size - from);
                    self.put(blobs, &link, (opened, from, length)).await.map(|etag| (at, etag))
                };
                sending.boxed()
            });
            let each: Vec<BoxFuture<'_, _>> = each.collect();
            let mut each = futures::stream::iter(each).buffer_unordered(PARTS);
            while let Some(outcome) = each.next().await {
                let (at, etag) = outcome?;
                etags[at] = Some(etag);
            }
        }
        let all = etags.into_iter().zip(&digests.parts);
        let all = all.map(|(etag, sha256)| Some(SentArtifactPart { etag: etag?, sha256: sha256.clone() }));
        all.collect::<Option<_>>().ok_or_else(|| Failed::Store("not all parts have a link".to_owned()))
    }

    /// Sends bytes to where a link leads, again where that can help. Returns the `ETag`.
    async fn put(
        &self,
        blobs: &BlobClient,
        link: &BlobLink,
        (file, from, length): (&Arc<File>, u64, u64),
    ) -> Result<String, Failed> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        let mut tries = 0;
        loop {
            tries += 1;
            // The semaphore is never closed.
            let sender = self.0.senders.acquire().await;
            let outcome = blobs.put(link, length, range(Arc::clone(file), from, length)).await;
            drop(sender);
            let failure = match outcome {
                Ok(etag) => return Ok(etag),
                Err(failure) => failure,
            };
            let passing = match &failure {
                BlobFailure::Away(_) => true,
                BlobFailure::Refused { status, .. } => {
                    status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
                }
            };
            if !passing || tries == TRIES {
                return Err(self.failed(failure));
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }
}

/// Opens a file that is still what it was when its digests were read.
async fn open(file: &Found, digests: &Digests) -> Result<Arc<File>, Failed> {
    let found = file.clone();
    let opened = tokio::task::spawn_blocking(move || artifact_scan::open(&found)).await;
    let opened = opened.map_err(|error| Failed::File(error.to_string()))?;
    let (opened, look) = opened.map_err(|error| Failed::File(format!("it cannot be read: {error}")))?;
    if look == digests.look { Ok(Arc::new(opened)) } else { Err(Failed::Changed) }
}

fn unread(read: Read) -> Failed {
    match read {
        Read::Broken(why) => Failed::File(why),
        Read::Whole(_) | Read::Changed | Read::Left => Failed::Changed,
    }
}

fn offered(file: &Found, digests: &Digests) -> OfferedArtifact {
    OfferedArtifact {
        name: file.name.clone(),
        size: digests.look.size,
        sha256: digests.sha256.clone(),
        part_size: digests.part_size,
        upload: None,
        parts: Vec::new(),
    }
}

fn sent(file: &Found, digests: &Digests) -> SentArtifact {
    SentArtifact {
        name: file.name.clone(),
        size: digests.look.size,
        sha256: digests.sha256.clone(),
        part_size: digests.part_size,
        upload: None,
        parts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_never_too_many() {
        assert_eq!((part_size(PART), part_size(PART + 1)), (None, Some(PART)));
        for size in [1_u64 << 33, 5 << 40] {
            assert!(size.div_ceil(part_size(size).unwrap()) <= MOST_PARTS, "{size}");
        }
    }
}
