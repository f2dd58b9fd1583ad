//! Retention: removes finished jobs and their output when they are older than the configured time.

use std::time::{Duration, Instant};

use muster_domain::Span;
use muster_store::{Command, Outcome, Role, StoreExt, Sweep};

use super::leader::{Backoff, Seat};
use crate::app::App;
use crate::error::ApiError;

/// Jobs in one transaction; other requests come in between.
const STEP: usize = 200;
/// Directories of output that are examined in one pass.
const DIRECTORIES: usize = 10_000;

/// Runs until `stop` resolves; returns at once when everything is kept for ever.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let Some(age) = app.config.retention else { return };
    let mut stop = std::pin::pin!(stop);
    let mut seat = Seat::new(Role::Retention);
    let mut backoff = Backoff::default();
    let interval = app.config.retention_interval;
    loop {
        let mut pause = interval;
        if seat.take(app).await {
            let started = Instant::now();
            let removed = remove_old(app, age).await;
            app.metrics.ticked(Role::Retention, started.elapsed());
            if removed.is_ok() {
                backoff.reset();
            } else {
                seat.give_up(app);
                pause = backoff.failed(interval);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut stop => return,
        }
    }
}

async fn remove_old(app: &App, age: Duration) -> Result<(), ApiError> {
    let mut removed = 0;
    loop {
        let sweep = Sweep {
            timeouts: app.config.timeouts,
            listening_since: app.health.listening_since(),
            limit: STEP,
            retention: Some(Span::from(age)),
        };
        let Outcome::Swept(summary) = app.batcher.submit_one(Command::Sweep(sweep)).await? else {
            return Err(ApiError::internal());
        };
        removed += summary.removed;
        if !summary.more {
            break;
        }
    }
    if removed > 0 {
        tracing::info!(count = removed, "old jobs removed");
    }
    remove_output(app, age).await
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
