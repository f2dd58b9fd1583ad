//! The log of events in memory, and what is counted and summed up of the jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use muster_domain::{Event, Job, Status, Timestamp, UsageSum, WorkerId};

use super::data::Data;
use crate::query::{Counts, EventFilter};
use crate::tx::{Changed, UsageEntry};

pub(super) fn append(data: &mut Data, events: &mut [Event]) {
    for event in events {
        data.last_event += 1;
        event.seq = data.last_event;
        if let Some(job) = event.job {
            data.events_of.entry(job).or_default().push(event.seq);
        }
        data.events.insert(event.seq, event.clone());
    }
}

pub(super) fn read(data: &Data, filter: &EventFilter) -> Vec<Event> {
    let Some(job) = filter.job else {
        let later = data.events.range((Bound::Excluded(filter.after), Bound::Unbounded));
        return later.take(filter.limit).map(|(_, event)| event.clone()).collect();
    };
    let own = data.events_of.get(&job).into_iter().flatten().filter(|position| **position > filter.after);
    own.take(filter.limit).filter_map(|position| data.events.get(position).cloned()).collect()
}

pub(super) fn changed_since(data: &Data, position: u64, limit: u64) -> Option<Changed> {
    if data.last_event.saturating_sub(position) > limit {
        return None;
    }
    let events = || data.events.range((Bound::Excluded(position), Bound::Unbounded)).map(|(_, event)| event);
    let seq = |event: &Event| Some(data.jobs.get(&event.job?)?.seq);
    let jobs: BTreeSet<u64> = events().filter_map(seq).collect();
    let workers: BTreeSet<WorkerId> = events().filter_map(|event| event.worker.clone()).collect();
    Some(Changed {
        upto: data.last_event,
        jobs: jobs.into_iter().collect(),
        workers: workers.into_iter().collect(),
        removed: data.removed,
    })
}

pub(super) fn counts(data: &Data) -> Counts {
    let open = data.counts.iter().filter(|(status, count)| !status.is_terminal() && **count > 0);
    let mut counts = Counts { jobs: open.map(|(s, n)| (*s, *n)).collect(), ..Counts::default() };
    for job in data.pending.values().flatten().filter_map(|(_, _, id)| data.jobs.get(id)) {
        let queue = job.spec.queue.as_ref().map(|queue| queue.as_str().to_owned()).unwrap_or_default();
        *counts.pending_by_queue.entry(queue).or_default() += 1;
    }
    for job in data.jobs.values() {
        let queue = job.spec.queue.as_ref().map(|queue| queue.as_str().to_owned()).unwrap_or_default();
        match job.status() {
            Status::Pending | Status::Delayed | Status::Held | Status::Blocked => {
                *counts.waiting_by_queue.entry(queue).or_default() += 1;
            }
            Status::Reserved | Status::Running | Status::Preempting => {
                *counts.held_by_queue.entry(queue).or_default() += 1;
            }
            Status::Preempted | Status::Finished | Status::Done | Status::Failed | Status::Cancelled => {}
        }
    }
    counts
}

pub(super) fn forget_run_times(data: &mut Data, before: Timestamp, limit: usize) {
    let old = data.run_times.iter().filter(|(_, (_, at))| *at < before);
    let old: Vec<String> = old.map(|(series, _)| series.clone()).take(limit).collect();
    for series in old {
        data.run_times.remove(&series);
    }
}

pub(super) fn add_usage(data: &mut Data, entries: &[UsageEntry]) {
    for entry in entries {
        let key = (entry.hour, entry.user.clone(), entry.queue.clone(), entry.private);
        data.usage.entry(key).or_default().add(&entry.sum);
    }
}

pub(super) fn usage_sums(data: &Data, hours: Range<i64>, bucket_hours: i64) -> Vec<UsageEntry> {
    let mut sums: BTreeMap<(i64, &str, &str, bool), UsageSum> = BTreeMap::new();
    for ((hour, user, queue, private), sum) in &data.usage {
        if hours.contains(hour) {
            sums.entry((*hour / bucket_hours.max(1), user, queue, *private)).or_default().add(sum);
        }
    }
    let entry = |((hour, user, queue, private), sum): ((i64, &str, &str, bool), UsageSum)| UsageEntry {
        hour,
        user: user.to_owned(),
        queue: queue.to_owned(),
        private,
        sum,
    };
    sums.into_iter().map(entry).collect()
}

pub(super) fn forget_usage(data: &mut Data, before: i64, limit: usize) {
    let old: Vec<_> = data.usage.keys().take_while(|key| key.0 < before).take(limit).cloned().collect();
    for key in old {
        data.usage.remove(&key);
    }
}

pub(super) fn ended_jobs(data: &Data, since: Timestamp, until: Timestamp, limit: usize) -> Vec<Job> {
    let latest = data.ended.iter().rev().filter(|(at, _)| (since..until).contains(at));
    latest.take(limit).filter_map(|(_, id)| data.jobs.get(id).cloned()).collect()
}
