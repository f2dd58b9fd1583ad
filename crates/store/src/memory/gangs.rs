//! Gangs in memory: found by the tasks that each has.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{GangId, Job, JobId, Phase, Status, Timestamp, WorkerId};

use super::data::Data;
use crate::tx::WaitingGang;

pub(super) fn tasks(data: &Data, gangs: &[GangId]) -> Vec<Job> {
    let ids = gangs.iter().filter_map(|gang| data.gangs.get(gang)).flatten();
    ids.filter_map(|id| data.jobs.get(id).cloned()).collect()
}

pub(super) fn siblings(data: &Data, ids: &[JobId]) -> Vec<JobId> {
    let gangs: BTreeSet<GangId> =
        ids.iter().filter_map(|id| Some(data.jobs.get(id)?.spec.gang.as_ref()?.id)).collect();
    gangs.iter().filter_map(|gang| data.gangs.get(gang)).flatten().copied().collect()
}

/// Whether every task that has not ended is blocked and waits for no other job.
fn waiting(data: &Data, gang: GangId) -> Option<WaitingGang> {
    let tasks = data.gangs.get(&gang)?.iter().filter_map(|id| data.jobs.get(id));
    let mut open: Vec<&Job> = tasks.filter(|task| !task.is_terminal()).collect();
    let ready = |task: &&Job| matches!(&task.phase, Phase::Blocked { needs } if needs.unfinished() == 0);
    if open.is_empty() || !open.iter().all(ready) {
        return None;
    }
    open.sort_unstable_by_key(|task| task.seq);
    Some(WaitingGang { first: open.first().copied()?.clone(), tasks: open.len() as u32 })
}

pub(super) fn all_waiting(data: &Data, limit: usize) -> Vec<WaitingGang> {
    let mut found: Vec<WaitingGang> =
        data.waiting_gangs.iter().filter_map(|gang| waiting(data, *gang)).collect();
    let key = |gang: &WaitingGang| (gang.first.rank, gang.first.seq);
    found.sort_unstable_by_key(key);
    found.truncate(limit);
    found
}

pub(super) fn stale(data: &Data, before: Timestamp, limit: usize) -> Vec<GangId> {
    let late = data.reservations.iter().take_while(|(at, _)| *at < before);
    let gangs = late.filter_map(|(at, id)| Some((data.jobs.get(id)?.spec.gang.as_ref()?.id, *at)));
    let mut oldest: BTreeMap<GangId, Timestamp> = BTreeMap::new();
    for (gang, at) in gangs {
        let first = oldest.entry(gang).or_insert(at);
        *first = at.min(*first);
    }
    let mut gangs: Vec<(Timestamp, GangId)> = oldest.into_iter().map(|(gang, at)| (at, gang)).collect();
    gangs.sort_unstable();
    gangs.into_iter().take(limit).map(|(_, gang)| gang).collect()
}

pub(super) fn reserved(data: &Data, workers: &[WorkerId]) -> Vec<Job> {
    let held = workers.iter().filter_map(|worker| data.held.get(worker)).flatten();
    let jobs = held.filter_map(|id| data.jobs.get(id));
    let mut found: Vec<Job> = jobs.filter(|job| job.status() == Status::Reserved).cloned().collect();
    found.sort_unstable_by_key(|job| {
        let at = if let Phase::Reserved { reserved_at, .. } = job.phase { Some(reserved_at) } else { None };
        (at, job.spec.gang.as_ref().map(|gang| (gang.id, gang.index)))
    });
    found
}

pub(super) fn running(data: &Data, worker: &WorkerId) -> Vec<Job> {
    let jobs = data.held.get(worker).into_iter().flatten().filter_map(|id| data.jobs.get(id));
    jobs.filter(|job| job.must_be_heard()).cloned().collect()
}

pub(super) fn list(data: &Data, before_seq: Option<u64>, limit: usize) -> Vec<(u64, GangId)> {
    let newest = data.first_tasks.range(..before_seq.unwrap_or(u64::MAX)).rev();
    newest.take(limit).map(|(seq, gang)| (*seq, *gang)).collect()
}
