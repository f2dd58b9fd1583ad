//! What the caller of a request may see: asked for one job, for a page of events, for what an explanation names.
//!
//! Guarantee: callers who see everything cost no read; who may see what is decided by [`may_see`] alone.

use std::collections::HashSet;

use muster_domain::access::Principal;
use muster_domain::visibility::{JobFacts, may_see, sees_all};
use muster_domain::{Explanation, GangId, Job, JobId, Overview, QueueLists, QueueName, Unit};
use muster_store::StoreExt as _;

use crate::app::App;
use crate::error::ApiError;

/// A caller, with the lists of the queues as far as they matter to it.
#[derive(Debug)]
pub(crate) struct Visibility {
    /// `None` for one who sees everything.
    principal: Option<Principal>,
    lists: QueueLists,
}

impl Visibility {
    pub(crate) async fn of(app: &App, principal: &Principal) -> Result<Self, ApiError> {
        Self::reading(app, principal, true).await
    }

    /// Enough to decide about this job.
    pub(crate) async fn of_job(app: &App, principal: &Principal, job: &Job) -> Result<Self, ApiError> {
        Self::reading(app, principal, job.spec.queue.is_some()).await
    }

    async fn reading(app: &App, principal: &Principal, in_queue: bool) -> Result<Self, ApiError> {
        if sees_all(principal) {
            return Ok(Self { principal: None, lists: QueueLists::default() });
        }
        // Queues name users, no workers and no jobs.
        let named = in_queue && matches!(principal, Principal::User { .. });
        let lists = if named { QueueLists::of(&app.store.queues().await?) } else { QueueLists::default() };
        Ok(Self { principal: Some(principal.clone()), lists })
    }

    /// The users who administrate a queue.
    pub(crate) fn admins(&self, queue: &QueueName) -> Vec<String> {
        self.lists.admins(queue).to_vec()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.principal.is_none()
    }

    pub(crate) fn has(&self, job: &Job) -> bool {
        self.principal.as_ref().is_none_or(|principal| may_see(principal, &JobFacts::of(job), &self.lists))
    }

    /// Those of the jobs that exist and that it may see.
    pub(crate) async fn among(&self, app: &App, ids: Vec<JobId>) -> Result<HashSet<JobId>, ApiError> {
        if self.is_whole() {
            return Ok(ids.into_iter().collect());
        }
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let known = app.store.states(ids).await?;
        Ok(known.iter().filter(|job| self.has(job)).map(|job| job.id).collect())
    }

    async fn has_gang(&self, app: &App, gang: GangId) -> Result<bool, ApiError> {
        let tasks = app.store.gang(gang).await?;
        Ok(tasks.first().is_some_and(|view| self.has(&view.job)))
    }

    /// Those of the units that it may not see.
    async fn hidden(&self, app: &App, units: HashSet<Unit>) -> Result<HashSet<Unit>, ApiError> {
        let jobs = units.iter().filter_map(|unit| match unit {
            Unit::Job(id) => Some(*id),
            Unit::Gang(_) => None,
        });
        let visible = self.among(app, jobs.collect()).await?;
        let mut hidden = HashSet::new();
        for unit in units {
            let shown = match unit {
                Unit::Job(id) => visible.contains(&id),
                Unit::Gang(gang) => self.has_gang(app, gang).await?,
            };
            if !shown {
                hidden.insert(unit);
            }
        }
        Ok(hidden)
    }

    /// Takes out of an explanation whose the work is that stands in the way, where that may not be seen. Its id, which
    /// leads nowhere, stays, and so does what it takes.
    pub(crate) async fn redact_why(&self, app: &App, mut told: Explanation) -> Result<Explanation, ApiError> {
        if self.is_whole() {
            return Ok(told);
        }
        let units = told.classes.iter().flat_map(|class| &class.holders).map(|holder| holder.unit);
        let hidden = self.hidden(app, units.collect()).await?;
        for holder in told.classes.iter_mut().flat_map(|class| &mut class.holders) {
            if hidden.contains(&holder.unit) {
                (holder.queue, holder.user) = (None, None);
            }
        }
        Ok(told)
    }

    /// The same for the cluster as a whole.
    pub(crate) async fn redact_overview(&self, app: &App, mut told: Overview) -> Result<Overview, ApiError> {
        if self.is_whole() {
            return Ok(told);
        }
        let examples = told.waiting.iter().filter_map(|cause| cause.example.as_ref().map(|(unit, _)| *unit));
        let units = examples.chain(told.line.iter().map(|one| one.unit));
        let hidden = self.hidden(app, units.collect()).await?;
        for cause in &mut told.waiting {
            cause.example = cause.example.take().filter(|(unit, _)| !hidden.contains(unit));
        }
        for one in told.line.iter_mut().filter(|one| hidden.contains(&one.unit)) {
            (one.queue, one.user) = (None, None);
            one.reasons.clear();
        }
        Ok(told)
    }
}
