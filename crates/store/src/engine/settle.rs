//! Dependencies: what the end of a job means for those that wait for it, in the same transaction.

use std::collections::{BTreeSet, HashSet};

use muster_domain::{GangId, JobId, ReportKind, Trigger};

use super::work::Work;
use crate::artifacts::KeepArtifacts;
use crate::command::{CheckpointPart, Command, Submit};
use crate::error::StoreError;
use crate::tx::Tx;

/// Locks every row that the batch will touch before it is decided upon, all in one order, so that two
/// schedulers never wait for each other. A backend with a single writer need not look ahead.
pub(crate) async fn lock_in_order<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
) -> Result<(), StoreError> {
    // Some jobs are locked alone, even where they belong to a gang.
    let (mut ids, mut alone) = (BTreeSet::<JobId>::new(), BTreeSet::<JobId>::new());
    // Jobs that may end well release their dependants; those that may end badly take all below with them.
    let (mut shallow, mut deep, mut gangs) = (Vec::new(), Vec::new(), Vec::<GangId>::new());
    for command in commands {
        match command {
            Command::Report(report) => {
                ids.insert(report.job);
                match report.kind {
                    ReportKind::Done | ReportKind::Finished => shallow.push(report.job),
                    ReportKind::Released => {}
                    _ => deep.push(report.job),
                }
            }
            Command::AcknowledgeStop { job, .. } | Command::Cancel { job, .. } | Command::Retry { job } => {
                ids.insert(*job);
                deep.push(*job);
            }
            Command::Heartbeat { job, .. }
            | Command::SaveCheckpoint { job, .. }
            | Command::NoteImage { job, .. }
            | Command::PutPart(CheckpointPart { job, .. })
            | Command::KeepArtifacts(KeepArtifacts { job, .. }) => alone.extend([*job]),
            Command::Hold { job, .. }
            | Command::NoteTerminal { job, .. }
            | Command::Prepared { job, .. }
            | Command::Preempt { job, .. }
            | Command::Release { job }
            | Command::Edit { job, .. }
            | Command::Delete { job } => {
                ids.insert(*job);
            }
            Command::MoveOutput(outputs) => alone.extend(outputs.iter().map(|output| output.job)),
            Command::Submit(submit) => waited_for(submit, &mut ids, &mut gangs),
            Command::Claim(_)
            | Command::NoteInstance(_)
            | Command::RegisterWorker(_)
            | Command::ReleaseWorker { .. }
            | Command::Introduce { .. }
            | Command::WorkerHeartbeat { .. }
            | Command::PutQueue(_)
            | Command::ExpireArtifacts(_)
            | Command::ExpireOutput(_)
            | Command::RemoveQueue { .. }
            | Command::Webhook(_)
            | Command::Secrets(_)
            | Command::Uploads(_)
            | Command::Account(_)
            | Command::Remove(_)
            | Command::Plan(_)
            | Command::Lead(_)
            | Command::Led { .. }
            | Command::Attributed(_)
            | Command::Secret { .. }
            | Command::Rank { .. }
            | Command::Sweep(_) => {}
        }
    }
    add_tasks(work, &mut ids, &gangs).await?;
    if !T::EXCLUSIVE {
        look_ahead(work, &mut ids, shallow, deep).await?;
    }
    work.lock(ids.iter().copied().chain(alone)).await?;
    work.lock_whole(ids).await
}

/// Adds the tasks of gangs that are depended on.
async fn add_tasks<T: Tx>(
    work: &mut Work<'_, T>,
    ids: &mut BTreeSet<JobId>,
    gangs: &[GangId],
) -> Result<(), StoreError> {
    if !gangs.is_empty() {
        ids.extend(work.tx.gang_tasks(gangs).await?.iter().map(|task| task.id));
    }
    Ok(())
}

/// Adds the jobs and gangs that a submission depends on.
fn waited_for(submit: &Submit, ids: &mut BTreeSet<JobId>, gangs: &mut Vec<GangId>) {
    let named = submit.jobs.iter().flat_map(|job| &job.depends_on);
    ids.extend(named.clone().filter_map(|name| name.parse::<JobId>().ok()));
    gangs.extend(named.filter_map(|name| gang_name(name)));
}

/// A gang that is named as a dependency.
pub(super) fn gang_name(name: &str) -> Option<GangId> {
    name.starts_with(GangId::PREFIX).then(|| name.parse().ok()).flatten()
}

/// Adds the rows that the named jobs may drag along. Edges never change once written, so that reading
/// them without a lock is safe; one written meanwhile is found when the end is settled.
async fn look_ahead<T: Tx>(
    work: &mut Work<'_, T>,
    ids: &mut BTreeSet<JobId>,
    shallow: Vec<JobId>,
    deep: Vec<JobId>,
) -> Result<(), StoreError> {
    // What happens to one task happens to its gang, and others wait for the first task of it.
    let named: Vec<JobId> = ids.iter().copied().collect();
    let siblings = if named.is_empty() { Vec::new() } else { work.tx.siblings(&named).await? };
    ids.extend(&siblings);
    let (mut shallow, mut deep) = (shallow, deep);
    if !siblings.is_empty() {
        deep.extend(&siblings);
    }
    shallow.retain(|id| !siblings.contains(id));
    if !shallow.is_empty() {
        ids.extend(work.tx.dependants(&shallow).await?.into_iter().map(|edge| edge.child));
    }
    let mut seen: HashSet<JobId> = deep.iter().copied().collect();
    let mut frontier = deep;
    while !frontier.is_empty() {
        let edges = work.tx.dependants(&frontier).await?;
        frontier = edges.into_iter().map(|edge| edge.child).filter(|child| seen.insert(*child)).collect();
        if !frontier.is_empty() {
            let siblings = work.tx.siblings(&frontier).await?;
            frontier.extend(siblings.into_iter().filter(|task| seen.insert(*task)));
        }
        ids.extend(&frontier);
    }
    Ok(())
}

/// Tells the dependants of every job that ended, level by level, until nobody is left to tell. What becomes of them is the
/// scheduler's doing.
pub(crate) async fn dependants<T: Tx>(work: &mut Work<'_, T>) -> Result<(), StoreError> {
    work.on_behalf_of_scheduler();
    loop {
        let ended = work.take_ended();
        if ended.is_empty() {
            return Ok(());
        }
        work.lock_whole(ended.iter().copied()).await?;
        // A gang has ended when the last of its tasks has; those that wait for it wait for its first task.
        let units: BTreeSet<JobId> = ended.iter().filter_map(|id| Some(work.unit_end(*id)?.0)).collect();
        let units: Vec<JobId> = units.into_iter().collect();
        if units.is_empty() {
            continue;
        }
        let mut edges = work.tx.dependants(&units).await?;
        edges.sort_unstable_by_key(|edge| (edge.parent, edge.child));
        work.lock_whole(edges.iter().map(|edge| edge.child)).await?;
        for edge in edges {
            let Some((_, ended, ancestor)) = work.unit_end(edge.parent) else { continue };
            let trigger = Trigger::DependencyEnded { rule: edge.rule, ended, ancestor };
            // A child that is no longer blocked has ended before (cancelled, or through another
            // parent): there is nothing left to tell it.
            let _already_ended = work.trigger(edge.child, &trigger);
        }
    }
}
