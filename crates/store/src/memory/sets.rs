//! Pipelines and arrays in memory.

use std::collections::BTreeMap;

use muster_domain::{Ended, JobSet, SetId, Status, Timestamp};

use super::data::Data;
use crate::query::{SetCount, SetFilter};

pub(super) fn list(data: &Data, filter: &SetFilter) -> Vec<JobSet> {
    let matches = |set: &&JobSet| {
        (filter.ids.is_empty() || filter.ids.contains(&set.id))
            && filter.kind.is_none_or(|kind| set.kind == kind)
            && filter.idempotency_key.as_ref().is_none_or(|key| set.idempotency_key.as_ref() == Some(key))
    };
    let newest = data.sets.range(..filter.before_seq.unwrap_or(u64::MAX)).rev().map(|(_, set)| set);
    newest.filter(matches).take(filter.limit.unwrap_or(usize::MAX)).cloned().collect()
}

pub(super) fn count(data: &Data, id: SetId) -> Vec<SetCount> {
    let mut counts: BTreeMap<(Option<String>, Status, bool), SetCount> = BTreeMap::new();
    for job in data.members.get(&id).into_iter().flatten().filter_map(|job| data.jobs.get(job)) {
        let step = job.member.as_ref().and_then(|member| member.step.as_deref().map(str::to_owned));
        let (status, skipped) = (job.status(), job.ended() == Some(Ended::Skipped));
        let count = counts.entry((step.clone(), status, skipped)).or_insert_with(|| SetCount {
            set: id,
            step,
            status,
            skipped,
            jobs: 0,
            first_start: None,
            last_end: None,
        });
        count.jobs += 1;
        count.first_start = [count.first_start, job.started_at].into_iter().flatten().min();
        count.last_end = count.last_end.max(job.done_at());
    }
    counts.into_values().collect()
}

pub(super) fn remove_empty(data: &mut Data, before: Timestamp, limit: usize) -> u32 {
    let has_jobs = |id: &SetId| data.members.get(id).is_some_and(|members| !members.is_empty());
    let empty = data.sets.values().filter(|set| set.created_at < before && !has_jobs(&set.id));
    let empty: Vec<(u64, SetId)> = empty.take(limit).map(|set| (set.seq, set.id)).collect();
    for (seq, id) in &empty {
        data.sets.remove(seq);
        data.set_seqs.remove(id);
        data.members.remove(id);
    }
    empty.len() as u32
}
