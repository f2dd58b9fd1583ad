//! Questions, answered inside a read transaction.

use std::collections::HashMap;
use std::sync::Arc;

use muster_domain::{Job, JobId, Phase, Reason, Status, Worker, WorkerStatus};
use muster_planner::{WorkerView, explain};

use super::claim::with_usage;
use crate::error::StoreError;
use crate::query::{JobFilter, JobPage, JobView, Query, Reply, WorkerUsage};
use crate::tx::Tx;

/// Answers a question inside `tx`.
pub async fn read<T: Tx>(tx: &mut T, query: &Query) -> Result<Reply, StoreError> {
    Ok(match query {
        Query::Job(id) => {
            let found = tx.read_jobs(&[*id]).await?;
            Reply::Job(with_checkpoints(tx, found).await?.pop())
        }
        Query::Jobs(filter) => Reply::Jobs(page(tx, filter).await?),
        Query::Workers => Reply::Workers(workers(tx).await?),
        Query::Events(filter) => Reply::Events(tx.events(filter).await?),
        Query::LastEvent => Reply::LastEvent(tx.last_event().await?),
        Query::Counts => Reply::Counts(tx.counts().await?),
        Query::Stops(ids) => Reply::Stops(tx.stopping_jobs(ids).await?),
        Query::Why(id) => Reply::Why(why(tx, *id).await?),
    })
}

async fn with_checkpoints<T: Tx>(tx: &mut T, jobs: Vec<Job>) -> Result<Vec<JobView>, StoreError> {
    let ids: Vec<JobId> =
        jobs.iter().filter(|job| job.checkpoint_bytes.is_some()).map(|job| job.id).collect();
    let mut found: HashMap<JobId, Arc<[u8]>> = match ids.as_slice() {
        [] => HashMap::new(),
        ids => tx.checkpoints(ids).await?.into_iter().map(|(id, bytes)| (id, Arc::from(bytes))).collect(),
    };
    Ok(jobs.into_iter().map(|job| JobView { checkpoint: found.remove(&job.id), job }).collect())
}

async fn page<T: Tx>(tx: &mut T, filter: &JobFilter) -> Result<JobPage, StoreError> {
    // One more than asked for tells whether there is a next page.
    let beyond = JobFilter { limit: filter.limit.map(|limit| limit.saturating_add(1)), ..filter.clone() };
    let mut jobs = tx.list_jobs(&beyond).await?;
    let mut next = None;
    if let Some(limit) = filter.limit.filter(|limit| jobs.len() > *limit) {
        jobs.truncate(limit);
        next = jobs.last().map(|job| job.seq);
    }
    Ok(JobPage { jobs: with_checkpoints(tx, jobs).await?, next })
}

async fn workers<T: Tx>(tx: &mut T) -> Result<Vec<WorkerUsage>, StoreError> {
    let workers = tx.workers().await?;
    let views = with_usage(tx, workers.clone()).await?;
    let pair =
        |(worker, view): (Worker, WorkerView)| WorkerUsage { worker, used: view.used, running: view.running };
    Ok(workers.into_iter().zip(views).map(pair).collect())
}

/// The active workers as placement sees them; none of them asks.
pub(super) async fn worker_views<T: Tx>(tx: &mut T) -> Result<Vec<WorkerView>, StoreError> {
    let mut workers = tx.workers().await?;
    workers.retain(|worker| worker.status == WorkerStatus::Active);
    with_usage(tx, workers).await
}

async fn why<T: Tx>(tx: &mut T, id: JobId) -> Result<Option<(Job, Vec<Reason>)>, StoreError> {
    let Some(job) = tx.read_jobs(&[id]).await?.pop() else { return Ok(None) };
    let reasons = match &job.phase {
        Phase::Pending => {
            let ahead = tx.count_ahead(&job).await?;
            explain(&job.spec.requirement(), &worker_views(tx).await?, ahead)
        }
        Phase::Blocked { .. } => unfinished_dependencies(tx, &job).await?,
        Phase::Reserved { worker, .. } => vec![Reason::Running { worker: Some(worker.clone()), since: None }],
        Phase::Running { worker, .. } => {
            vec![Reason::Running { worker: worker.clone(), since: job.started_at }]
        }
        Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } => {
            vec![Reason::Stopping { why: stop.to_string() }]
        }
        Phase::Done { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
            vec![Reason::Ended { status: job.status(), why: job.reason() }]
        }
    };
    Ok(Some((job, reasons)))
}

async fn unfinished_dependencies<T: Tx>(tx: &mut T, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let parents = tx.read_jobs(&job.spec.depends_on).await?;
    let unfinished = parents.iter().filter(|parent| parent.status() != Status::Done);
    Ok(unfinished.map(|parent| Reason::Dependency { job: parent.id, status: parent.status() }).collect())
}
