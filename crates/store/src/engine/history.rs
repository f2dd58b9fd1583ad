//! What is expected of jobs: learned in the transaction that ends one, told in the one that takes one in.
//!
//! Guarantees: jobs without a name cost nothing; a batch reads at most once and writes at most once for each, in the order
//! of the names, so that two schedulers never wait for each other. Of two that learn at the same time one may be
//! forgotten: there will be another run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{EventKind, Job, RunTimes, Series, Span};

use super::work::Work;
use crate::error::StoreError;
use crate::tx::Tx;

/// What was not written for so long is forgotten.
const REMEMBERED: Span = Span::from_secs(90 * 24 * 3600);

/// The stored name of a series.
fn key(series: &Series) -> Option<String> {
    let queue = series.queue.as_ref().map(muster_domain::QueueName::as_str);
    serde_json::to_string(&(&series.user, queue, &series.name)).ok()
}

/// Notes how long the jobs took that ended well in this batch, where that changes what is expected.
pub(crate) async fn learn<T: Tx>(work: &mut Work<'_, T>) -> Result<(), StoreError> {
    let mut runs: BTreeMap<String, Vec<(u64, Span)>> = BTreeMap::new();
    for event in work.events().iter().filter(|event| matches!(event.kind, EventKind::Done { .. })) {
        let Some(job) = event.job.and_then(|id| work.job(id).ok()) else { continue };
        let series = Series::of(job).as_ref().and_then(key);
        if let Some((series, run)) = series.zip(job.run_time()) {
            runs.entry(series).or_default().push((job.seq, run));
        }
    }
    if runs.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = runs.keys().cloned().collect();
    let known: HashMap<String, RunTimes> = work.tx.run_times(&names).await?.into_iter().collect();
    let mut changed: Vec<(String, RunTimes)> = Vec::new();
    for (series, mut ended) in runs {
        ended.sort_unstable();
        let before = known.get(&series).copied();
        let learned = ended.iter().fold(before, |times, (_, run)| {
            Some(times.map_or_else(|| RunTimes::first(*run), |times| times.then(*run)))
        });
        changed.extend(
            learned.filter(|new| before.is_none_or(|old| new.differs_from(old))).map(|new| (series, new)),
        );
    }
    if changed.is_empty() {
        return Ok(());
    }
    work.tx.put_run_times(&changed, work.now).await
}

/// Tells jobs that come in what runs before them let expect.
pub(crate) async fn expect<T: Tx>(work: &mut Work<'_, T>, jobs: &mut [Job]) -> Result<(), StoreError> {
    let names: BTreeSet<String> = jobs.iter().filter_map(|job| key(&Series::of(job)?)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.into_iter().collect();
    let known: HashMap<String, RunTimes> = work.tx.run_times(&names).await?.into_iter().collect();
    if known.is_empty() {
        return Ok(());
    }
    for job in jobs {
        let series = Series::of(job).as_ref().and_then(key);
        job.expected = series.and_then(|series| known.get(&series)).map(|times| times.expected());
    }
    Ok(())
}

/// Forgets what has not been run for long.
pub(super) async fn forget<T: Tx>(work: &mut Work<'_, T>, limit: usize) -> Result<(), StoreError> {
    work.tx.forget_run_times(work.now - REMEMBERED, limit).await?;
    super::usage::forget(work, limit).await
}
