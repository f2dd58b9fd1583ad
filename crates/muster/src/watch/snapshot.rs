//! What the scheduler says at one moment, as much of it as a screen can show.
//!
//! Guarantee: every list is one page.

use muster_client::{Client, ClientError, JobFilter};
use muster_protocol::{Job, JobSet, JobStatus, Queue, Summary, Worker};

use super::filter::Filter;

/// What a worker has.
const ACTIVE: [JobStatus; 3] = [JobStatus::Running, JobStatus::Preempting, JobStatus::Reserved];
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
    pub(crate) fn count(&self, statuses: &[JobStatus]) -> u64 {
        let of = |status: &JobStatus| self.summary.jobs.get(muster_client::status_name(*status)).copied();
        statuses.iter().filter_map(of).sum()
    }

    pub(crate) fn running_count(&self) -> u64 {
        self.count(&ACTIVE)
    }

    pub(crate) fn waiting_count(&self) -> u64 {
        self.count(&WAITING)
    }
}

/// Asks for everything at the same time.
pub(crate) async fn read(client: &Client, wanted: &Wanted) -> Result<Snapshot, ClientError> {
    let (summary, workers, running, waiting, ended) = tokio::try_join!(
        client.summary(),
        client.workers(),
        page(client, wanted, &ACTIVE, wanted.running),
        page(client, wanted, &WAITING, wanted.waiting),
        page(client, wanted, &ENDED, wanted.ended),
    )?;
    let mut snapshot = Snapshot { summary, workers, running, waiting, ended, ..Snapshot::default() };
    snapshot.workers.sort_by(|one, other| one.id.cmp(&other.id));
    snapshot.queues = queues(&snapshot);
    Ok(snapshot)
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
