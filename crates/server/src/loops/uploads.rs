//! Removes uploads that nothing names, and chunks that no upload names.
//!
//! Guarantees: an upload that a job names stays as long as the job; a chunk that somebody was told is there stays, because no
//! upload is declared while chunks are removed; whatever a crash leaves behind is found by the next pass.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use muster_blob::{BlobKey, Listed};
use muster_domain::{JobId, Role, SetId, Span, UploadRef};
use muster_protocol::UploadManifest;
use muster_store::{Command, Outcome, SetFilter, StoreExt as _, UploadCommand, UploadOutcome, UploadUse};
use muster_upload::Digest;
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::app::App;
use crate::error::ApiError;
use crate::uploads::{digest_of, failed, manifest, prefix, upload_of};

/// Jobs and sets that are looked up together.
const STEP: usize = 500;
/// Objects in one page of a list.
const PAGE: usize = 1_000;
/// How long others wait at most while chunks are removed, and how long the word that they wait is good for.
const REMOVAL: Duration = Duration::from_secs(10);
const SWEEP: Duration = Duration::from_secs(60);
/// Between two removals.
const PAUSE: Duration = Duration::from_secs(2);

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    if !app.config.blobs.sweeps {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    let mut backoff = Backoff::default();
    let interval = app.config.uploads.sweep_interval;
    loop {
        let mut pause = interval;
        if app.leadership.term(Role::Retention).is_none() {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = app.leadership.gained(Role::Retention) => continue,
            }
        }
        match pass(app).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                tracing::warn!(error = %error.message, "old uploads could not be removed");
                pause = backoff.failed(interval);
            }
        }
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn pass(app: &App) -> Result<(), ApiError> {
    let known = app.store.uploads(None).await?;
    let in_use = drop_dead_uses(app).await?;
    let unused_since = app.config.clock.now() - Span::from(app.config.uploads.keep);
    let old = known.into_iter().filter(|view| view.used_at < unused_since && !in_use.contains(&view.upload));
    let uploads: Vec<UploadRef> = old.map(|view| view.upload).collect();
    for step in uploads.chunks(STEP) {
        let command = UploadCommand::Forget { uploads: step.to_vec(), unused_since };
        app.batcher.submit_one(Command::Uploads(command)).await?;
    }
    sweep(app).await
}

/// Forgets what names uploads and is gone itself; returns the uploads that something names.
async fn drop_dead_uses(app: &App) -> Result<HashSet<UploadRef>, ApiError> {
    let mut in_use = HashSet::new();
    for step in app.store.upload_uses().await?.chunks(STEP) {
        let jobs: Vec<JobId> = step.iter().filter_map(|named| named.job).collect();
        let jobs: HashSet<JobId> = app.store.states(jobs).await?.into_iter().map(|job| job.id).collect();
        let ids: Vec<SetId> = step.iter().filter_map(|named| named.set).collect();
        let sets: HashSet<SetId> = if ids.is_empty() {
            HashSet::new()
        } else {
            let filter = SetFilter { ids, ..SetFilter::default() };
            app.store.sets(filter).await?.into_iter().map(|view| view.set.id).collect()
        };
        let lives = |named: &UploadUse| {
            named.job.is_some_and(|job| jobs.contains(&job))
                || named.set.is_some_and(|set| sets.contains(&set))
        };
        let (live, dead): (Vec<&UploadUse>, Vec<&UploadUse>) = step.iter().partition(|named| lives(named));
        in_use.extend(live.into_iter().map(|named| named.upload.clone()));
        if !dead.is_empty() {
            let command = UploadCommand::DropUses(dead.into_iter().cloned().collect());
            app.batcher.submit_one(Command::Uploads(command)).await?;
        }
    }
    Ok(in_use)
}

/// What all uploads that are known consist of.
#[derive(Debug, Default)]
struct Marked {
    uploads: HashSet<UploadRef>,
    chunks: HashMap<String, HashSet<Digest>>,
}

impl Marked {
    /// Marks what is known now and was not before. False when an upload is known whose manifest is not there yet.
    async fn more(&mut self, app: &App) -> Result<bool, ApiError> {
        let mut whole = true;
        let known: HashSet<UploadRef> =
            app.store.uploads(None).await?.into_iter().map(|view| view.upload).collect();
        // Chunks of what was forgotten meanwhile stay until the next pass.
        for upload in &known {
            if self.uploads.contains(upload) {
                continue;
            }
            let Some(bytes) = manifest(app, upload).await? else {
                whole = false;
                continue;
            };
            let manifest: UploadManifest =
                serde_json::from_slice(&bytes).map_err(|_| ApiError::internal())?;
            let chunks = self.chunks.entry(upload.space.clone()).or_default();
            chunks.extend(manifest.chunks.iter().filter_map(|chunk| chunk.sha256.parse::<Digest>().ok()));
        }
        self.uploads = known;
        Ok(whole)
    }

    fn is_named(&self, key: &BlobKey) -> bool {
        if let Some(upload) = upload_of(key) {
            return self.uploads.contains(&upload);
        }
        match digest_of(key) {
            Some((space, digest)) => self.chunks.get(&space).is_some_and(|chunks| chunks.contains(&digest)),
            // Something that we did not put there.
            None => true,
        }
    }
}

/// Looks for what no upload names, then removes it while no upload is declared.
async fn sweep(app: &App) -> Result<(), ApiError> {
    let mut marked = Marked::default();
    marked.more(app).await?;
    let mut unnamed = Vec::new();
    let mut from: Option<String> = None;
    loop {
        let page = app.blobs.list(prefix(), from.as_deref(), PAGE).await.map_err(|error| failed(&error))?;
        from = page.next;
        unnamed.extend(page.objects.into_iter().filter(|object| !marked.is_named(&object.key)));
        if from.is_none() || *app.closing.borrow() {
            break;
        }
    }
    while !unnamed.is_empty() && !*app.closing.borrow() {
        let now = app.config.clock.now();
        let (sweeper, until) = (app.instance_id.clone(), now + Span::from(SWEEP));
        let begin = UploadCommand::BeginSweep { sweeper: sweeper.clone(), until };
        let outcome = app.batcher.submit_one(Command::Uploads(begin)).await?;
        if outcome != Outcome::Uploads(UploadOutcome::Sweeping(true)) {
            return Ok(());
        }
        let removed = remove(app, &mut marked, &mut unnamed).await;
        app.batcher.submit_one(Command::Uploads(UploadCommand::EndSweep { sweeper })).await?;
        if !removed? {
            break;
        }
        // Those who waited come first.
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Removes for a bounded time what is still unnamed. False when it has to wait for the next pass.
async fn remove(app: &App, marked: &mut Marked, unnamed: &mut Vec<Listed>) -> Result<bool, ApiError> {
    let started = Instant::now();
    if !marked.more(app).await? {
        return Ok(false);
    }
    let (mut count, mut bytes) = (0_u64, 0);
    while started.elapsed() < REMOVAL {
        let Some(object) = unnamed.pop() else { break };
        if !marked.is_named(&object.key) {
            // One that hangs must not be carried out when others may send again.
            tokio::time::timeout(REMOVAL, app.blobs.delete(&object.key))
                .await
                .map_err(|_| ApiError::storage_unavailable())?
                .map_err(|error| failed(&error))?;
            count += 1;
            bytes += object.size;
        }
    }
    if count > 0 {
        tracing::info!(count, bytes, "removed chunks of uploads that nothing names");
    }
    Ok(true)
}
