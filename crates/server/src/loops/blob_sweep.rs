//! Removes objects of artifacts, output and checkpoints that nothing names any more, and uploads that were begun and never
//! completed.
//!
//! Guarantee: an object that is named stays, and so does a young one, whose artifact may be about to be listed. Whatever a
//! crash leaves, in whichever order, is gone after one more pass.

use std::collections::HashSet;
use std::time::SystemTime;

use muster_blob::BlobError;
use muster_domain::{JobId, Role};
use muster_store::StoreExt as _;

use crate::app::App;
use crate::artifacts;
use crate::checkpoints::{self, CHECKPOINTS};
use crate::moved_output::OUTPUT;

/// Objects that are looked at together.
const STEP: usize = 500;
/// What keys of artifacts begin with.
const ARTIFACTS: &str = "artifacts/";

/// Runs until `stop` resolves; makes its passes while this instance leads the retention.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    if !app.config.blobs.sweeps {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(app.config.retention_interval) => {}
        }
        if app.leadership.term(Role::Retention).is_none() {
            continue;
        }
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = pass(app) => {}
        }
    }
}

async fn pass(app: &App) {
    let Some(before) = SystemTime::now().checked_sub(app.config.blobs.sweep_after) else { return };
    match sweep(app, before).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "objects that nothing names were removed from the blob store"),
        Err(reason) => tracing::warn!(reason, "the blob store could not be swept"),
    }
}

async fn sweep(app: &App, before: SystemTime) -> Result<usize, String> {
    let mut swept = app.blobs.sweep_unfinished(before).await.map_err(|error| error.to_string())? as usize;
    for prefix in [ARTIFACTS, OUTPUT, CHECKPOINTS] {
        swept += sweep_all(app, prefix, before).await?;
    }
    Ok(swept)
}

async fn sweep_all(app: &App, prefix: &str, before: SystemTime) -> Result<usize, String> {
    let (mut from, mut swept) = (None, 0);
    loop {
        let page = app.blobs.list(prefix, from.as_deref(), STEP).await;
        let page = page.map_err(|error: BlobError| error.to_string())?;
        let old = page.objects.iter().filter(|object| object.modified < before);
        let old: Vec<String> = old.map(|object| object.key.as_str().to_owned()).collect();
        if !old.is_empty() {
            let known = if prefix == CHECKPOINTS {
                known_checkpoints(app, &old).await?
            } else {
                known(app, &old).await?
            };
            let unknown: Vec<String> = old.into_iter().filter(|blob| !known.contains(blob)).collect();
            swept += unknown.len();
            artifacts::remove(app, &unknown).await;
        }
        match page.next {
            Some(next) if !*app.closing.borrow() => from = Some(next),
            _ => return Ok(swept),
        }
    }
}

async fn known(app: &App, blobs: &[String]) -> Result<HashSet<String>, String> {
    let known = app.store.known_blobs(blobs.to_vec()).await.map_err(|error| error.reason())?;
    Ok(known.into_iter().collect())
}

/// Which of these objects are the checkpoint of the job that their keys name.
async fn known_checkpoints(app: &App, keys: &[String]) -> Result<HashSet<String>, String> {
    let job =
        |key: &String| key.strip_prefix(CHECKPOINTS)?.split('/').next()?.parse().ok().map(JobId::from_uuid);
    let mut jobs: Vec<JobId> = keys.iter().filter_map(job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let jobs = app.store.states(jobs).await.map_err(|error| error.reason())?;
    Ok(jobs.iter().filter_map(|job| checkpoints::object(job.checkpoint_file.as_deref()?)).collect())
}
