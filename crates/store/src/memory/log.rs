//! The log of events in memory, and what is counted of the jobs.

use std::collections::BTreeSet;
use std::ops::Bound;

use muster_domain::{Event, Status, WorkerId};

use super::data::Data;
use crate::query::{Counts, EventFilter};
use crate::tx::Changed;

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
