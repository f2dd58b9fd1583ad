//! The order of pending work in memory.

use std::collections::BTreeSet;
use std::ops::Bound;

use muster_domain::{Job, JobId};

use super::data::{Data, QueueKey};

/// The first of each rank in one shape's queue.
fn firsts(queue: &BTreeSet<QueueKey>) -> impl Iterator<Item = JobId> + '_ {
    let mut next = queue.first();
    std::iter::from_fn(move || {
        let (rank, _, id) = next?;
        next = queue.range((Bound::Excluded((*rank, u64::MAX, *id)), Bound::Unbounded)).next();
        Some(*id)
    })
}

pub(super) fn line_heads(data: &Data, limit: usize) -> Vec<Job> {
    let ids = data.pending.values().flat_map(firsts);
    ids.filter_map(|id| data.jobs.get(&id)).take(limit).cloned().collect()
}

pub(super) fn unfinished_after(data: &Data, seq: u64, limit: usize) -> Vec<Job> {
    let later = data.by_seq.range((Bound::Excluded(seq), Bound::Unbounded));
    let jobs = later.filter_map(|(_, id)| data.jobs.get(id)).filter(|job| !job.is_terminal());
    jobs.take(limit).cloned().collect()
}
