//! The calls that the workloads make, over one kept connection.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use muster_protocol::{
    BatchItem, BatchResult, GangSubmitted, JobStatus, SubmitRequest, Worker, WorkerStatus,
};
use serde::Deserialize;

use crate::http::Connection;

const UNFINISHED: &str = "/jobs?status=pending,blocked,reserved,running,preempting,preempted&limit=1";

/// A connection to the scheduler.
#[derive(Debug)]
pub(crate) struct Api(Connection);

/// As much of a job as the checks need.
#[derive(Debug, Deserialize)]
struct Outcome {
    status: JobStatus,
    attempts: u32,
}

#[derive(Debug, Deserialize)]
struct Identity {
    id: String,
}

/// A job that execs `/bin/true`.
pub(crate) fn true_job() -> SubmitRequest {
    SubmitRequest { argv: vec!["/bin/true".to_owned()], ..SubmitRequest::default() }
}

/// The body of a batch of `count` such jobs.
pub(crate) fn true_batch(count: usize) -> Result<Vec<u8>> {
    let item = BatchItem { reference: None, job: true_job() };
    Ok(serde_json::to_vec(&vec![item; count])?)
}

impl Api {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        Connection::open(address).map(Self)
    }

    /// A connection that shows a credential, if there is one.
    pub(crate) fn connect_with(address: SocketAddr, credential: Option<&str>) -> Result<Self> {
        Connection::open_with(address, credential).map(Self)
    }

    pub(crate) fn is_ready(&mut self) -> bool {
        self.0.get("/readyz").is_ok_and(|answer| answer.status == 200)
    }

    pub(crate) fn has_worker(&mut self, id: &str) -> Result<bool> {
        let answer = self.0.get("/workers")?.success()?;
        let workers: Vec<Worker> = serde_json::from_slice(&answer.body)?;
        Ok(workers.iter().any(|worker| worker.id == id && worker.status == WorkerStatus::Active))
    }

    /// Submits one job and returns its id.
    pub(crate) fn submit(&mut self, body: &[u8]) -> Result<String> {
        let answer = self.0.post("/jobs", body)?.success()?;
        Ok(serde_json::from_slice::<Identity>(&answer.body)?.id)
    }

    /// Submits a batch and returns the id of its last job.
    pub(crate) fn submit_batch(&mut self, body: &[u8]) -> Result<String> {
        let answer = self.0.post("/jobs/batch", body)?.success()?;
        let results: Vec<BatchResult> = serde_json::from_slice(&answer.body)?;
        if let Some(refused) = results.iter().find_map(|result| result.error.as_deref()) {
            bail!("a job of the batch was refused: {refused}");
        }
        results.into_iter().next_back().and_then(|result| result.id).context("the batch has no last job")
    }

    /// Submits a gang and returns the id of its first task.
    pub(crate) fn submit_gang(&mut self, body: &[u8]) -> Result<String> {
        let answer = self.0.post("/jobs", body)?.success()?;
        let gang: GangSubmitted = serde_json::from_slice(&answer.body)?;
        gang.tasks.into_iter().next().context("the gang has no tasks")
    }

    /// Submits an array and returns its id.
    pub(crate) fn submit_array(&mut self, body: &[u8]) -> Result<String> {
        let answer = self.0.post("/arrays", body)?.success()?;
        Ok(serde_json::from_slice::<Identity>(&answer.body)?.id)
    }

    /// Posts without a body.
    pub(crate) fn order(&mut self, path: &str) -> Result<()> {
        self.0.post(path, &[])?.success().map(drop)
    }

    /// Reads and returns the milliseconds that it took, and how many bytes came.
    pub(crate) fn timed_get(&mut self, path: &str) -> Result<(f64, usize)> {
        let begin = Instant::now();
        let answer = self.0.get(path)?.success()?;
        Ok((begin.elapsed().as_secs_f64() * 1_000.0, answer.body.len()))
    }

    /// How many jobs a page of a list has.
    pub(crate) fn count_page(&mut self, path: &str) -> Result<usize> {
        let answer = self.0.get(path)?.success()?;
        Ok(serde_json::from_slice::<Vec<Outcome>>(&answer.body)?.len())
    }

    /// Submits a batch without looking at what is said about each job.
    pub(crate) fn submit_batch_unread(&mut self, body: &[u8]) -> Result<()> {
        self.0.post("/jobs/batch", body)?.success().map(drop)
    }

    /// Waits until the jobs named are final, then until no job at all is unfinished.
    ///
    /// Asking for one job is cheap however many there are; the list is asked only at the end.
    pub(crate) fn await_all(&mut self, last: &[String], poll: Duration, bound: Duration) -> Result<()> {
        let deadline = Instant::now() + bound;
        for id in last {
            while !self.outcome(id)?.is_final() {
                pause(poll, deadline, bound)?;
            }
        }
        while self.has_unfinished()? {
            pause(poll, deadline, bound)?;
        }
        Ok(())
    }

    fn outcome(&mut self, id: &str) -> Result<Outcome> {
        let answer = self.0.get(&format!("/jobs/{id}"))?.success()?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    fn has_unfinished(&mut self) -> Result<bool> {
        let answer = self.0.get(UNFINISHED)?.success()?;
        let jobs: Vec<Outcome> = serde_json::from_slice(&answer.body)?;
        Ok(!jobs.is_empty())
    }

    /// Fails unless there are exactly `count` jobs and each was done at the first attempt: a fast answer that
    /// is wrong is not a measurement.
    pub(crate) fn check_done(&mut self, count: usize) -> Result<()> {
        self.check_each(count, |job| {
            ensure!(job.attempts == 1, "a job took {} attempts", job.attempts);
            Ok(())
        })
    }

    /// The same for jobs that were to fail before they were done.
    pub(crate) fn check_done_at_last(&mut self, count: usize) -> Result<()> {
        self.check_each(count, |_| Ok(()))
    }

    fn check_each(&mut self, count: usize, check: impl Fn(&Outcome) -> Result<()>) -> Result<()> {
        let found = self.each_job("/jobs?limit=1000", |job| {
            ensure!(job.status == JobStatus::Done, "a job ended as {:?}", job.status);
            check(job)
        })?;
        ensure!(found == count, "{count} jobs were submitted and {found} are listed");
        Ok(())
    }

    pub(crate) fn count_running(&mut self) -> Result<usize> {
        self.each_job("/jobs?status=running&limit=1000", |_| Ok(()))
    }

    /// Submits a job that no worker takes, reads it and cancels it; returns the milliseconds of each call.
    pub(crate) fn control_round(&mut self) -> Result<[f64; 3]> {
        let job = SubmitRequest { tags: vec!["nowhere".to_owned()], ..true_job() };
        let body = serde_json::to_vec(&job)?;
        let mut last = Instant::now();
        let mut lap = || {
            let before = std::mem::replace(&mut last, Instant::now());
            before.elapsed().as_secs_f64() * 1_000.0
        };
        let id = self.submit(&body)?;
        let submitted = lap();
        self.outcome(&id)?;
        let read = lap();
        self.0.post(&format!("/jobs/{id}/cancel"), &[])?.success()?;
        Ok([submitted, read, lap()])
    }

    pub(crate) fn count_pending(&mut self) -> Result<usize> {
        self.each_job("/jobs?status=pending&limit=1000", |_| Ok(()))
    }

    /// Reads a list page by page and returns how many jobs it has.
    fn each_job(&mut self, list: &str, check: impl Fn(&Outcome) -> Result<()>) -> Result<usize> {
        let mut count = 0;
        let mut page = list.to_owned();
        loop {
            let answer = self.0.get(&page)?.success()?;
            let jobs: Vec<Outcome> = serde_json::from_slice(&answer.body)?;
            jobs.iter().try_for_each(&check)?;
            count += jobs.len();
            let Some(cursor) = answer.next_cursor else { return Ok(count) };
            page = format!("{list}&cursor={cursor}");
        }
    }
}

impl Outcome {
    fn is_final(&self) -> bool {
        matches!(self.status, JobStatus::Done | JobStatus::Failed | JobStatus::Cancelled)
    }
}

fn pause(poll: Duration, deadline: Instant, bound: Duration) -> Result<()> {
    ensure!(Instant::now() < deadline, "the jobs were not finished within {bound:?}");
    thread::sleep(poll);
    Ok(())
}
