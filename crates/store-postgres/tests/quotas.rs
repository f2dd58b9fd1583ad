//! Many schedulers, one quota: what several instances start together never exceeds what a tree of queues has.
//!
//! The queues of a tree are claimed from by workers that can run jobs of one queue only, so that their claims
//! lock different rows and nothing but the lock of the tree stands between them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code, also outside of the test functions")]

use std::sync::Arc;

use futures::future::join_all;
use muster_domain::limits::Timeouts;
use muster_domain::{Job, JobSpec, QueueName, ReportKind, Status, Timestamp, Worker, WorkerId, WorkerStatus};
use muster_pg_testkit::{Database, Postgres};
use muster_store::compliance::Stage;
use muster_store::compliance::quotas::{amount, gang, queued};
use muster_store::compliance::stage::memory;
use muster_store::engine::Policy;
use muster_store::{Ask, Command, Outcome, PlanPass, QueueSettings, Store, StoreExt, Submit, TermsChange};
use muster_store_postgres::{PostgresOptions, PostgresStore};

const ROUNDS: usize = 25;
const QUEUES: [&str; 3] = ["a", "b", "c"];

async fn connect(database: &Database<'_>) -> Arc<dyn Store> {
    let options = PostgresOptions::default();
    Arc::new(PostgresStore::connect(&database.url(), options, Policy::default()).await.unwrap())
}

/// All that there is belongs to the root; the queues below it take what they can.
async fn prepare(database: &Database<'_>) -> Stage {
    let stage = Stage::new(connect(database).await);
    for queue in QUEUES {
        let parent = Some(Some(QueueName::new("lab")));
        let terms = TermsChange { parent, ..TermsChange::default() };
        put(&stage, QueueSettings { terms, ..QueueSettings::new(QueueName::new(queue)) }).await;
        let idle = stage.register(queue, memory(1_000), None).await;
        let tags = [queue.to_owned()].into();
        stage.register_worker(Worker { tags, status: WorkerStatus::Active, ..idle }).await;
    }
    let terms = TermsChange { nominal: amount(20), ..TermsChange::default() };
    put(&stage, QueueSettings { terms, ..QueueSettings::new(QueueName::new("lab")) }).await;
    stage
}

async fn put(stage: &Stage, settings: QueueSettings) {
    stage.one(Command::PutQueue(settings)).await.unwrap();
}

fn tagged(queue: &str) -> JobSpec {
    JobSpec { tags: [queue.to_owned()].into(), ..queued(queue, 10) }
}

async fn claim(store: Arc<dyn Store>, worker: &'static str, now: Timestamp) -> Vec<Job> {
    let ask = Ask { worker: Some(WorkerId::new(worker)), max: 4, ..Ask::default() };
    match store.apply_one(now, Command::Claim(ask)).await.unwrap().0.unwrap() {
        Outcome::Claimed(jobs) => jobs.into_iter().map(|claimed| claimed.job).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_several_schedulers_never_exceed_a_quota() {
    let database = Postgres::shared().database();
    let stage = prepare(&database).await;
    let others = join_all(QUEUES.map(|_| connect(&database))).await;
    for round in 0..ROUNDS {
        for queue in QUEUES {
            stage.submit(tagged(queue)).await;
            stage.submit(tagged(queue)).await;
        }
        let claims = others
            .iter()
            .zip(QUEUES)
            .map(|(store, worker)| tokio::spawn(claim(Arc::clone(store), worker, stage.now())));
        let claimed = join_all(claims).await.into_iter().flat_map(Result::unwrap).collect::<Vec<Job>>();
        assert_eq!(claimed.len(), 2, "round {round}");
        for job in &claimed {
            stage.report(job, ReportKind::Done).await.unwrap();
        }
        for job in stage.all().await.iter().filter(|job| job.status() == Status::Pending) {
            stage.cancel(job.id).await.unwrap();
        }
    }
    stage.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gangs_and_singles_never_exceed_a_quota_together() {
    let database = Postgres::shared().database();
    let stage = prepare(&database).await;
    let (planner, claimer) = (connect(&database).await, connect(&database).await);
    let mut gangs = 0;
    for round in 0..ROUNDS {
        let mut tasks = gang(&stage, "a", 2, 10);
        for task in &mut tasks {
            task.spec = Arc::new(JobSpec { tags: ["a".to_owned()].into(), ..(*task.spec).clone() });
        }
        let submit = Submit { jobs: tasks, atomic: true, set: None };
        stage.one(Command::Submit(submit)).await.unwrap();
        stage.submit(tagged("b")).await;
        stage.submit(tagged("b")).await;
        let now = stage.now();
        let pass = PlanPass {
            timeouts: Timeouts::default(),
            listening_since: Timestamp::default(),
            limit: 100,
            look: true,
            allowances: muster_store::Allowances::default(),
        };
        let planner = Arc::clone(&planner);
        let plan = tokio::spawn(async move { planner.apply_one(now, Command::Plan(pass)).await.unwrap() });
        let claim = tokio::spawn(claim(Arc::clone(&claimer), "b", now));
        let (planned, claimed) = (plan.await.unwrap(), claim.await.unwrap());
        planned.0.unwrap();
        let jobs = stage.all().await;
        let held = jobs.iter().filter(|job| job.status().holds_capacity()).count();
        let reserved = jobs.iter().filter(|job| job.status() == Status::Reserved).count();
        assert_eq!(held, 2, "round {round}: {reserved} reserved, {} claimed", claimed.len());
        gangs += usize::from(reserved > 0);
        for job in jobs.iter().filter(|job| !job.is_terminal()) {
            stage.cancel(job.id).await.ok();
        }
        for job in &claimed {
            stage.report(job, ReportKind::Preempted).await.unwrap();
        }
    }
    assert!(gangs <= ROUNDS);
    stage.check().await;
}
