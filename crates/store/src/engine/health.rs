//! How jobs fared on their workers: black holes are found in the transaction that reports the last failure.

use std::collections::BTreeMap;

use muster_domain::health::{QUICK, QuickFailure, STREAK, Verdict};
use muster_domain::{
    EndReason, Event, EventKind, Job, RequeueCause, Timestamp, Worker, WorkerId, WorkerStatus,
};

use super::work::Work;
use crate::error::StoreError;
use crate::tx::Tx;

/// How an attempt ended, as far as its worker is concerned.
enum Fared {
    Well,
    FailedAtOnce(QuickFailure),
}

/// Looks at every attempt that ended in this batch. A success on a worker that the batch does not speak of
/// is not worth a look: there will be another.
pub(crate) async fn apply<T: Tx>(work: &mut Work<'_, T>) -> Result<(), StoreError> {
    let mut fared: BTreeMap<WorkerId, Vec<Fared>> = BTreeMap::new();
    for event in work.events() {
        let Some(job) = event.job.and_then(|id| work.job(id).ok()) else { continue };
        if let Some((worker, how)) = judge(&event.kind, job, work.now) {
            fared.entry(worker).or_default().push(how);
        }
    }
    if fared.is_empty() {
        return Ok(());
    }
    let failed = |ends: &Vec<Fared>| ends.iter().any(|how| matches!(how, Fared::FailedAtOnce(_)));
    let unlucky: Vec<WorkerId> =
        fared.iter().filter(|(_, ends)| failed(ends)).map(|(id, _)| id.clone()).collect();
    work.lock_workers(&unlucky).await?;
    let (mut workers, mut changed) = work.take_workers();
    let mut suspects = Vec::new();
    for (id, ends) in fared {
        let Some(worker) = workers.get_mut(&id) else { continue };
        if note(work, worker, ends) {
            changed.insert(id.clone());
        }
        if worker.health.streak.len() >= STREAK {
            suspects.push(id);
        }
    }
    if !suspects.is_empty() {
        let all = work.tx.workers().await?;
        for id in suspects {
            if let Some(worker) = workers.get_mut(&id) {
                try_case(work, worker, &all);
            }
        }
    }
    work.put_back_workers(workers, changed);
    Ok(())
}

fn judge(kind: &EventKind, job: &Job, now: Timestamp) -> Option<(WorkerId, Fared)> {
    let what = match kind {
        EventKind::Done { .. } => return Some((job.ran_on.clone()?, Fared::Well)),
        EventKind::Requeued { cause: RequeueCause::Failed { exit, message }, .. }
        | EventKind::Failed { reason: EndReason::Attempt { exit, message }, .. } => {
            message.as_ref().map_or_else(|| exit.to_string(), |message| format!("{exit}: {message}"))
        }
        _ => return None,
    };
    let worker = job.ran_on.clone().or_else(|| job.tried.last().cloned())?;
    let quick = job.started_at.is_some_and(|started| now.since(started) < QUICK);
    let how =
        if quick { Fared::FailedAtOnce(QuickFailure { job: job.id, at: now, what }) } else { Fared::Well };
    Some((worker, how))
}

/// Writes the ends down; true when there was something to write.
fn note<T: Tx>(work: &mut Work<'_, T>, worker: &mut Worker, ends: Vec<Fared>) -> bool {
    let mut changed = false;
    for how in ends {
        let verdict = match how {
            Fared::Well => worker.health.did_well(work.now),
            Fared::FailedAtOnce(failure) => worker.health.failed_at_once(failure),
        };
        changed |= verdict != Verdict::Unchanged;
        if verdict == Verdict::Recovered {
            let kind = EventKind::WorkerReleased { reason: "a job went well on it".to_owned() };
            work.note(Event::of_worker(worker.id.clone(), work.now, kind));
        }
    }
    changed
}

/// Sets the worker aside if others do well.
fn try_case<T: Tx>(work: &mut Work<'_, T>, worker: &mut Worker, all: &[Worker]) {
    let others = all.iter().filter(|other| other.id != worker.id && other.status == WorkerStatus::Active);
    let elsewhere = others.filter_map(|other| other.health.last_success).max();
    if let Some(evidence) = worker.health.judge(elsewhere, work.now) {
        let kind = EventKind::WorkerQuarantined { evidence };
        work.note(Event::of_worker(worker.id.clone(), work.now, kind));
    }
}
