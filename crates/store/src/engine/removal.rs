//! Removal of finished jobs, one small step at a time.
//!
//! Guarantee: what was chosen a moment ago is judged again under its lock. A job that runs again, that ended
//! later than asked, or that unfinished work depends on, stays.

use std::collections::HashSet;

use muster_domain::{Job, JobId, Timestamp};

use super::work::Work;
use super::{Answers, pick};
use crate::command::{Command, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

/// Empty sets in one step.
const SETS: usize = 200;

/// Makes every removal of the batch.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let removals = pick(commands, |command| match command {
        Command::Remove(removal) => Some(removal),
        _ => None,
    });
    for (position, removal) in removals {
        let count = if removal.jobs.is_empty() {
            work.tx.delete_empty_sets(removal.before, SETS).await?
        } else {
            remove(work, &removal.jobs, removal.before).await?
        };
        answers.put(position, Ok(Outcome::Removed(count)));
    }
    Ok(())
}

/// Removes those of the jobs that may go, and says how many.
pub(super) async fn remove<T: Tx>(
    work: &mut Work<'_, T>,
    ids: &[JobId],
    before: Timestamp,
) -> Result<u32, StoreError> {
    work.lock_whole(ids.iter().copied()).await?;
    let over = |job: &Job| job.is_terminal() && job.done_at().is_some_and(|at| at < before);
    // A task stays as long as its gang has not ended.
    let gang_over = |id: &JobId| match work.job(*id).ok().and_then(|job| job.spec.gang.as_ref()) {
        Some(gang) => work.tasks_of(gang.id).iter().all(Job::is_terminal),
        None => true,
    };
    let going = ids.iter().copied().filter(|id| work.job(*id).is_ok_and(over) && gang_over(id));
    let mut going: Vec<JobId> = going.collect();
    if going.is_empty() {
        return Ok(0);
    }
    let needed = needed(work, &going).await?;
    going.retain(|id| !needed.contains(id));
    if going.is_empty() {
        return Ok(0);
    }
    take_out(work, &going).await?;
    Ok(going.len() as u32)
}

/// Removes jobs that have ended and are locked, and notes when the last of them ended, for those who will not find
/// its end in the log.
pub(super) async fn take_out<T: Tx>(work: &mut Work<'_, T>, going: &[JobId]) -> Result<(), StoreError> {
    if let Some(newest) = going.iter().filter_map(|id| work.job(*id).ok()?.done_at()).max() {
        work.tx.note_removed(newest).await?;
    }
    work.tx.delete_jobs(going).await?;
    for id in going {
        work.forget(*id);
    }
    Ok(())
}

/// Those of the jobs that unfinished work depends on.
async fn needed<T: Tx>(work: &mut Work<'_, T>, parents: &[JobId]) -> Result<HashSet<JobId>, StoreError> {
    let edges = work.tx.dependants(parents).await?;
    if edges.is_empty() {
        return Ok(HashSet::new());
    }
    let children: Vec<JobId> = edges.iter().map(|edge| edge.child).collect();
    let read = work.tx.read_jobs(&children).await?;
    let open: HashSet<JobId> = read.iter().filter(|job| !job.is_terminal()).map(|job| job.id).collect();
    // What this batch has changed already is not yet written.
    let waits = |child: JobId| work.job(child).map_or(open.contains(&child), |job| !job.is_terminal());
    Ok(edges.iter().filter(|edge| waits(edge.child)).map(|edge| edge.parent).collect())
}
