//! A store under test, a clock that the test moves, and ids from a seed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use futures::future::BoxFuture;
use muster_domain::limits::Timeouts;
use muster_domain::{
    Caller, Event, Exit, Explanation, Job, JobId, JobSpec, Lease, Reason, Rejection, ReportKind, Resources,
    Span, Status, Timestamp, Worker, WorkerId, WorkerStatus, invariants,
};
use muster_planner::policy::{Policies, Policy};
use muster_planner::{Held, Ledger};

use super::pools;

use crate::command::{
    Answer, Ask, Claimed, Command, NewJob, Outcome, Report, Submit, Submitted, Sweep, SweepSummary,
};
use crate::query::{EventFilter, JobFilter};
use crate::store::{Store, StoreExt};

/// Where the clock starts: a round time, far from zero.
const START: i64 = 1_700_000_000_000_000;

type Body = Box<dyn FnOnce(Stage) -> BoxFuture<'static, ()> + Send>;

/// One test of the suite.
pub struct Scenario {
    policies: Policies,
    body: Body,
}

impl Scenario {
    /// One of a topic; those about pools have some. Work is stopped for reasons of level, so that this is tried too.
    pub fn new(topic: &str, body: impl FnOnce(Stage) -> BoxFuture<'static, ()> + Send + 'static) -> Self {
        let by_level = || Policy { preempt_by_level: true, ..Policy::default() }.into();
        let policies = if topic == "pools" { pools::policies() } else { by_level() };
        Self { policies, body: Box::new(body) }
    }

    /// The policies that its store must have.
    pub fn policies(&self) -> Policies {
        self.policies.clone()
    }

    /// Runs the scenario on a fresh store with its policies.
    pub async fn run(self, store: Arc<dyn Store>) {
        (self.body)(Stage::new(store)).await;
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scenario")
    }
}

/// A store with the shorthand that scenarios are written in.
#[derive(Debug)]
pub struct Stage {
    pub store: Arc<dyn Store>,
    now: AtomicI64,
    ids: AtomicU64,
}

impl Stage {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, now: AtomicI64::new(START), ids: AtomicU64::new(1) }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    pub fn advance(&self, span: Span) {
        self.now.fetch_add(span.as_micros() as i64, Ordering::SeqCst);
    }

    pub fn new_id(&self) -> JobId {
        let number = self.ids.fetch_add(1, Ordering::SeqCst);
        let mut bytes = [0; 16];
        // Scattered, so that id order differs from submission order.
        bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        JobId::from_random(bytes)
    }

    pub async fn apply(&self, commands: Vec<Command>) -> Vec<Answer> {
        let applied = self.store.apply(self.now(), commands).await.unwrap();
        applied.answers
    }

    pub async fn one(&self, command: Command) -> Answer {
        self.apply(vec![command]).await.pop().unwrap()
    }

    // Submissions.

    pub fn new_job(&self, spec: JobSpec) -> NewJob {
        NewJob {
            first_task: None,
            id: self.new_id(),
            spec: Arc::new(spec),
            hold: None,
            reference: None,
            depends_on: Vec::new(),
            rules: Vec::new(),
            member: None,
        }
    }

    pub async fn try_submit(
        &self,
        jobs: Vec<NewJob>,
        atomic: bool,
    ) -> Result<Vec<Result<Submitted, Rejection>>, Rejection> {
        match self.one(Command::Submit(Submit { jobs, atomic, set: None })).await? {
            Outcome::Submitted(jobs) => Ok(jobs),
            other => panic!("{other:?}"),
        }
    }

    pub async fn submit(&self, spec: JobSpec) -> Job {
        let jobs = vec![self.new_job(spec)];
        self.try_submit(jobs, true).await.unwrap().pop().unwrap().unwrap().job
    }

    pub async fn shell(&self, line: &str) -> Job {
        self.submit(JobSpec::shell(line)).await
    }

    pub async fn try_after(&self, parents: &[JobId]) -> Result<Job, Rejection> {
        let depends_on = parents.iter().map(ToString::to_string).collect();
        let job = NewJob { depends_on, ..self.new_job(JobSpec::shell("after")) };
        self.try_submit(vec![job], true).await?.pop().unwrap().map(|submitted| submitted.job)
    }

    pub async fn after(&self, parents: &[JobId]) -> Job {
        self.try_after(parents).await.unwrap()
    }

    // Claims and reports.

    pub async fn claim_as(&self, worker: Option<&str>, max: u32) -> Vec<Claimed> {
        let ask = Ask { worker: worker.map(WorkerId::new), max, ..Ask::default() };
        match self.one(Command::Claim(ask)).await.unwrap() {
            Outcome::Claimed(jobs) => jobs,
            other => panic!("{other:?}"),
        }
    }

    pub async fn claim(&self) -> Option<Job> {
        self.claim_as(None, 1).await.pop().map(|claimed| claimed.job)
    }

    pub async fn claim_by(&self, worker: &str) -> Option<Job> {
        self.claim_as(Some(worker), 1).await.pop().map(|claimed| claimed.job)
    }

    pub async fn report(&self, job: &Job, kind: ReportKind) -> Result<Job, Rejection> {
        self.report_as(job.id, Caller { lease: Some(job.lease), worker: None }, kind).await
    }

    pub async fn report_as(&self, job: JobId, caller: Caller, kind: ReportKind) -> Result<Job, Rejection> {
        let code = i32::from(kind == ReportKind::Failed);
        let exit = Exit { code: Some(code), signal: None };
        match self
            .one(Command::Report(Report {
                job,
                caller,
                kind,
                exit,
                message: None,
                outputs: None,
                spent: None,
            }))
            .await?
        {
            Outcome::Reported { job, .. } => Ok(job),
            other => panic!("{other:?}"),
        }
    }

    pub async fn heartbeat(&self, job: &Job) -> Result<Job, Rejection> {
        let caller = Caller { lease: Some(job.lease), worker: None };
        match self.one(Command::Heartbeat { job: job.id, caller }).await? {
            Outcome::Heartbeat(reply) => Ok(reply.job),
            other => panic!("{other:?}"),
        }
    }

    /// A hold, release, retry or edit.
    pub async fn control(&self, command: Command) -> Result<Job, Rejection> {
        match self.one(command).await? {
            Outcome::Changed { job, .. } => Ok(job),
            other => panic!("{other:?}"),
        }
    }

    pub async fn cancel(&self, job: JobId) -> Result<(Vec<JobId>, Vec<JobId>), Rejection> {
        match self.one(Command::Cancel { job, message: None }).await? {
            Outcome::Cancelled { cancelled, stopping } => Ok((cancelled, stopping)),
            other => panic!("{other:?}"),
        }
    }

    /// Submits, claims and finishes a job.
    pub async fn run_to_done(&self) -> Job {
        let id = self.shell("true").await.id;
        let job = self.claim().await.unwrap();
        assert_eq!(job.id, id, "another job was pending");
        self.report(&job, ReportKind::Done).await.unwrap()
    }

    /// Finishes whatever is pending, or submits something to finish.
    pub async fn run_to_done_or_claim(&self) -> Job {
        match self.claim().await {
            Some(job) => self.report(&job, ReportKind::Done).await.unwrap(),
            None => self.run_to_done().await,
        }
    }

    /// Fails a pending job as often as it takes; it must be the only pending one.
    pub async fn fail_for_good(&self, id: JobId) -> Job {
        loop {
            let job = self.claim().await.unwrap();
            assert_eq!(job.id, id, "another job was pending");
            let job = self.report(&job, ReportKind::Failed).await.unwrap();
            if job.is_terminal() {
                return job;
            }
        }
    }

    // Workers and sweeps.

    pub async fn register(&self, id: &str, resources: Resources, slots: Option<u32>) -> Worker {
        self.register_worker(Worker { resources, slots, ..self.new_worker(id) }).await
    }

    /// A worker that is not registered yet.
    pub fn new_worker(&self, id: &str) -> Worker {
        Worker {
            kept: None,
            ports: muster_domain::Ports::default(),
            id: WorkerId::new(id),
            exec_addr: String::new(),
            resources: Resources::default(),
            tags: std::collections::BTreeSet::new(),
            devices: Vec::new(),
            labels: std::collections::BTreeMap::new(),
            slots: None,
            hostname: None,
            isolation: None,
            run_as: None,
            version: None,
            status: WorkerStatus::Active,
            last_heartbeat: Timestamp::default(),
            registered_at: Timestamp::default(),
            assumed: false,
            health: muster_domain::Health::default(),
        }
    }

    pub async fn register_worker(&self, worker: Worker) -> Worker {
        match self.one(Command::RegisterWorker(worker)).await.unwrap() {
            Outcome::Registered(worker) => worker,
            other => panic!("{other:?}"),
        }
    }

    /// A sweep by a scheduler that has listened since long ago.
    pub async fn sweep(&self) -> SweepSummary {
        self.sweep_with(Timestamp::default(), None).await
    }

    pub async fn sweep_with(&self, listening_since: Timestamp, retention: Option<Span>) -> SweepSummary {
        let sweep = Sweep { timeouts: Timeouts::default(), listening_since, limit: 100, retention };
        match self.one(Command::Sweep(sweep)).await.unwrap() {
            Outcome::Swept(summary) => summary,
            other => panic!("{other:?}"),
        }
    }

    // Reads.

    pub async fn get(&self, id: JobId) -> Job {
        self.store.job(id).await.unwrap().unwrap().job
    }

    /// All that is said about a job.
    pub async fn why(&self, id: JobId) -> Explanation {
        self.store.why(id, self.now()).await.unwrap().unwrap().1
    }

    pub async fn reasons(&self, id: JobId) -> Vec<Reason> {
        self.why(id).await.reasons
    }

    pub async fn why_codes(&self, id: JobId) -> Vec<&'static str> {
        self.reasons(id).await.iter().map(Reason::code).collect()
    }

    /// The first reason that the store gives, in words.
    pub async fn store_reason(&self, id: JobId) -> String {
        self.reasons(id).await.first().map(ToString::to_string).unwrap_or_default()
    }

    pub async fn status(&self, id: JobId) -> Status {
        self.get(id).await.status()
    }

    pub async fn all(&self) -> Vec<Job> {
        let page = self.store.jobs(JobFilter::default()).await.unwrap();
        page.jobs.into_iter().map(|view| view.job).collect()
    }

    pub async fn events_of(&self, job: JobId) -> Vec<Event> {
        self.store.events(EventFilter { job: Some(job), after: 0, limit: 1000 }).await.unwrap()
    }

    pub async fn event_names(&self, job: JobId) -> Vec<&'static str> {
        self.events_of(job).await.iter().map(|event| event.kind.name()).collect()
    }

    /// The executable invariants, on the whole state.
    pub async fn check(&self) {
        let workers = self.store.workers().await.unwrap();
        let workers: Vec<Worker> = workers.into_iter().map(|usage| usage.worker).collect();
        let jobs = self.all().await;
        let violations = invariants::check(&jobs, &workers);
        assert!(violations.is_empty(), "{violations:#?}");
        let held = jobs.iter().filter(|job| job.status().holds_capacity()).map(|job| Held {
            queue: job.spec.queue.clone(),
            need: job.spec.requirement().resources,
            fixed: job.spec.fixed,
            jobs: 1,
        });
        let ledger = Ledger::new(&self.store.queues().await.unwrap(), &held.collect::<Vec<_>>());
        assert_eq!(ledger.violations(), [], "more is used than quotas allow");
    }
}

/// Memory only: the dimension that most scenarios need.
pub fn memory(memory_mb: u64) -> Resources {
    Resources { memory_mb, ..Resources::default() }
}

/// A shell job that needs memory.
pub fn needing(memory_mb: u64) -> JobSpec {
    JobSpec { resources: Some(memory(memory_mb)), ..JobSpec::shell("work") }
}

/// A caller that names a lease.
pub fn lease(number: u64) -> Caller {
    Caller { lease: Some(Lease(number)), worker: None }
}

/// A caller that names itself.
pub fn named(worker: &str) -> Caller {
    Caller { lease: None, worker: Some(WorkerId::new(worker)) }
}
