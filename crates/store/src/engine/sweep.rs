//! What is overdue: silent jobs, unanswered stop orders, silent workers, and what retention removes.

use muster_domain::{Change, Event, EventKind, JobId, Patience, Timestamp, Trigger, WorkerId, WorkerStatus};

use super::work::Work;
use super::{Answers, history, pick, removal};
use crate::command::{Command, Outcome, Sweep, SweepSummary};
use crate::error::StoreError;
use crate::tx::Tx;

/// Runs every sweep of the batch.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let sweeps = pick(commands, |command| match command {
        Command::Sweep(sweep) => Some(*sweep),
        _ => None,
    });
    work.on_behalf_of_scheduler();
    for (position, sweep) in sweeps {
        let mut summary = SweepSummary::default();
        silent_jobs(work, sweep, &mut summary).await?;
        ended_leases(work, sweep, &mut summary).await?;
        overdue_stops(work, sweep, &mut summary).await?;
        alarms(work, sweep, &mut summary).await?;
        silent_workers(work, sweep, &mut summary).await?;
        finished_jobs(work, sweep, &mut summary).await?;
        history::forget(work, sweep.limit).await?;
        // What was just handled must not look overdue any more.
        work.flush().await?;
        let gate = gates(work).await?;
        summary.next_due = next_due(work, sweep).await?.into_iter().chain(gate).min();
        answers.put(position, Ok(Outcome::Swept(summary)));
    }
    Ok(())
}

async fn silent_jobs<T: Tx>(
    work: &mut Work<'_, T>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let before = work.now - sweep.timeouts.job_heartbeat;
    if sweep.listening_since >= before {
        return Ok(());
    }
    let ids = work.tx.silent_jobs(before, sweep.limit).await?;
    lose(work, ids, sweep, summary).await
}

/// Leases that say how long they last: what ran under them was stopped by its worker before they ended.
async fn ended_leases<T: Tx>(
    work: &mut Work<'_, T>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let listened = work.now.since(sweep.listening_since);
    let ids = work.tx.ended_leases(work.now, listened, sweep.limit).await?;
    lose(work, ids, sweep, summary).await
}

/// Takes jobs for lost. Between the look and the lock a job may have spoken or ended; then the trigger is refused.
async fn lose<T: Tx>(
    work: &mut Work<'_, T>,
    ids: Vec<JobId>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let patience = Patience { timeout: sweep.timeouts.job_heartbeat, listening_since: sweep.listening_since };
    summary.more |= ids.len() >= sweep.limit;
    work.lock_whole(ids.iter().copied()).await?;
    for id in ids {
        match work.trigger(id, &Trigger::Silence { patience }) {
            // The silence of a task drains its gang.
            Ok(Change::Happened(EventKind::Requeued { .. }) | Change::Touched) => summary.requeued += 1,
            Ok(Change::Happened(_)) => summary.failed += 1,
            Ok(Change::Repeated | Change::Noted) | Err(_) => {
                // It may have been told to stop before it fell silent.
                let forced = work.trigger(id, &Trigger::StopOverdue { patience }).is_ok();
                summary.stops_forced += u32::from(forced);
            }
        }
    }
    Ok(())
}

async fn overdue_stops<T: Tx>(
    work: &mut Work<'_, T>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let patience = Patience { timeout: sweep.timeouts.preempt, listening_since: sweep.listening_since };
    let before = work.now - patience.timeout;
    if patience.listening_since >= before {
        return Ok(());
    }
    let ids = work.tx.overdue_stops(before, sweep.limit).await?;
    summary.more |= ids.len() >= sweep.limit;
    work.lock_whole(ids.iter().copied()).await?;
    for id in ids {
        if work.trigger(id, &Trigger::StopOverdue { patience }).is_ok() {
            summary.stops_forced += 1;
        }
    }
    Ok(())
}

/// What jobs asked for themselves: ends of delays, deadlines, attempts that run too long.
async fn alarms<T: Tx>(
    work: &mut Work<'_, T>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let ids = work.tx.alarms(work.now, sweep.limit).await?;
    summary.more |= ids.len() >= sweep.limit;
    work.lock_whole(ids.iter().copied()).await?;
    for id in ids {
        let acted = [Trigger::Expire, Trigger::Due, Trigger::Overrun, Trigger::ExitPresumed]
            .iter()
            .any(|trigger| work.trigger(id, trigger).is_ok());
        summary.alarms += u32::from(acted);
    }
    Ok(())
}

async fn silent_workers<T: Tx>(
    work: &mut Work<'_, T>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let timeout = sweep.timeouts.worker_stale;
    if sweep.listening_since >= work.now - timeout {
        return Ok(());
    }
    let now = work.now;
    let stale: Vec<WorkerId> =
        work.tx.workers().await?.into_iter().filter(|w| w.is_stale(now, timeout)).map(|w| w.id).collect();
    if stale.is_empty() {
        return Ok(());
    }
    let mut offline = work.tx.lock_workers(&stale).await?;
    offline.retain(|worker| worker.is_stale(now, timeout));
    for worker in &mut offline {
        worker.status = WorkerStatus::Offline;
        work.note(Event::of_worker(worker.id.clone(), now, EventKind::WorkerOffline));
        summary.workers_offline += 1;
    }
    work.tx.put_workers(&offline).await
}

async fn finished_jobs<T: Tx>(
    work: &mut Work<'_, T>,
    sweep: Sweep,
    summary: &mut SweepSummary,
) -> Result<(), StoreError> {
    let Some(retention) = sweep.retention else { return Ok(()) };
    let ids = work.tx.finished_jobs(work.now - retention, sweep.limit).await?;
    if ids.is_empty() {
        work.tx.delete_empty_sets(work.now - retention, sweep.limit).await?;
        return Ok(());
    }
    summary.more |= ids.len() >= sweep.limit;
    summary.removed += removal::remove(work, &ids, work.now - retention).await?;
    Ok(())
}

/// What no job's alarm tells: rates that allow a start again, quarantined workers that may be tried. Claims
/// that wait are tried again, and the next such moment is returned.
async fn gates<T: Tx>(work: &mut Work<'_, T>) -> Result<Option<Timestamp>, StoreError> {
    let now = work.now;
    let starts = work.tx.queues().await?.into_iter().filter_map(|queue| queue.next_start());
    let probes = work.tx.workers().await?.into_iter();
    let probes = probes.filter_map(|worker| Some(worker.health.quarantine?.probe_at));
    let (mut next, mut open) = (None::<Timestamp>, false);
    for moment in starts.chain(probes) {
        if moment > now {
            next = Some(next.map_or(moment, |next| next.min(moment)));
        } else {
            open = true;
        }
    }
    if open {
        work.note_room();
    }
    Ok(next)
}

async fn next_due<T: Tx>(work: &mut Work<'_, T>, sweep: Sweep) -> Result<Option<Timestamp>, StoreError> {
    let oldest = work.tx.oldest().await?;
    let leases = work.tx.lease_ends(work.now).await?;
    let due =
        |since: Option<Timestamp>, timeout| since.map(|since| since.max(sweep.listening_since) + timeout);
    let candidates = [
        due(oldest.sign, sweep.timeouts.job_heartbeat),
        due(oldest.stop, sweep.timeouts.preempt),
        oldest.alarm,
        leases.next,
        leases.shortest.map(|span| sweep.listening_since + span),
    ];
    Ok(candidates.into_iter().flatten().min())
}
