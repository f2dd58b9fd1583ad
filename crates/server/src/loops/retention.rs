//! Retention: archives and removes finished jobs and their output when they are older than the configured time, and old
//! artifacts and lines of the audit log.
//!
//! Guarantees: a pass goes in small transactions and rests after each as long as it took, so that it never has
//! more than half of the store's time; with an archive, a job is on disk there before it goes here.

use std::time::Duration;

use muster_domain::{Actor, JobId, LeaderTerm, Role, Span, Timestamp};
use muster_store::{
    AccountCommand, AccountOutcome, AccountVerb, Command, ExpireArtifacts, Outcome, Removal, StoreExt, Sweep,
};
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::app::App;
use crate::archive::Archive;
use crate::artifacts;
use crate::error::ApiError;

/// Jobs in one transaction; other requests come in between.
const STEP: usize = 200;
/// The longest rest after a step.
const LONGEST_REST: Duration = Duration::from_millis(500);
/// Directories of output that are examined in one pass.
const DIRECTORIES: usize = 10_000;

/// Whether anything is ever removed.
pub(crate) fn is_on(app: &App) -> bool {
    let config = &app.config;
    let output = config.log_retention.is_some() || config.log_total.is_some();
    let objects = config.blobs.retention.is_some() || (config.blobs.is_shared() && output);
    config.retention.is_some() || config.audit_retention.is_some() || objects
}

/// Runs until `stop` resolves; returns at once when everything is kept for ever.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    if !is_on(app) {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    let mut backoff = Backoff::default();
    let interval = app.config.retention_interval;
    loop {
        let mut pause = interval;
        let Some(leader) = app.leadership.term(Role::Retention) else {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = app.leadership.gained(Role::Retention) => continue,
            }
        };
        let started = Instant::now();
        let removed = pass(app, leader).await;
        app.metrics.ticked(Role::Retention, started.elapsed());
        if removed.is_ok() {
            backoff.reset();
        } else {
            pause = backoff.failed(interval);
        }
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn pass(app: &App, leader: LeaderTerm) -> Result<(), ApiError> {
    if let Some(age) = app.config.audit_retention {
        forget_audit(app, app.config.clock.now() - Span::from(age)).await?;
    }
    if let Some(age) = app.config.blobs.retention {
        expire_artifacts(app, app.config.clock.now() - Span::from(age)).await?;
    }
    match app.config.retention {
        Some(age) => remove_old(app, leader, age).await,
        None => Ok(()),
    }
}

/// Removes the bytes of artifacts that were kept before a time. What a crash leaves of them is swept, since nothing names it.
async fn expire_artifacts(app: &App, before: Timestamp) -> Result<(), ApiError> {
    loop {
        let command = Command::ExpireArtifacts(ExpireArtifacts { before, limit: STEP });
        let Outcome::ArtifactsExpired { blobs } = app.batcher.submit_one(command).await? else {
            return Err(ApiError::internal());
        };
        artifacts::remove(app, &blobs).await;
        if blobs.len() < STEP || *app.closing.borrow() {
            return Ok(());
        }
    }
}

/// Removes lines of the audit log from before a time. Two schedulers that do it at the same time remove the same.
async fn forget_audit(app: &App, before: Timestamp) -> Result<(), ApiError> {
    loop {
        let verb = AccountVerb::ForgetAudit { before, limit: STEP };
        let command = AccountCommand { by: Actor::default(), verb };
        let outcome = app.batcher.submit_one(Command::Account(Box::new(command))).await?;
        let Outcome::Account(AccountOutcome::Forgotten(gone)) = outcome else {
            return Err(ApiError::internal());
        };
        if (gone as usize) < STEP || *app.closing.borrow() {
            return Ok(());
        }
    }
}

async fn remove_old(app: &App, leader: LeaderTerm, age: Duration) -> Result<(), ApiError> {
    let before = app.config.clock.now() - Span::from(age);
    let mut removed = 0;
    loop {
        let started = Instant::now();
        let step = match &app.archive {
            Some(archive) => archive_and_remove(app, leader, archive, before).await?,
            None => remove(app, leader, age).await?,
        };
        removed += step.removed;
        if !step.more || *app.closing.borrow() {
            break;
        }
        // The others have the store for at least as long as this step had it.
        tokio::time::sleep(started.elapsed().min(LONGEST_REST)).await;
    }
    if removed > 0 {
        tracing::info!(count = removed, archived = app.archive.is_some(), "old jobs removed");
    }
    remove_output(app, age).await
}

/// What one step has done.
struct Step {
    removed: u32,
    /// There may be more to do.
    more: bool,
}

async fn remove(app: &App, leader: LeaderTerm, age: Duration) -> Result<Step, ApiError> {
    let sweep = Sweep {
        timeouts: app.config.timeouts,
        listening_since: app.health.listening_since(),
        limit: STEP,
        retention: Some(Span::from(age)),
    };
    match app.submit_led(leader, Command::Sweep(sweep)).await? {
        Outcome::Swept(summary) => Ok(Step { removed: summary.removed, more: summary.more }),
        _ => Err(ApiError::internal()),
    }
}

/// Writes a few jobs into the archive and removes exactly those.
async fn archive_and_remove(
    app: &App,
    leader: LeaderTerm,
    archive: &Archive,
    before: Timestamp,
) -> Result<Step, ApiError> {
    let jobs = app.store.finished(before, STEP).await?;
    if let Err(error) = archive.append(&jobs).await {
        tracing::error!(%error, "old jobs could not be archived; they are kept");
        return Err(ApiError::internal());
    }
    let ids: Vec<JobId> = jobs.iter().map(|finished| finished.view.job.id).collect();
    let last = ids.is_empty();
    match app.submit_led(leader, Command::Remove(Removal { jobs: ids, before })).await? {
        // The last step of a pass removes empty sets.
        Outcome::Removed(_) if last => Ok(Step { removed: 0, more: false }),
        Outcome::Removed(removed) => Ok(Step { removed, more: removed > 0 }),
        _ => Err(ApiError::internal()),
    }
}

/// Output of jobs that are gone. A job that is still known keeps its output, however old.
async fn remove_output(app: &App, age: Duration) -> Result<(), ApiError> {
    let old = match app.logs.old_jobs(age, DIRECTORIES).await {
        Ok(old) => old,
        Err(error) => {
            tracing::warn!(%error, "old output could not be listed");
            return Ok(());
        }
    };
    for job in old {
        if app.store.job(job).await?.is_some() {
            continue;
        }
        if let Err(error) = app.logs.remove(job).await {
            tracing::warn!(%error, job_id = %job, "old output could not be removed");
        }
    }
    Ok(())
}
