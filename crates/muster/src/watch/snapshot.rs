//! What the scheduler says at one moment, as much of it as a screen can show.
//!
//! Guarantee: every list is one page.

use muster_client::{Client, ClientError, JobFilter};
use muster_protocol::{Job, JobSet, JobStatus, Queue, SetKind, Summary, Worker};

use super::filter::Filter;
use crate::exit;

/// What a worker has, or has had while others of its gang still run.
const ACTIVE: [JobStatus; 4] =
    [JobStatus::Running, JobStatus::Preempting, JobStatus::Reserved, JobStatus::Finished];
const WAITING: [JobStatus; 3] = [JobStatus::Pending, JobStatus::Blocked, JobStatus::Preempted];
const ENDED: [JobStatus; 3] = [JobStatus::Done, JobStatus::Failed, JobStatus::Cancelled];

/// How much to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) filter: Filter,
    pub(crate) running: u32,
    /// 0 for what is not shown.
    pub(crate) waiting: u32,
    pub(crate) ended: u32,
    pub(crate) sets: u32,
}

/// A page of jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JobList {
    pub(crate) jobs: Vec<Job>,
    /// Whether there are more than these, the newest.
    pub(crate) more: bool,
}

/// Everything that is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) summary: Summary,
    pub(crate) workers: Vec<Worker>,
    pub(crate) running: JobList,
    pub(crate) waiting: JobList,
    pub(crate) ended: JobList,
    pub(crate) queues: Vec<Queue>,
    /// Pipelines and arrays, the newest first.
    pub(crate) sets: Vec<JobSet>,
}

impl Snapshot {
    /// How many jobs have one of these states, whatever the filter.
    pub(crate) fn count(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.summary.jobs.get(*name)).sum()
    }

    pub(crate) fn running_count(&self) -> u64 {
        self.count(&["running", "preempting", "reserved"])
    }

    /// Those that are held or delayed are pending on the wire, and counted apart here.
    pub(crate) fn waiting_count(&self) -> u64 {
        self.count(&["pending", "delayed", "held", "blocked", "preempted"])
    }
}

/// Asks for everything at the same time.
pub(crate) async fn read(client: &Client, wanted: &Wanted) -> Result<Snapshot, ClientError> {
    let (summary, workers, running, waiting, ended, known, sets) = tokio::try_join!(
        client.summary(),
        client.workers(),
        page(client, wanted, &ACTIVE, wanted.running),
        page(client, wanted, &WAITING, wanted.waiting),
        page(client, wanted, &ENDED, wanted.ended),
        async { known(client.queues().await) },
        sets(client, wanted.sets),
    )?;
    let mut snapshot = Snapshot { summary, workers, running, waiting, ended, sets, ..Snapshot::default() };
    snapshot.workers.sort_by(|one, other| one.id.cmp(&other.id));
    snapshot.queues = known.unwrap_or_else(|| queues(&snapshot));
    // Where nothing starts is what one looks for; else the order never changes.
    snapshot.queues.sort_by(|one, other| (!one.paused, &one.name).cmp(&(!other.paused, &other.name)));
    Ok(snapshot)
}

/// A scheduler of an older version does without some lists, and is of use without them.
fn known<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(list) => Ok(Some(list)),
        Err(error) if error.status().is_some_and(|status| status.as_u16() == 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newest pipelines and arrays; those that have not ended come first.
async fn sets(client: &Client, limit: u32) -> Result<Vec<JobSet>, ClientError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let page = async |kind| known(client.sets(kind, Some(limit), None).await);
    let (pipelines, arrays) = tokio::try_join!(page(SetKind::Pipeline), page(SetKind::Array))?;
    let mut sets: Vec<JobSet> =
        [pipelines, arrays].into_iter().flatten().flat_map(|page| page.sets).collect();
    sets.sort_by_key(|set| (exit::is_final(set.status), std::cmp::Reverse(set.created_at)));
    Ok(sets)
}

async fn page(
    client: &Client,
    wanted: &Wanted,
    group: &[JobStatus],
    limit: u32,
) -> Result<JobList, ClientError> {
    let statuses = wanted.filter.statuses_among(group);
    if limit == 0 || statuses.is_empty() {
        return Ok(JobList::default());
    }
    let filter = &wanted.filter;
    let page = client
        .jobs(&JobFilter {
            statuses,
            queue: filter.queue.clone(),
            name: filter.name.clone(),
            tag: filter.tag.clone(),
            worker: filter.worker.clone(),
            pipeline: filter.pipeline.clone(),
            array: filter.array.clone(),
            limit: Some(limit),
            ..JobFilter::default()
        })
        .await?;
    Ok(JobList { jobs: page.jobs, more: page.next.is_some() })
}

/// The queues that have something to do, by what was read.
fn queues(snapshot: &Snapshot) -> Vec<Queue> {
    let mut queues: std::collections::BTreeMap<String, Queue> = std::collections::BTreeMap::new();
    for (name, queued) in &snapshot.summary.pending_by_queue {
        let queue = Queue { name: name.clone(), queued: *queued, ..Queue::default() };
        queues.insert(name.clone(), queue);
    }
    for job in &snapshot.running.jobs {
        let name = job.queue_name.clone().unwrap_or_default();
        let queue = queues.entry(name.clone()).or_insert_with(|| Queue { name, ..Queue::default() });
        queue.running += 1;
    }
    queues.into_values().collect()
}
