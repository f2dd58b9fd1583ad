//! A live cluster as a workload: its workers, and all that runs and waits on it.
//!
//! Guarantee: it only reads. What runs is submitted first, so that every policy begins with it; all else follows in the
//! order of its submission. Tags and slots of workers become counters, so that a job goes only where it may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp as Instant;
use muster_client::{Client, JobFilter};
use muster_domain::{Resources, Span, Timestamp};
use muster_protocol::{Job, JobStatus, Worker, WorkerStatus};
use muster_replay::trace::Trace;
use muster_replay::{Cluster, NodeGroup, TraceJob, Workload};

use crate::output::note;

/// As many as the scheduler gives on one page.
const PAGE: u32 = 1000;
/// What is to be played must fit in memory.
const MOST_JOBS: usize = 2_000_000;
/// The counter that stands for how many jobs a worker runs at once.
const SLOTS: &str = "slots";
/// More jobs than a worker ever holds: a tag is not used up.
const PLENTY: u64 = 1_000_000;
/// What waits is submitted this long after what runs.
const AFTER: Span = Span::from_millis(1);
/// The shortest time that a running job is taken to need.
const SHORTEST: f64 = 1.0;

/// Reads the cluster as it is now.
pub(super) async fn snapshot(client: &Client, default_run: Duration) -> anyhow::Result<Trace> {
    let now = Instant::now();
    let workers = client.workers().await?;
    let mut cluster = Cluster::default();
    for worker in workers.iter().filter(|worker| takes_work(worker)) {
        cluster.nodes.push(node(worker));
    }
    if cluster.nodes.is_empty() {
        anyhow::bail!("no worker of the scheduler takes work, so that nothing can be played");
    }
    let jobs = all_jobs(client).await?;
    let trace = workload(&jobs, now, default_run);
    Ok(Trace { cluster: Some(cluster), ..trace })
}

fn takes_work(worker: &Worker) -> bool {
    worker.status == WorkerStatus::Active && worker.quarantine.is_none()
}

fn node(worker: &Worker) -> NodeGroup {
    let mut each = resources(&worker.resources);
    each.counters.insert(SLOTS.to_owned(), worker.slots.map_or(PLENTY, u64::from));
    for tag in &worker.tags {
        each.counters.insert(tag_counter(tag), PLENTY);
    }
    NodeGroup { count: 1, each, ..NodeGroup::default() }
}

fn tag_counter(tag: &str) -> String {
    format!("tag {tag}")
}

fn resources(wire: &muster_protocol::Resources) -> Resources {
    Resources {
        cpu_millis: (wire.cpus * 1e3).round() as u64,
        memory_mb: wire.memory_mb,
        vram_mb: wire.vram_mb,
        gpus: wire.gpus,
        counters: wire.counters.clone(),
    }
}

async fn all_jobs(client: &Client) -> anyhow::Result<Vec<Job>> {
    let statuses = vec![
        JobStatus::Running,
        JobStatus::Reserved,
        JobStatus::Preempting,
        JobStatus::Preempted,
        JobStatus::Pending,
        JobStatus::Blocked,
    ];
    let mut filter = JobFilter { statuses, limit: Some(PAGE), ..JobFilter::default() };
    let mut jobs = Vec::new();
    loop {
        let page = client.jobs(&filter).await?;
        jobs.extend(page.jobs);
        if jobs.len() > MOST_JOBS {
            anyhow::bail!(
                "more than {MOST_JOBS} jobs run and wait, which is more than can be played at once"
            );
        }
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => return Ok(jobs),
        }
    }
}

/// One entry for each job or gang.
#[derive(Debug)]
struct Entry {
    /// Runs, or is about to.
    runs: bool,
    submitted: Instant,
    name: String,
    queue: String,
    job: TraceJob,
}

fn workload(jobs: &[Job], now: Instant, default_run: Duration) -> Trace {
    let mut entries: Vec<Entry> = Vec::new();
    let mut gangs: BTreeSet<&str> = BTreeSet::new();
    let (mut left_out, mut guessed) = (0_u64, 0_u64);
    for job in jobs {
        // A gang is one entry, made of the first of its tasks that comes.
        if job.gang_id.as_deref().is_some_and(|gang| !gangs.insert(gang)) {
            continue;
        }
        if waits_for_others(job) {
            left_out += 1;
            continue;
        }
        guessed += u64::from(job.timeout_seconds.is_none());
        entries.push(entry(job, now, default_run));
    }
    tell(left_out, guessed, default_run);
    entries.sort_by_key(|entry| (!entry.runs, entry.submitted));
    assemble(entries)
}

fn tell(left_out: u64, guessed: u64, default_run: Duration) {
    if left_out > 0 {
        note(&format!("{left_out} jobs are left out: they are held or wait for other jobs"));
    }
    if guessed > 0 {
        let time = muster_replay::words::duration(default_run.as_secs_f64());
        note(&format!(
            "{guessed} jobs have no time limit and are taken to run for {time} (--default-run), or as long again \
             as they have run"
        ));
    }
}

fn waits_for_others(job: &Job) -> bool {
    // The tasks of a gang are blocked until they are placed together.
    let blocked = job.status == JobStatus::Blocked && (job.gang_id.is_none() || !job.depends_on.is_empty());
    job.held.is_some() || blocked
}

fn entry(job: &Job, now: Instant, default_run: Duration) -> Entry {
    let runs = matches!(job.status, JobStatus::Running | JobStatus::Reserved | JobStatus::Preempting);
    let seconds = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64().max(0.0);
    let estimate = job.timeout_seconds.unwrap_or(default_run.as_secs_f64());
    let elapsed = job.started_at.filter(|_| runs).map_or(0.0, |started| seconds(started, now));
    // What has outrun its estimate is taken to need as long again.
    let left = if elapsed < estimate { estimate - elapsed } else { elapsed };
    let left = span(left.max(SHORTEST));
    let delay = job.not_before.map_or(0.0, |at| seconds(now, at));
    let mut need = job.resources.as_ref().map(resources).unwrap_or_default();
    need.counters.insert(SLOTS.to_owned(), 1);
    for tag in &job.tags {
        need.counters.insert(tag_counter(tag), 1);
    }
    let start = Timestamp::default();
    Entry {
        runs,
        submitted: job.created_at,
        name: job.name.clone().unwrap_or_else(|| job.id.chars().take(12).collect()),
        queue: job.queue_name.clone().unwrap_or_else(|| "default".to_owned()),
        job: TraceJob {
            submit: if runs { start } else { start + AFTER + span(delay) },
            run: left,
            limit: job.timeout_seconds.map(|_| left),
            tasks: job.gang_size.max(1),
            need,
            queue: 0,
            user: 0,
            priority: job.priority,
            preemptible: true,
        },
    }
}

fn span(seconds: f64) -> Span {
    Span::from_micros((seconds.clamp(0.0, 1e10) * 1e6) as u64)
}

fn assemble(entries: Vec<Entry>) -> Trace {
    let mut queues: BTreeMap<String, u32> = BTreeMap::new();
    let mut trace = Trace::default();
    for mut entry in entries {
        let next = queues.len() as u32;
        entry.job.queue = *queues.entry(entry.queue).or_insert(next);
        trace.workload.jobs.push(entry.job);
        trace.names.push(entry.name);
    }
    let mut names: Vec<(u32, String)> = queues.into_iter().map(|(name, position)| (position, name)).collect();
    names.sort_unstable();
    let queues = names.into_iter().map(|(_, name)| name).collect();
    // Delays may have put some behind others that were submitted later.
    let mut order: Vec<usize> = (0..trace.workload.jobs.len()).collect();
    order.sort_by_key(|index| trace.workload.jobs[*index].submit);
    let jobs = order.iter().map(|index| trace.workload.jobs[*index].clone()).collect();
    let names = order.iter().map(|index| trace.names[*index].clone()).collect();
    Trace { workload: Workload { jobs, queues, users: vec!["-".to_owned()] }, names, ..Trace::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, more: &str) -> Job {
        let text = format!(
            r#"{{"id":"{id}","command":"x","created_at":"2026-05-05T08:00:00Z","max_retries":1,"attempts":0,{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_runs_comes_first_with_what_is_left_of_it() {
        let now: Instant = "2026-05-05T08:10:00Z".parse().unwrap();
        let running = r#""status":"running","started_at":"2026-05-05T08:05:00Z","timeout_seconds":600"#;
        let jobs = [
            job("job-1", r#""status":"pending","priority":5,"tags":["a100"],"queue_name":"lab""#),
            job("job-2", running),
            job("job-3", r#""status":"blocked","depends_on":["job-1"]"#),
            job("job-4", r#""status":"blocked","gang_id":"gang-1","gang_size":2"#),
            job("job-5", r#""status":"blocked","gang_id":"gang-1","gang_size":2,"gang_index":1"#),
            job("job-6", r#""status":"pending","held":"by hand""#),
            job("job-7", r#""status":"running","started_at":"2026-05-05T04:10:00Z""#),
            job("job-8", r#""status":"pending","not_before":"2026-05-05T08:20:00Z""#),
        ];
        let trace = workload(&jobs, now, Duration::from_secs(3600));
        assert_eq!(trace.names, ["job-2", "job-7", "job-1", "job-4", "job-8"]);
        let list = &trace.workload.jobs;
        assert_eq!(
            (list[0].submit, list[0].run, list[0].limit),
            (Timestamp::default(), Span::from_secs(300), Some(Span::from_secs(300)))
        );
        assert_eq!((list[1].run, list[1].limit), (Span::from_secs(4 * 3600), None));
        assert_eq!(
            (list[2].priority, list[2].need.counter("tag a100"), list[2].need.counter("slots")),
            (5, 1, 1)
        );
        assert_eq!((list[3].tasks, list[3].run), (2, Span::from_secs(3600)));
        assert_eq!(list[4].submit, Timestamp::default() + AFTER + Span::from_secs(600));
        assert_eq!(trace.workload.queues, ["default", "lab"]);
        assert_eq!(list[2].queue, 1);
    }
}
