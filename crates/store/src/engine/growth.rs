//! Jobs that ask for more memory after an attempt that ran out of it: no more than there is, so that none of them waits for
//! what nobody has.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::memory_growth::{asked_mb, most_by_quota, most_that_fits};
use muster_domain::queue_tree::Queues;
use muster_domain::{Job, JobId, Resources};

use super::work::Work;
use super::{Answers, submit};
use crate::error::StoreError;
use crate::tx::Tx;

/// Bounds what the jobs ask for that grew in this batch, writes it down, and tells it.
pub(crate) async fn apply<T: Tx>(work: &mut Work<'_, T>, answers: &mut Answers) -> Result<(), StoreError> {
    let grown = work.take_grown();
    if grown.is_empty() {
        return Ok(());
    }
    work.on_behalf_of_scheduler();
    work.refresh_workers().await?;
    let apart = work.tx.workers_apart(muster_domain::Timestamp::default()).await?;
    let offline: BTreeSet<_> = apart.into_iter().filter(|one| one.silent).map(|one| one.worker).collect();
    let queues: Queues =
        work.tx.queues().await?.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
    let mut changed = Vec::new();
    for (id, before_mb) in grown {
        let Ok(job) = work.job(id) else { continue };
        let fitting = work.roster.workers().filter(|worker| {
            let need = before(job, before_mb);
            let known = !worker.assumed && !offline.contains(&worker.id);
            known && need.fits_in(&worker.resources) && job.spec.tags.is_subset(&worker.tags)
        });
        let workers_mb: Vec<u64> = fitting.map(|worker| worker.resources.memory_mb).collect();
        let bounds = Bounds {
            machines: most_that_fits(&workers_mb, tasks(job), per_worker(job)),
            quota: most_by_quota(&queues, job.spec.queue.as_ref()).map(|most| most / u64::from(tasks(job))),
        };
        let (memory_mb, what) = bounds.judge(before_mb, asked_mb(&job.spec));
        work.ask_for_memory(id, memory_mb, what);
        changed.extend(work.job(id).cloned());
    }
    rewrite(work, &mut changed).await?;
    // Who reported the end is told what became of the job.
    for job in &changed {
        answers.renew(job);
    }
    Ok(())
}

/// Names the new shapes and writes what the jobs ask for now.
async fn rewrite<T: Tx>(work: &mut Work<'_, T>, jobs: &mut [Job]) -> Result<(), StoreError> {
    submit::name_shapes(work, jobs).await?;
    work.tx.rewrite_jobs(jobs).await?;
    for job in jobs {
        work.rename_shape(job.id, job.shape);
    }
    Ok(())
}

/// What grew in a batch, with what was asked for before.
pub(crate) type Grown = BTreeMap<JobId, u64>;

fn before(job: &Job, memory_mb: u64) -> Resources {
    Resources { memory_mb, ..job.spec.resources.clone().unwrap_or_default() }
}

/// How many tasks must start together.
fn tasks(job: &Job) -> u32 {
    job.spec.gang.as_ref().map_or(1, |gang| gang.min.unwrap_or(gang.size)).max(1)
}

fn per_worker(job: &Job) -> u32 {
    job.spec.gang.as_ref().map_or(1, |gang| gang.per_worker)
}

/// What nobody gets more than; `None` where that is not known.
struct Bounds {
    machines: Option<u64>,
    quota: Option<u64>,
}

impl Bounds {
    /// What the next attempt asks for, and that in words.
    fn judge(&self, before_mb: u64, wanted_mb: u64) -> (u64, String) {
        let most = [(self.machines, "its workers have"), (self.quota, "its queue may hold")];
        let lowest = most.into_iter().filter_map(|(most, of)| Some((most?, of))).min();
        let bound = lowest.filter(|(most, _)| *most < wanted_mb);
        let memory_mb = bound.map_or(wanted_mb, |(most, _)| most).max(before_mb);
        let bound = bound.map(|(_, of)| format!(", the most that {of}")).unwrap_or_default();
        let what = if memory_mb == before_mb {
            format!("memory_mb stays at {before_mb}{bound}, although an attempt ran out of it")
        } else {
            format!("memory_mb {before_mb} to {memory_mb}{bound}, because an attempt ran out of it")
        };
        (memory_mb, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bound_counts_and_is_named() {
        let judge = |machines, quota, before, wanted| Bounds { machines, quota }.judge(before, wanted);
        assert_eq!(judge(None, None, 64, 128).0, 128);
        let (memory_mb, what) = judge(Some(100), Some(120), 64, 128);
        assert_eq!(memory_mb, 100);
        assert_eq!(
            what,
            "memory_mb 64 to 100, the most that its workers have, because an attempt ran out of it"
        );
        let (memory_mb, what) = judge(Some(300), Some(40), 64, 128);
        assert_eq!(memory_mb, 64);
        assert_eq!(
            what,
            "memory_mb stays at 64, the most that its queue may hold, although an attempt ran out of it"
        );
    }
}
