//! Retention of output: it goes when it is old, and the oldest goes when all of it together is too much. Output that has moved
//! is looked at by the scheduler that leads the retention, and goes before what still lies in files.
//!
//! Guarantees: output of a job that has not ended stays; how much there was stays known until the job itself
//! is removed; a pass goes in small steps and holds the names of a part of the jobs at a time. Schedulers that
//! share a directory may each make it: what one has removed the other does not find.

use std::time::{Duration, Instant, SystemTime};

use muster_domain::{JobId, Role, Span};
use muster_store::{Command, ExpireOutput, Outcome, StoreExt};

use super::backoff::Backoff;
use crate::app::App;
use crate::artifacts;
use crate::error::ApiError;
use crate::logs::{Census, Held, SHARDS};

/// How often the growth since the last pass is looked at; a pass is early when it may have reached the bound.
const LOOK: Duration = Duration::from_secs(10);
/// When output has to go, it goes down to this share of the bound (in tenths), so that it does not go all the
/// time.
const TENTHS_KEPT: u64 = 9;
/// Moved runs of one transaction.
const STEP: usize = 200;

/// Runs until `stop` resolves; returns at once when all output is kept as long as its job.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    if app.config.log_retention.is_none() && app.config.log_total.is_none() {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    let mut backoff = Backoff::default();
    let mut size = 0;
    loop {
        let mut due = Instant::now() + app.config.retention_interval;
        app.logs.take_added();
        match pass(app).await {
            Ok(left) => {
                size = left;
                backoff.reset();
            }
            Err(_) => due = Instant::now() + backoff.failed(app.config.retention_interval),
        }
        while Instant::now() < due {
            let pause = LOOK.min(due.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(pause) => {}
            }
            size = u64::saturating_add(size, app.logs.take_added());
            if app.config.log_total.is_some_and(|most| size > most) {
                break;
            }
        }
    }
}

/// Looks at everything once, removes what has to go, and returns how many bytes are left.
async fn pass(app: &App) -> Result<u64, ApiError> {
    let before = app.config.log_retention.and_then(|age| SystemTime::now().checked_sub(age));
    let mut census = Census::default();
    let mut expired = 0;
    for shard in 0..SHARDS {
        for held in list(app, shard).await {
            let old = before.is_some_and(|before| held.changed < before);
            match if old { expire(app, held.job).await? } else { 0 } {
                0 => census.count(&held),
                freed => expired += freed,
            }
        }
    }
    let leads = app.leadership.term(Role::Retention).is_some();
    if let Some(age) = app.config.log_retention.filter(|_| leads) {
        let before = Some(app.config.clock.now() - Span::from(age));
        expired += expire_moved(app, ExpireOutput { before, excess: None, limit: STEP }).await?;
    }
    let moved = if leads { app.store.moved_bytes().await? } else { 0 };
    let total = census.total() + moved;
    let excess = match app.config.log_total {
        Some(most) if total > most => total - most / 10 * TENTHS_KEPT,
        _ => 0,
    };
    let freed = if excess > 0 { free(app, &census, excess, leads).await? } else { 0 };
    if freed + expired > 0 {
        tracing::info!(bytes = freed + expired, "old output removed");
    }
    Ok(total.saturating_sub(freed))
}

/// Removes output until `excess` bytes are free: what has moved is older than what lies in files still.
async fn free(app: &App, census: &Census, excess: u64, leads: bool) -> Result<u64, ApiError> {
    let wanted = ExpireOutput { before: None, excess: Some(excess), limit: STEP };
    let freed = if leads { expire_moved(app, wanted).await? } else { 0 };
    let left = excess.saturating_sub(freed);
    Ok(freed + if left > 0 { shrink(app, census, left).await? } else { 0 })
}

/// Removes moved output in small steps; returns the bytes freed. What a crash leaves of it is swept, since nothing names it.
async fn expire_moved(app: &App, wanted: ExpireOutput) -> Result<u64, ApiError> {
    let mut freed = 0;
    loop {
        let excess = wanted.excess.map(|excess| excess.saturating_sub(freed));
        let command = Command::ExpireOutput(ExpireOutput { excess, ..wanted });
        let Outcome::OutputExpired { runs, bytes, blobs } = app.batcher.submit_one(command).await? else {
            return Err(ApiError::internal());
        };
        freed += bytes;
        artifacts::remove(app, &blobs).await;
        if runs < STEP || *app.closing.borrow() {
            return Ok(freed);
        }
    }
}

/// Removes the oldest output until `excess` bytes are free.
async fn shrink(app: &App, census: &Census, excess: u64) -> Result<u64, ApiError> {
    let Some(cutoff) = census.cutoff(excess) else { return Ok(0) };
    let mut freed = 0;
    for shard in 0..SHARDS {
        for held in list(app, shard).await.into_iter().filter(|held| cutoff.covers(held)) {
            if freed >= excess {
                return Ok(freed);
            }
            freed += expire(app, held.job).await?;
        }
    }
    if freed < excess {
        tracing::warn!(missing = excess - freed, "jobs that still run hold more output than may be kept");
    }
    Ok(freed)
}

async fn list(app: &App, shard: u16) -> Vec<Held> {
    let listed = app.logs.shard(shard).await;
    listed.unwrap_or_else(|error| {
        tracing::warn!(%error, "output could not be listed");
        Vec::new()
    })
}

/// Removes the output of a job that has ended or is gone; returns the bytes freed.
async fn expire(app: &App, job: JobId) -> Result<u64, ApiError> {
    let removed = match app.store.job(job).await? {
        Some(view) if !view.job.is_terminal() => return Ok(0),
        Some(_) => app.logs.expire(job).await,
        None => app.logs.remove(job).await.map(|()| 0),
    };
    Ok(removed.unwrap_or_else(|error| {
        tracing::warn!(%error, job_id = %job, "old output could not be removed");
        0
    }))
}
