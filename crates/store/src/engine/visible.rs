//! Lists as one caller may see them: what it may not see is left out, and the place where the list goes on stays right.
//!
//! Guarantee: what is left out never ends a list; a page is short only when the list has ended or much of it was passed
//! over, and then its cursor says where to go on.

use std::collections::BTreeSet;

use muster_domain::access::Principal;
use muster_domain::visibility::{JobFacts, may_see, sees_all};
use muster_domain::{Job, JobId, JobSet, QueueLists, QueueName, SetKind};

use crate::error::StoreError;
use crate::query::{JobFilter, SetCount, SetFilter, SetView};
use crate::tx::{Tx, UsageEntry};

/// Jobs that are read at a time, and that are passed over for one page.
const STEP: usize = 500;
const MOST_PASSED: usize = 20_000;
/// Sets up to this size are read whole to find their visible steps; of larger ones a job of each step is.
const READ_WHOLE: usize = 200;

/// What a caller sees.
pub(super) struct Visible<'p> {
    principal: &'p Principal,
    lists: QueueLists,
}

impl<'p> Visible<'p> {
    /// `None` when the caller sees everything.
    pub(super) async fn to<T: Tx>(
        tx: &mut T,
        principal: Option<&'p Principal>,
    ) -> Result<Option<Self>, StoreError> {
        let Some(principal) = principal.filter(|principal| !sees_all(principal)) else { return Ok(None) };
        Ok(Some(Self { principal, lists: QueueLists::of(&tx.queues().await?) }))
    }

    pub(super) fn has(&self, job: &Job) -> bool {
        may_see(self.principal, &JobFacts::of(job), &self.lists)
    }

    /// Sums are seen by those who may see jobs like those that they are made of.
    pub(super) fn has_usage(&self, entry: &UsageEntry, queue: &QueueName) -> bool {
        let facts = JobFacts {
            id: JobId::from_random([0; 16]),
            owner: Some(entry.user.as_str()).filter(|user| !user.is_empty()),
            private: entry.private,
            queue: Some(queue).filter(|queue| !queue.as_str().is_empty()),
            worker: None,
        };
        may_see(self.principal, &facts, &self.lists)
    }

    /// Visible jobs, no more than `limit`, and where the list goes on.
    pub(super) async fn jobs<T: Tx>(
        &self,
        tx: &mut T,
        filter: &JobFilter,
    ) -> Result<(Vec<Job>, Option<u64>), StoreError> {
        let limit = filter.limit.unwrap_or(usize::MAX);
        let (mut jobs, mut before_seq, mut passed) = (Vec::new(), filter.before_seq, 0);
        loop {
            let step = STEP.min(limit.saturating_add(1));
            let piece = JobFilter { before_seq, limit: Some(step), seen_by: None, ..filter.clone() };
            let found = tx.list_jobs(&piece).await?;
            let last = found.len() < step;
            for job in found {
                let seq = job.seq;
                if !self.has(&job) {
                    passed += 1;
                } else if jobs.len() == limit {
                    // One more than asked for tells that there is a next page.
                    return Ok((jobs, before_seq));
                } else {
                    jobs.push(job);
                }
                before_seq = Some(seq);
            }
            if last {
                return Ok((jobs, None));
            }
            if passed >= MOST_PASSED && filter.limit.is_some() {
                return Ok((jobs, before_seq));
            }
        }
    }

    /// Sets with something visible in them.
    pub(super) async fn sets<T: Tx>(
        &self,
        tx: &mut T,
        filter: &SetFilter,
    ) -> Result<Vec<JobSet>, StoreError> {
        let limit = filter.limit.unwrap_or(usize::MAX);
        let (mut sets, mut before_seq) = (Vec::new(), filter.before_seq);
        loop {
            let step = limit.min(STEP);
            let piece = SetFilter { before_seq, limit: Some(step), seen_by: None, ..filter.clone() };
            let found = tx.sets(&piece).await?;
            let last = found.len() < step;
            for set in found {
                before_seq = Some(set.seq);
                if let Some(set) = self.of_set(tx, set).await? {
                    sets.push(set);
                }
                if sets.len() == limit {
                    return Ok(sets);
                }
            }
            if last {
                return Ok(sets);
            }
        }
    }

    /// The set as far as it is visible; `None` when nothing of it is.
    async fn of_set<T: Tx>(&self, tx: &mut T, mut set: JobSet) -> Result<Option<JobSet>, StoreError> {
        let of = |step: Option<String>, limit: usize| JobFilter {
            set: Some(set.id),
            step,
            limit: Some(limit),
            ..JobFilter::default()
        };
        // The jobs of a step, and the elements of an array, are alike in what decides. Of a set or a step that has no jobs
        // any more nobody can tell.
        let mut jobs = Vec::new();
        if set.kind == SetKind::Array {
            jobs = tx.list_jobs(&of(None, 1)).await?;
        } else if set.size as usize <= READ_WHOLE {
            jobs = tx.list_jobs(&of(None, READ_WHOLE)).await?;
        } else {
            for step in &set.outline {
                jobs.extend(tx.list_jobs(&of(Some(step.name.clone()), 1)).await?);
            }
        }
        jobs.retain(|job| self.has(job));
        if jobs.is_empty() {
            return Ok(None);
        }
        let open: BTreeSet<&str> =
            jobs.iter().filter_map(|job| job.member.as_ref()?.step.as_deref()).collect();
        set.outline.retain(|step| open.contains(step.name.as_str()));
        for step in &mut set.outline {
            step.needs.retain(|(name, _)| open.contains(name.as_str()));
        }
        Ok(Some(set))
    }
}

/// Leaves out the counts of steps that the set, as it is shown, does not have.
pub(super) fn only_shown_steps(view: &mut SetView) {
    if view.set.kind == SetKind::Array {
        return;
    }
    let names: BTreeSet<&str> = view.set.outline.iter().map(|step| step.name.as_str()).collect();
    view.counts.retain(|count: &SetCount| count.step.as_deref().is_none_or(|step| names.contains(step)));
    view.set.size = view.counts.iter().map(|count| count.jobs).sum::<u64>() as u32;
}
