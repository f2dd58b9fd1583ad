//! Who used what: counted in the transaction that ends an attempt, summed up by hour, user and queue.
//!
//! Guarantees: an attempt is counted once, whoever says that it ended; a batch adds to the sums in one statement, after
//! all else that it locks and in one order, so that no two transactions wait for each other.

use std::collections::BTreeMap;

use muster_domain::usage::hour_of;
use muster_domain::{EventKind, Job, JobId, QueueName, Span, UsageSum};

use super::visible::Visible;
use super::work::Work;
use crate::error::StoreError;
use crate::query::{EndedFilter, UsageFilter, UsageLine};
use crate::tx::{Tx, UsageEntry};

/// Sums are kept for so long: three years.
const KEPT: Span = Span::from_secs(3 * 366 * 24 * 3600);

/// Whose sum, in which hour.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'j> {
    hour: i64,
    user: &'j str,
    queue: &'j str,
    private: bool,
}

/// Adds up the attempts that ended in this batch, and the jobs that came to their end.
pub(super) async fn count<T: Tx>(work: &mut Work<'_, T>) -> Result<Vec<UsageEntry>, StoreError> {
    let attempts = work.take_attempts();
    let mut sums: BTreeMap<Key<'_>, UsageSum> = BTreeMap::new();
    for (id, attempt) in &attempts {
        for (hour, sum) in attempt.by_hour() {
            if let Some(key) = key(work, *id, hour) {
                sums.entry(key).or_default().add(&sum);
            }
        }
    }
    let hour = hour_of(work.now);
    for event in work.events() {
        let failed = match event.kind {
            EventKind::Done { .. } | EventKind::Cancelled { .. } => 0,
            EventKind::Failed { .. } => 1,
            _ => continue,
        };
        // What never ran used nothing.
        let ran = |id: &JobId| work.job(*id).is_ok_and(|job| job.started_at.is_some());
        if let Some(key) = event.job.filter(ran).and_then(|id| key(work, id, hour)) {
            sums.entry(key).or_default().add(&UsageSum {
                jobs: 1,
                jobs_failed: failed,
                ..UsageSum::default()
            });
        }
    }
    let entry = |(key, sum): (Key<'_>, UsageSum)| UsageEntry {
        hour: key.hour,
        user: key.user.to_owned(),
        queue: key.queue.to_owned(),
        private: key.private,
        sum,
    };
    let entries: Vec<UsageEntry> = sums.into_iter().map(entry).collect();
    if !entries.is_empty() {
        work.tx.add_usage(&entries).await?;
    }
    Ok(entries)
}

fn key<'j, T: Tx>(work: &'j Work<'_, T>, id: JobId, hour: i64) -> Option<Key<'j>> {
    let spec = &work.job(id).ok()?.spec;
    Some(Key {
        hour,
        user: spec.user.as_deref().unwrap_or(""),
        queue: spec.queue.as_ref().map_or("", QueueName::as_str),
        private: spec.private,
    })
}

/// The sums of a time by what the filter says, as far as the caller may see them.
pub(super) async fn read<T: Tx>(tx: &mut T, filter: &UsageFilter) -> Result<Vec<UsageLine>, StoreError> {
    let visible = Visible::to(tx, filter.seen_by.as_ref()).await?;
    let mut lines: BTreeMap<(i64, String, String), UsageSum> = BTreeMap::new();
    let bucket_hours = if filter.by_day { 24 } else { i64::MAX };
    for entry in tx.usage_sums(filter.from_hour, filter.to_hour, bucket_hours).await? {
        let queue = QueueName::new(&entry.queue);
        let asked = filter.user.as_ref().is_none_or(|user| *user == entry.user)
            && filter.queue.as_ref().is_none_or(|wanted| *wanted == queue);
        if !asked || visible.as_ref().is_some_and(|visible| !visible.has_usage(&entry, &queue)) {
            continue;
        }
        lines.entry((entry.hour, entry.user, entry.queue)).or_default().add(&entry.sum);
    }
    let line = |((day, user, queue), sum)| UsageLine { day, user, queue, sum };
    Ok(lines.into_iter().map(line).collect())
}

/// Jobs that ended in a time, as far as the caller may see them, and whether these are all.
pub(super) async fn ended<T: Tx>(tx: &mut T, filter: &EndedFilter) -> Result<(Vec<Job>, bool), StoreError> {
    let visible = Visible::to(tx, filter.seen_by.as_ref()).await?;
    let mut jobs = tx.ended_jobs(filter.since, filter.until, filter.limit.saturating_add(1)).await?;
    let complete = jobs.len() <= filter.limit;
    jobs.truncate(filter.limit);
    jobs.retain(|job| {
        filter.user.as_ref().is_none_or(|user| job.spec.user.as_ref() == Some(user))
            && filter.queue.as_ref().is_none_or(|queue| job.spec.queue.as_ref() == Some(queue))
            && visible.as_ref().is_none_or(|visible| visible.has(job))
    });
    Ok((jobs, complete))
}

/// Forgets what is too old.
pub(super) async fn forget<T: Tx>(work: &mut Work<'_, T>, limit: usize) -> Result<(), StoreError> {
    work.tx.forget_usage(hour_of(work.now - KEPT), limit).await
}
