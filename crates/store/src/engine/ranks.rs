//! Ranks are written with jobs, by the policies in force then. When others come, or other pools, they are written anew,
//! piece by piece, so that nobody waits for it.
//!
//! Guarantee: once the last piece is written, the ranks of all that waits are those of the policies in force; jobs
//! that are written meanwhile get the new ones anyway.

use muster_domain::JobId;

use super::work::Work;
use crate::command::{Answer, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

pub(super) async fn write_anew<T: Tx>(
    work: &mut Work<'_, T>,
    after: u64,
    limit: usize,
) -> Result<Answer, StoreError> {
    let rule = work.policies.ranks_by();
    if work.tx.ranked_by().await?.as_ref() == Some(&rule) {
        return Ok(Ok(Outcome::Ranked { next: None }));
    }
    let jobs = work.tx.unfinished_after(after, limit).await?;
    let policies = work.policies;
    let moved: Vec<JobId> =
        jobs.iter().filter(|job| policies.rank_of(job) != job.rank).map(|job| job.id).collect();
    work.lock(moved.iter().copied()).await?;
    for id in moved {
        work.touch(id);
    }
    let next = jobs.last().map(|job| job.seq).filter(|_| jobs.len() >= limit);
    if next.is_none() {
        work.tx.note_ranked_by(&rule).await?;
    }
    Ok(Ok(Outcome::Ranked { next }))
}
