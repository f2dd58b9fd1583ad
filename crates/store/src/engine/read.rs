//! Questions, answered inside a read transaction.

use std::collections::HashMap;
use std::sync::Arc;

use muster_domain::{
    Entrant, GangId, Job, JobId, JobSet, Phase, Reason, SetId, Status, Timestamp, Turn, Unit, Worker,
    WorkerId, WorkerStatus,
};
use muster_planner::{WorkerView, explain, explain_gang};

use super::claim::with_usage;
use super::gates::Gates;
use super::{Policy, devices, plan, preview, quotas, standings, webhooks};
use crate::error::StoreError;
use crate::query::{
    EventFilter, FinishedJob, GangFilter, GangView, JobFilter, JobPage, JobView, Query, Reply, SetCount,
    SetFilter, SetView, WorkerUsage,
};
use crate::tx::{Tx, WaitingGang};

/// Answers a question inside `tx`.
pub async fn read<T: Tx>(tx: &mut T, policy: Policy, query: &Query) -> Result<Reply, StoreError> {
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
        Query::Stops(ids) => Reply::Stops(tx.stopping_jobs(ids).await?),
        Query::Queues => Reply::Queues(tx.queues().await?),
        Query::Standings => Reply::Standings(standings::all(tx).await?),
        Query::WaitingByUser(queues) => Reply::WaitingByUser(standings::waiting_by_user(tx, queues).await?),
        Query::Sets(filter) => Reply::Sets(sets(tx, filter).await?),
        Query::CancelPreview(ids) => Reply::CancelPreview(preview::cancel(tx, ids).await?),
        Query::Webhooks { counted } => Reply::Webhooks(webhooks::list(tx, *counted).await?),
        Query::DeadLetters(filter) => Reply::DeadLetters(tx.dead_letters(filter).await?),
        Query::Gang(id) => {
            let mut tasks = tx.gang_tasks(&[*id]).await?;
            tasks.sort_unstable_by_key(index);
            Reply::Gang(with_checkpoints(tx, tasks).await?)
        }
        Query::Gangs(filter) => Reply::Gangs(gangs(tx, *filter).await?),
        Query::Why(id) => Reply::Why(why(tx, policy, *id).await?),
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
    let found = tx.sets(filter).await?;
    let ids: Vec<SetId> = found.iter().map(|set| set.id).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts: HashMap<SetId, Vec<SetCount>> = HashMap::new();
    for count in tx.count_sets(&ids).await? {
        counts.entry(count.set).or_default().push(count);
    }
    let view = |set: JobSet| SetView { counts: counts.remove(&set.id).unwrap_or_default(), set };
    Ok(found.into_iter().map(view).collect())
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

/// The active workers as placement sees them; none of them asks.
pub(super) async fn worker_views<T: Tx>(tx: &mut T) -> Result<Vec<WorkerView>, StoreError> {
    let mut workers = tx.workers().await?;
    workers.retain(|worker| worker.status == WorkerStatus::Active && worker.health.quarantine.is_none());
    with_usage(tx, workers).await
}

async fn why<T: Tx>(tx: &mut T, policy: Policy, id: JobId) -> Result<Option<(Job, Vec<Reason>)>, StoreError> {
    let Some(job) = tx.read_jobs(&[id]).await?.pop() else { return Ok(None) };
    let reasons = match &job.phase {
        Phase::Pending => pending(tx, policy, &job).await?,
        Phase::Delayed { until } => vec![delay(&job, *until)],
        Phase::Held { until } => {
            let held = Reason::Held { why: hold(&job) };
            std::iter::once(held).chain(until.map(|until| delay(&job, until))).collect()
        }
        Phase::Blocked { .. } => {
            let mut reasons = unfinished_dependencies(tx, &job).await?;
            reasons.extend(job.hold.is_some().then(|| Reason::Held { why: hold(&job) }));
            if reasons.is_empty() && job.spec.gang.is_some() {
                reasons = waiting_task(tx, &job).await?;
                reasons.extend(standings::of_job(policy, &job));
            }
            reasons
        }
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

fn hold(job: &Job) -> String {
    job.hold.as_ref().map_or_else(|| "held".to_owned(), ToString::to_string)
}

fn delay(job: &Job, until: Timestamp) -> Reason {
    if job.closed.is_some() {
        return Reason::BackOff { until, attempt: job.attempts };
    }
    Reason::NotBefore { until }
}

/// A task of a gang that waits for nothing but its placement.
async fn waiting_task<T: Tx>(tx: &mut T, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let Some(gang) = job.spec.gang.as_ref() else { return Ok(Vec::new()) };
    let tasks = tx.gang_tasks(&[gang.id]).await?;
    let open: Vec<&Job> = tasks.iter().filter(|task| !task.is_terminal()).collect();
    let least = gang.min.unwrap_or(u32::MAX).min(open.len() as u32);
    let mut reasons = gates(tx, job, least).await?;
    if open.iter().any(|task| task.status() != Status::Blocked) {
        reasons.push(Reason::Spared { gang: gang.id });
        return Ok(reasons);
    }
    // A read does not know the time: who asked leaves out what is over.
    if job.closed.is_some() || job.spec.not_before == Some(job.ready_at) {
        reasons.push(delay(job, job.ready_at));
    }
    let waiting = WaitingGang { first: job.clone(), tasks: open.len() as u32 };
    if let Some(candidate) = plan::candidate(&waiting, &Gates::default(), Timestamp::default()) {
        let mut views = worker_views(tx).await?;
        devices::read_for(tx, [&candidate.requirement], &mut views).await?;
        reasons.extend(explain_gang(&candidate, &views));
    }
    Ok(reasons)
}

/// The gates in front of a pending job, then the room.
async fn pending<T: Tx>(tx: &mut T, policy: Policy, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let mut reasons = gates(tx, job, 1).await?;
    let workers = tx.workers().await?;
    let set_aside = workers.iter().filter(|worker| worker.status == WorkerStatus::Active);
    reasons.extend(set_aside.filter_map(|worker| {
        let until = worker.health.quarantine.as_ref()?.probe_at;
        Some(Reason::Quarantined { worker: worker.id.clone(), until })
    }));
    let in_turn = if policy.is_fair() { standings::in_turn(tx, job).await? } else { None };
    // Where queues take turns, age does not say who goes first.
    let ahead = if in_turn.is_some() { 0 } else { tx.count_ahead(job).await? };
    let (need, mut views) = (job.spec.requirement(), worker_views(tx).await?);
    devices::read_for(tx, [&need], &mut views).await?;
    // A read does not know the time, and so not when the job would end.
    let turn = Turn::new(job.rank, job.seq);
    let entrant = Entrant { unit: Unit::Job(job.id), turn, need: &need.resources, ends: None };
    reasons.extend(explain(&need, &entrant, &views, ahead));
    reasons.extend(in_turn.flatten());
    reasons.extend(standings::of_job(policy, job));
    Ok(reasons)
}

/// What keeps a job, or so many that start together, from starting apart from room.
async fn gates<T: Tx>(tx: &mut T, job: &Job, jobs: u32) -> Result<Vec<Reason>, StoreError> {
    let mut reasons = Vec::new();
    if let Some(name) = &job.spec.queue {
        let queues = tx.queues().await?;
        if let Some(queue) = queues.iter().find(|queue| queue.name == *name) {
            let paused = queue.paused.then(|| Reason::QueuePaused { queue: name.clone() });
            let limited = queue.next_start().map(|until| Reason::RateLimited { queue: name.clone(), until });
            reasons.extend(paused.into_iter().chain(limited));
        }
        reasons.extend(quotas::reasons(tx, &job.spec.shape(), jobs).await?);
    }
    if let Some(limit) = &job.spec.concurrency {
        let holders = tx.holders_of_key(&limit.key, limit.limit as usize + 1).await?;
        if holders.len() >= limit.limit as usize {
            reasons.push(Reason::Concurrency { key: limit.key.clone(), limit: limit.limit, holders });
        }
    }
    Ok(reasons)
}

async fn unfinished_dependencies<T: Tx>(tx: &mut T, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let parents = tx.read_jobs(&job.spec.depends_on).await?;
    // One that has ended is not waited for any more, however it ended: the rule decided on it.
    let unfinished = parents.iter().filter(|parent| parent.ended().is_none());
    Ok(unfinished.map(|parent| Reason::Dependency { job: parent.id, status: parent.status() }).collect())
}
