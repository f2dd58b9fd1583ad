//! A store that does as it is told, for the tests of what lies above it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use muster_domain::{Job, JobId, JobSpec, Lease, Phase, Timestamp, WorkerId};
use muster_store::{Applied, Claimed, Command, Outcome, Query, Reply, Store, StoreError, Wake};
use tokio::sync::{Semaphore, watch};

use crate::batcher::{Batcher, CommitterParts, EndListener};
use crate::clock::Clock;
use crate::health::StoreHealth;
use crate::metrics::Metrics;
use crate::wake::WakeHub;

type Script = Box<dyn Fn(&[Command]) -> Option<StoreError> + Send + Sync>;

/// Keeps what it was given, answers claims from a queue, and fails on command.
pub(crate) struct FakeStore {
    batches: watch::Sender<Vec<Vec<Command>>>,
    /// One permit lets one transaction through.
    pub(crate) gate: Semaphore,
    pub(crate) jobs: Mutex<VecDeque<Job>>,
    pub(crate) stopping: Mutex<Vec<Job>>,
    script: Script,
}

impl std::fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeStore")
    }
}

impl FakeStore {
    /// Lets everything through and answers everything.
    pub(crate) fn open() -> Self {
        let store = Self::scripted(|_| None);
        store.gate.add_permits(1_000_000);
        store
    }

    /// Lets nothing through until permits are added; `script` says which transactions fail.
    pub(crate) fn scripted(
        script: impl Fn(&[Command]) -> Option<StoreError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            batches: watch::Sender::new(Vec::new()),
            gate: Semaphore::new(0),
            jobs: Mutex::default(),
            stopping: Mutex::default(),
            script: Box::new(script),
        }
    }

    /// Waits until so many transactions have begun, and returns them.
    pub(crate) async fn begun(&self, count: usize) -> Vec<Vec<Command>> {
        let mut batches = self.batches.subscribe();
        let enough = batches.wait_for(|batches| batches.len() >= count);
        let bounded = tokio::time::timeout(Duration::from_secs(10), enough).await;
        bounded.expect("the transactions begin in time").unwrap().clone()
    }

    fn answer(&self, command: &Command) -> Outcome {
        match command {
            Command::Claim(ask) => {
                let mut jobs = self.jobs.lock().unwrap();
                let count = jobs.len().min(ask.max as usize);
                let claimed = jobs.drain(..count).map(|job| Claimed {
                    job,
                    checkpoint: None,
                    inputs: Vec::new(),
                    peers: Vec::new(),
                });
                Outcome::Claimed(claimed.collect())
            }
            _ => Outcome::WorkerSeen,
        }
    }
}

impl Store for FakeStore {
    fn apply(&self, _: Timestamp, commands: Vec<Command>) -> BoxFuture<'_, Result<Applied, StoreError>> {
        async move {
            self.batches.send_modify(|batches| batches.push(commands.clone()));
            self.gate.acquire().await.unwrap().forget();
            if let Some(error) = (self.script)(&commands) {
                return Err(error);
            }
            let answers = commands.iter().map(|command| Ok(self.answer(command))).collect();
            Ok(Applied { answers, ..Applied::default() })
        }
        .boxed()
    }

    fn read(&self, query: Query) -> BoxFuture<'_, Result<Reply, StoreError>> {
        async move {
            match query {
                Query::Stops(workers) => {
                    let stopping = self.stopping.lock().unwrap().clone();
                    let of_these = |job: &Job| job.worker().is_some_and(|worker| workers.contains(worker));
                    Ok(Reply::Stops(stopping.into_iter().filter(of_these).collect()))
                }
                _ => Err(StoreError::Closed),
            }
        }
        .boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }

    fn wakes(&self) -> BoxStream<'static, Wake> {
        stream::pending().boxed()
    }

    fn kind(&self) -> &'static str {
        "fake"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

#[derive(Debug)]
struct Nobody;

impl EndListener for Nobody {
    fn committed(&self, _: &muster_domain::Event) {}
}

/// A batcher over the store, with its committer running.
pub(crate) fn start_batcher(store: &Arc<FakeStore>, capacity: usize) -> (Batcher, CommitterParts) {
    let clock = Clock::of_this_machine();
    let parts = CommitterParts {
        clock: clock.clone(),
        store: Arc::clone(store) as Arc<dyn Store>,
        metrics: Arc::new(Metrics::new().unwrap()),
        hub: Arc::new(WakeHub::new()),
        health: Arc::new(StoreHealth::new(clock)),
        ended: Arc::new(Nobody),
    };
    let (batcher, committer) = Batcher::new(capacity, parts.clone());
    tokio::spawn(committer.run(std::future::pending()));
    (batcher, parts)
}

/// A job that a worker holds.
pub(crate) fn running_job(number: u8, worker: &str) -> Job {
    let id = JobId::from_random([number; 16]);
    let phase = Phase::Running { worker: Some(WorkerId::new(worker)), last_heartbeat: None };
    let mut job = Job::new(id, Arc::new(JobSpec::shell("x")), phase, Timestamp::default());
    job.lease = Lease(u64::from(number));
    job
}
