//! What a cancel would end, tried on copies: the rules are asked, nothing is written.

use std::collections::HashMap;

use muster_domain::{EndReason, Job, JobId, Phase, Status, Timestamp, Trigger, transition};

use crate::error::StoreError;
use crate::query::CancelPreview;
use crate::tx::Tx;

/// These jobs, and all tasks of the gangs that they belong to.
async fn whole<T: Tx>(tx: &mut T, ids: &[JobId]) -> Result<Vec<Job>, StoreError> {
    let mut all: Vec<JobId> = ids.to_vec();
    all.extend(tx.siblings(ids).await?);
    all.sort_unstable();
    all.dedup();
    tx.read_jobs(&all).await
}

/// Cancels copies of these jobs and tells their dependants, level by level.
pub(super) async fn cancel<T: Tx>(tx: &mut T, ids: &[JobId]) -> Result<CancelPreview, StoreError> {
    // Ends carry a time that nobody will see.
    let now = Timestamp::default();
    let mut preview = CancelPreview::default();
    let mut copies: HashMap<JobId, Job> = HashMap::new();
    let mut ended: Vec<JobId> = Vec::new();
    for mut job in whole(tx, ids).await? {
        let runs = matches!(job.status(), Status::Running | Status::Preempting);
        if job.spec.gang.is_some() {
            // All tasks of a gang are cancelled together.
            if job.is_terminal() {
                continue;
            }
            job.phase = Phase::Cancelled { at: now, reason: EndReason::Cancelled { message: None } };
        } else if transition(&mut job, &Trigger::Cancel { message: None }, now).is_err() {
            continue;
        }
        if runs {
            preview.stopping.push(job.id);
            job.phase = Phase::Cancelled { at: now, reason: EndReason::Cancelled { message: None } };
        } else {
            preview.cancelled.push(job.id);
        }
        ended.push(job.id);
        copies.insert(job.id, job);
    }
    let mut after_a_stop: Vec<JobId> = preview.stopping.clone();
    while !ended.is_empty() {
        let edges = tx.dependants(&ended).await?;
        let unread: Vec<JobId> =
            edges.iter().map(|edge| edge.child).filter(|child| !copies.contains_key(child)).collect();
        copies.extend(tx.read_jobs(&unread).await?.into_iter().map(|job| (job.id, job)));
        ended.clear();
        for edge in edges {
            let Some(parent) = copies.get(&edge.parent) else { continue };
            let (Some(how), ancestor) = (parent.ended(), parent.root_cause()) else { continue };
            let Some(child) = copies.get_mut(&edge.child) else { continue };
            let trigger = Trigger::DependencyEnded { rule: edge.rule, ended: how, ancestor };
            if transition(child, &trigger, now).is_err() || !child.is_terminal() {
                continue;
            }
            if after_a_stop.contains(&edge.parent) {
                after_a_stop.push(edge.child);
                preview.following.push(edge.child);
            } else {
                preview.cancelled.push(edge.child);
            }
            ended.push(edge.child);
        }
    }
    Ok(preview)
}
