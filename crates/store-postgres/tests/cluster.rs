//! What only a shared server promises: several instances at once, outages, wake-ups, leadership.
#![expect(clippy::unwrap_used, reason = "test code, also outside of the test functions")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use muster_domain::{JobId, JobSpec, ReportKind, Status, Worker, WorkerId};
use muster_pg_testkit::{Database, Postgres};
use muster_store::compliance::Stage;
use muster_store::compliance::stage::{memory, needing};
use muster_store::engine::Policy;
use muster_store::{Ask, Command, EventFilter, Outcome, Store, StoreError, StoreExt, Submit, Wake};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use tokio::time::timeout;
use tokio_postgres::NoTls;

/// No step of these tests takes this long unless it hangs.
const BOUND: Duration = Duration::from_secs(120);

async fn connect(url: &str) -> Arc<PostgresStore> {
    let options = PostgresOptions::default();
    Arc::new(PostgresStore::connect(url, options, Policy::default()).await.unwrap())
}

/// A stage on an instance of its own. Stages of one database must not both make ids.
async fn stage(database: &Database<'_>) -> Stage {
    Stage::new(connect(&database.url()).await)
}

/// A plain session beside the store, as an administrator or a stuck client would have it.
async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Polls until `condition` holds.
async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let poll = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(BOUND, poll).await.is_ok(), "never happened: {what}");
}

fn claim(worker: Option<&str>) -> Command {
    Command::Claim(Ask { worker: worker.map(WorkerId::new), max: 1, ..Ask::default() })
}

#[tokio::test]
async fn everything_survives_a_reconnect() {
    let database = Postgres::shared().database();
    let first = stage(&database).await;
    first.register("w1", memory(1_000), Some(4)).await;
    let parent = first.shell("first").await;
    let child = first.after(&[parent.id]).await;
    let all = EventFilter { job: None, after: 0, limit: 100 };
    let before = (first.all().await, first.store.workers().await.unwrap());
    let events = first.store.events(all).await.unwrap();
    first.store.close().await;
    assert!(matches!(first.store.ping().await, Err(StoreError::Closed)));

    let second = stage(&database).await;
    assert_eq!((second.all().await, second.store.workers().await.unwrap()), before);
    assert_eq!(second.store.events(all).await.unwrap(), events);
    let claimed = second.claim().await.unwrap();
    assert_eq!(claimed.id, parent.id);
    second.report(&claimed, ReportKind::Done).await.unwrap();
    assert_eq!(second.status(child.id).await, Status::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_claimers_share_twenty_jobs() {
    let database = Postgres::shared().database();
    let one = stage(&database).await;
    let other = connect(&database.url()).await;
    for _ in 0..20 {
        one.shell("work").await;
    }
    let claims = (0..30).map(|number| {
        let store: Arc<dyn Store> = if number % 2 == 0 { Arc::clone(&one.store) } else { other.clone() };
        let now = one.now();
        tokio::spawn(async move { store.apply_one(now, claim(None)).await.unwrap().0.unwrap() })
    });
    let mut claimed: Vec<JobId> = Vec::new();
    for outcome in join_all(claims).await {
        let Outcome::Claimed(jobs) = outcome.unwrap() else { panic!("not a claim's outcome") };
        claimed.extend(jobs.into_iter().map(|claimed| claimed.job.id));
    }
    let distinct: BTreeSet<JobId> = claimed.iter().copied().collect();
    assert_eq!((claimed.len(), distinct.len()), (20, 20));
    one.check().await;
}

#[tokio::test]
async fn a_claim_steps_over_rows_that_others_hold() {
    let database = Postgres::shared().database();
    let stage = stage(&database).await;
    let held = stage.shell("held").await;
    let free = stage.shell("free").await;
    let mut other = session(&database.url()).await;
    let transaction = other.transaction().await.unwrap();
    let lock = format!("SELECT 1 FROM jobs WHERE seq = {} FOR UPDATE", held.seq);
    transaction.batch_execute(&lock).await.unwrap();
    let claimed = timeout(BOUND, stage.claim()).await.unwrap().unwrap();
    assert_eq!(claimed.id, free.id);
    assert!(timeout(BOUND, stage.claim()).await.unwrap().is_none());
    transaction.rollback().await.unwrap();
    assert_eq!(stage.claim().await.unwrap().id, held.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_is_one_job_whoever_comes_first() {
    let database = Postgres::shared().database();
    let one = Arc::new(stage(&database).await);
    let other = connect(&database.url()).await;
    let submits = (0..20).map(|number| {
        let store: Arc<dyn Store> = if number % 2 == 0 { Arc::clone(&one.store) } else { other.clone() };
        let one = Arc::clone(&one);
        tokio::spawn(async move {
            let spec = JobSpec { idempotency_key: Some("the key".to_owned()), ..JobSpec::shell("once") };
            let submit = Submit { jobs: vec![one.new_job(spec)], atomic: true, set: None };
            let (answer, _) = store.apply_one(one.now(), Command::Submit(submit)).await.unwrap();
            let Outcome::Submitted(jobs) = answer.unwrap() else { panic!("not a submission's outcome") };
            jobs.into_iter().next().unwrap().unwrap().job.id
        })
    });
    let ids: BTreeSet<JobId> = join_all(submits).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(one.all().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_may_start_together() {
    let database = Postgres::shared().database();
    let url = database.url();
    let stores = join_all((0..6).map(|_| connect(&url))).await;
    for store in &stores {
        store.ping().await.unwrap();
    }
    assert_eq!(database.execute("SELECT count(*) = max(version) FROM schema_migrations"), "t");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = Postgres::shared().database();
    connect(&database.url()).await.close().await;
    database.execute("INSERT INTO schema_migrations (version, name) VALUES (1000, 'later')");
    let opened = PostgresStore::connect(&database.url(), PostgresOptions::default(), Policy::default()).await;
    let error = opened.unwrap_err();
    assert!(matches!(error, StoreError::SchemaTooNew { found: 1000, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_wakes_the_others_and_not_itself() {
    let database = Postgres::shared().database();
    let one = stage(&database).await;
    let other = connect(&database.url()).await;
    let (mut own, mut heard) = (one.store.wakes(), other.wakes());
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN muster' \
                     AND state = 'idle' AND datname = current_database()";
    let (own_first, heard_first) = (tokio::spawn(async move { own.next().await }), async {
        eventually("both listen", || async { database.execute(listening) == "2" }).await;
        let job = one.shell("news").await;
        one.claim_by("w1").await.unwrap();
        one.cancel(job.id).await.unwrap();
    });
    let gathered = async {
        let mut wake = Wake::default();
        while !(wake.work && wake.events && wake.stops == [WorkerId::new("w1")]) {
            wake.merge(heard.next().await.unwrap());
        }
    };
    timeout(BOUND, futures::future::join(heard_first, gathered)).await.unwrap();
    assert!(!own_first.is_finished(), "an instance was woken by itself");
    own_first.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_an_error_and_passes() {
    let cluster = Postgres::start();
    let database = cluster.database();
    let stage = stage(&database).await;
    let job = stage.shell("before").await;
    let mut wakes = stage.store.wakes();
    let listener = tokio::spawn(async move { wakes.next().await });
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN muster' AND state = 'idle'";
    eventually("it listens", || async { database.execute(listening) == "1" }).await;

    cluster.kill9();
    for _ in 0..3 {
        let answer = timeout(BOUND, stage.store.apply_one(stage.now(), claim(None))).await.unwrap();
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
        assert!(timeout(BOUND, stage.store.ping()).await.unwrap().is_err());
    }
    assert!(!listener.is_finished());

    cluster.restart();
    eventually("it answers again", || async { stage.store.ping().await.is_ok() }).await;
    assert_eq!(stage.claim().await.unwrap().id, job.id);
    // Something may have been missed, so everything counts as changed.
    let wake = timeout(BOUND, listener).await.unwrap().unwrap().unwrap();
    assert!(wake.work && wake.events, "{wake:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_nobody_waits_for_leaves_nothing_behind() {
    let database = Postgres::shared().database();
    let options = PostgresOptions { pool_size: 1, ..PostgresOptions::default() };
    let store = Arc::new(PostgresStore::connect(&database.url(), options, Policy::default()).await.unwrap());
    let stage = Stage::new(store.clone());
    let job = stage.shell("there").await;
    // Another transaction is about to name the shape of the new job, so that the batch has to wait for it,
    // after it has written the worker.
    let new = stage.new_job(needing(7));
    let mut other = session(&database.url()).await;
    let transaction = other.transaction().await.unwrap();
    let insert = format!(
        "INSERT INTO shapes (id, requirement) VALUES ({}, '')",
        muster_domain::ShapeId::of(&new.spec.shape()).0
    );
    transaction.batch_execute(&insert).await.unwrap();
    let worker = stage.register("known", memory(1), None).await;
    let batch = vec![
        Command::RegisterWorker(Worker { id: WorkerId::new("unwanted"), ..worker }),
        Command::Submit(Submit { jobs: vec![new], atomic: true, set: None }),
    ];
    let now = stage.now();
    let waiting = tokio::spawn(async move { store.apply(now, batch).await });
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    eventually("the batch waits", || async { database.execute(blocked) == "1" }).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    transaction.rollback().await.unwrap();
    // The only connection of the pool was inside a transaction. Handed on like that, the next commit on it
    // would bring the abandoned batch back.
    let claimed = timeout(BOUND, stage.claim()).await.unwrap().unwrap();
    assert_eq!(claimed.id, job.id);
    let workers = stage.store.workers().await.unwrap();
    assert_eq!(workers.iter().map(|usage| usage.worker.id.as_str()).collect::<Vec<_>>(), ["known"]);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' \
                AND datname = current_database()";
    assert_eq!(database.execute(open), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_log_misses_nothing() {
    const WRITERS: usize = 6;
    const BATCHES: usize = 40;
    let database = Postgres::shared().database();
    let first = Arc::new(stage(&database).await);
    let writers = (0..WRITERS).map(|number| {
        let (first, url) = (Arc::clone(&first), database.url());
        tokio::spawn(async move {
            let store = connect(&url).await;
            for batch in 0..BATCHES {
                // Of different sizes, so that short transactions overtake long ones.
                let count = if (number + batch) % 3 == 0 { 60 } else { 1 };
                let jobs = (0..count).map(|_| first.new_job(JobSpec::shell("x"))).collect();
                let submit = Command::Submit(Submit { jobs, atomic: true, set: None });
                store.apply_one(first.now(), submit).await.unwrap().0.unwrap();
            }
            store.close().await;
        })
    });
    let writers = tokio::spawn(join_all(writers));
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let finished = writers.is_finished();
        let events = first.store.events(EventFilter { job: None, after, limit: 50 }).await.unwrap();
        seen.extend(events.iter().map(|event| event.seq));
        match events.last() {
            Some(last) => after = last.seq,
            None if finished => break,
            None => tokio::task::yield_now().await,
        }
    }
    writers.await.unwrap().into_iter().for_each(Result::unwrap);
    let stored = database.execute("SELECT count(*) FROM events");
    assert_eq!(seen.len().to_string(), stored, "the reader went past an event");
    assert!(seen.is_sorted());
    assert_eq!(first.store.last_event().await.unwrap(), after);
}

/// Instances compare their time with what others wrote, so they keep to one clock: the server's.
#[tokio::test]
async fn the_clock_of_the_server_is_everybodys() {
    let database = Postgres::shared().database();
    let (one, other) = (connect(&database.url()).await, connect(&database.url()).await);
    let client = session(&database.url()).await;
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let before: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    let first = one.time().await.unwrap().unwrap().as_micros();
    let second = other.time().await.unwrap().unwrap().as_micros();
    let after: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert!(before <= first && first <= second && second <= after, "{before} {first} {second} {after}");
}
