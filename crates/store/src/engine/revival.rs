//! What ended because of a job, or waits for it, when that job is run again.
//!
//! Guarantee: a job is judged after all those that it depends on and that come back as well, however many ways
//! lead to it, so that it waits for each of them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use muster_domain::{EndReason, Job, JobId, JobSpec, Needs, Phase, Trigger};

use super::work::Work;
use crate::error::StoreError;
use crate::tx::Tx;

/// Lets those that ended because of this job wait for it again.
pub(super) async fn dependants<T: Tx>(work: &mut Work<'_, T>, id: JobId) -> Result<(), StoreError> {
    // Those that wait for a gang wait for its first task.
    let root = work.unit(id);
    let below = downstream(work, root).await?;
    let mut unjudged: HashMap<JobId, usize> = HashMap::new();
    for child in below.values().flatten() {
        *unjudged.entry(*child).or_default() += 1;
    }
    // First in, first out: all tasks of a gang are judged before those that wait for the gang.
    let mut line = VecDeque::from([root]);
    while let Some(parent) = line.pop_front() {
        if parent != root {
            revive(work, parent).await?;
        }
        for child in below.get(&parent).into_iter().flatten() {
            let Some(left) = unjudged.get_mut(child) else { continue };
            *left -= 1;
            if *left == 0 {
                line.push_back(*child);
            }
        }
    }
    Ok(())
}

/// The dependants of a job, of those among them that ended because of it, and so on; all of them locked.
async fn downstream<T: Tx>(
    work: &mut Work<'_, T>,
    root: JobId,
) -> Result<HashMap<JobId, Vec<JobId>>, StoreError> {
    let mut below: HashMap<JobId, Vec<JobId>> = HashMap::new();
    let mut frontier = vec![root];
    while !frontier.is_empty() {
        let edges = work.tx.dependants(&frontier).await?;
        work.lock_whole(edges.iter().map(|edge| edge.child)).await?;
        for parent in frontier.drain(..) {
            below.entry(parent).or_default();
        }
        let mut next: BTreeSet<JobId> = BTreeSet::new();
        for edge in edges {
            below.entry(edge.parent).or_default().push(edge.child);
            if work.job(edge.child).is_ok_and(ended_with_another) {
                next.insert(work.unit(edge.child));
            }
        }
        frontier.extend(next.into_iter().filter(|unit| !below.contains_key(unit)));
    }
    Ok(below)
}

fn ended_with_another(job: &Job) -> bool {
    let (Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. }) = &job.phase else { return false };
    matches!(
        reason,
        EndReason::DependencyFailed { .. }
            | EndReason::DependencyCancelled { .. }
            | EndReason::Skipped { .. }
    )
}

/// Lets a job wait again for dependencies that are run again. One that another dependency keeps down, or that
/// has gone its own way, stays as it is.
async fn revive<T: Tx>(work: &mut Work<'_, T>, child: JobId) -> Result<(), StoreError> {
    let Ok(job) = work.job(child) else { return Ok(()) };
    let spec = Arc::clone(&job.spec);
    let needs = needs(work, &spec).await?;
    work.trigger(child, &Trigger::Revive { needs }).ok();
    Ok(())
}

/// How the dependencies of a job stand now.
pub(super) async fn needs<T: Tx>(work: &mut Work<'_, T>, spec: &JobSpec) -> Result<Needs, StoreError> {
    work.lock_whole(spec.depends_on.iter().copied()).await?;
    let mut needs = Needs::default();
    for (place, parent) in spec.depends_on.iter().enumerate() {
        let rule = spec.rule(place);
        match (work.job(*parent), work.unit_end(*parent)) {
            (Ok(_), Some((_, ended, _))) => needs.add(rule, ended),
            (Ok(_), None) => needs.wait_for(rule),
            (Err(_), _) => {}
        }
    }
    Ok(needs)
}
