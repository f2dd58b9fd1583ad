//! Questions, answered inside a read transaction.

use std::collections::HashMap;
use std::sync::Arc;

use muster_domain::{GangId, Job, JobId, JobSet, SetId, Timestamp, Worker, WorkerId};
use muster_planner::WorkerView;

use super::claim::with_usage;
use super::visible::{Visible, only_shown_steps};
use super::why::why;
use super::{Policies, accounts, devices, overview, preview, secrets, standings, uploads, usage, webhooks};
use crate::error::StoreError;
use crate::query::{
    EventFilter, FinishedJob, GangFilter, GangView, JobFilter, JobPage, JobView, Query, Reply, SetCount,
    SetFilter, SetView, WorkerUsage,
};
use crate::tx::Tx;

/// Answers a question inside `tx`.
pub async fn read<T: Tx>(tx: &mut T, policies: &Policies, query: &Query) -> Result<Reply, StoreError> {
    Ok(match query {
        Query::Job(id) => {
            let found = tx.read_jobs(&[*id]).await?;
            Reply::Job(with_checkpoints(tx, found).await?.pop())
        }
        Query::Jobs(filter) => Reply::Jobs(page(tx, filter).await?),
        Query::Workers => Reply::Workers(workers(tx).await?),
        Query::Events(filter) => Reply::Events(tx.events(filter).await?),
        Query::LastEvent => Reply::LastEvent(tx.last_event().await?),
        Query::Finished { before, limit } => Reply::Finished(finished(tx, *before, *limit).await?),
        Query::Counts => Reply::Counts(tx.counts().await?),
        Query::Usage(filter) => Reply::Usage(usage::read(tx, filter).await?),
        Query::Ended(filter) => {
            let (jobs, complete) = usage::ended(tx, filter).await?;
            Reply::Ended(jobs, complete)
        }
        Query::Part { name, number } => Reply::Part(tx.part(name, *number).await?),
        Query::Artifacts(filter) => Reply::Artifacts(tx.artifacts(filter).await?),
        Query::ArtifactRuns(job) => Reply::ArtifactRuns(tx.artifact_runs(*job).await?),
        Query::KnownBlobs(blobs) => Reply::KnownBlobs(tx.known_blobs(blobs).await?),
        Query::MovedOutput(job) => Reply::MovedOutput(tx.outputs(&[*job]).await?),
        Query::MovedBytes => Reply::MovedBytes(tx.output_bytes().await?),
        Query::Instances => Reply::Instances(tx.instances().await?),
        Query::Stops(ids) => Reply::Stops(tx.stopping_jobs(ids).await?),
        Query::States(ids) => Reply::States(tx.read_jobs(ids).await?),
        Query::Queues => Reply::Queues(tx.queues().await?),
        Query::Standings => Reply::Standings(standings::all(tx).await?),
        Query::WaitingByUser(queues) => Reply::WaitingByUser(standings::waiting_by_user(tx, queues).await?),
        Query::Sets(filter) => Reply::Sets(sets(tx, filter).await?),
        Query::CancelPreview(ids) => Reply::CancelPreview(preview::cancel(tx, ids).await?),
        Query::Webhooks { counted } => Reply::Webhooks(webhooks::list(tx, *counted).await?),
        Query::Accounts => Reply::Accounts(accounts::accounts(tx).await?),
        Query::Account { name } => Reply::Account(accounts::account(tx, name).await?),
        Query::Credentials => Reply::Credentials(accounts::credentials(tx).await?),
        Query::Credential { digest } => Reply::Credential(accounts::credential(tx, digest).await?),
        Query::Audit(filter) => Reply::Audit(accounts::audit(tx, filter).await?),
        Query::DeadLetters(filter) => Reply::DeadLetters(tx.dead_letters(filter).await?),
        Query::Secrets(names) => Reply::Secrets(secrets::list(tx, names.as_deref()).await?),
        Query::SealingKeys(worker) => Reply::SealingKeys(secrets::keys(tx, worker.as_ref()).await?),
        Query::Uploads(uploads) => Reply::Uploads(uploads::list(tx, uploads.as_deref()).await?),
        Query::UploadUses => Reply::UploadUses(uploads::uses(tx).await?),
        Query::Gang(id) => {
            let mut tasks = tx.gang_tasks(&[*id]).await?;
            tasks.sort_unstable_by_key(index);
            Reply::Gang(with_checkpoints(tx, tasks).await?)
        }
        Query::Gangs(filter) => Reply::Gangs(gangs(tx, *filter).await?),
        Query::Overview { now } => Reply::Overview(overview::read(tx, policies, *now).await?),
        Query::Why { job, now } => Reply::Why(why(tx, policies, *job, *now).await?),
    })
}

fn index(task: &Job) -> u32 {
    task.spec.gang.as_ref().map_or(0, |gang| gang.index)
}

async fn gangs<T: Tx>(tx: &mut T, filter: GangFilter) -> Result<Vec<GangView>, StoreError> {
    let found = tx.gangs(filter.before_seq, filter.limit).await?;
    let ids: Vec<GangId> = found.iter().map(|(_, gang)| *gang).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut tasks: HashMap<GangId, Vec<Job>> = HashMap::new();
    for task in tx.gang_tasks(&ids).await? {
        if let Some(gang) = &task.spec.gang {
            tasks.entry(gang.id).or_default().push(task);
        }
    }
    let view = |(seq, id): (u64, GangId)| {
        let mut tasks = tasks.remove(&id).unwrap_or_default();
        tasks.sort_unstable_by_key(index);
        GangView { id, seq, tasks }
    };
    Ok(found.into_iter().map(view).collect())
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

async fn finished<T: Tx>(
    tx: &mut T,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<FinishedJob>, StoreError> {
    let ids = tx.finished_jobs(before, limit).await?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let jobs = tx.read_jobs(&ids).await?;
    let mut found = Vec::with_capacity(jobs.len());
    for view in with_checkpoints(tx, jobs).await? {
        let events = EventFilter { job: Some(view.job.id), after: 0, limit: usize::MAX };
        found.push(FinishedJob { events: tx.events(&events).await?, view });
    }
    Ok(found)
}

async fn sets<T: Tx>(tx: &mut T, filter: &SetFilter) -> Result<Vec<SetView>, StoreError> {
    let visible = Visible::to(tx, filter.seen_by.as_ref()).await?;
    let found = match &visible {
        Some(visible) => visible.sets(tx, filter).await?,
        None => tx.sets(filter).await?,
    };
    let ids: Vec<SetId> = found.iter().map(|set| set.id).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts: HashMap<SetId, Vec<SetCount>> = HashMap::new();
    for count in tx.count_sets(&ids).await? {
        counts.entry(count.set).or_default().push(count);
    }
    let view = |set: JobSet| {
        let mut view = SetView { counts: counts.remove(&set.id).unwrap_or_default(), set };
        if visible.is_some() {
            only_shown_steps(&mut view);
        }
        view
    };
    Ok(found.into_iter().map(view).collect())
}

async fn page<T: Tx>(tx: &mut T, filter: &JobFilter) -> Result<JobPage, StoreError> {
    if let Some(visible) = Visible::to(tx, filter.seen_by.as_ref()).await? {
        let (jobs, next) = visible.jobs(tx, filter).await?;
        return Ok(JobPage { jobs: with_checkpoints(tx, jobs).await?, next });
    }
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
    let with_gpus: Vec<WorkerId> =
        workers.iter().filter(|worker| !worker.devices.is_empty()).map(|worker| worker.id.clone()).collect();
    let mut holders = devices::holders(tx, &with_gpus).await?;
    let mut pair = |(worker, view): (Worker, WorkerView)| WorkerUsage {
        holders: holders
            .remove(&worker.id)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|held| Some((held.job, held.devices?)))
            .collect(),
        worker,
        used: view.used,
        running: view.running,
        exclusive: view.exclusive,
    };
    Ok(workers.into_iter().zip(views).map(&mut pair).collect())
}
