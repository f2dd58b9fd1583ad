//! Leadership among several instances on one server: passes under way, and connections that do nothing.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code, also outside of the test functions")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_domain::{Bid, JobSpec, LeaderTerm, Role, Span, Timestamp};
use muster_pg_testkit::{Database, Postgres};
use muster_store::compliance::Stage;
use muster_store::engine::Policy;
use muster_store::{Ask, Command, Outcome, Store, StoreExt, Submit};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::NoTls;

const LEASE: Span = Span::from_secs(5);

async fn connect(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(url, PostgresOptions::default(), Policy::default()).await.unwrap())
}

async fn lead(store: &PostgresStore, holder: &str, now: Timestamp) -> Vec<LeaderTerm> {
    let bid = Bid { holder: holder.into(), roles: vec![Role::Planner], lease: LEASE };
    match store.apply_one(now, Command::Lead(bid)).await.unwrap().0.unwrap() {
        Outcome::Leads(terms) => terms,
        other => panic!("{other:?}"),
    }
}

/// A takeover that came between the check of the term and the commit of a pass would let both leaders act.
#[tokio::test]
async fn nobody_takes_over_while_a_pass_is_under_way() {
    let database = Postgres::shared().database();
    let (one, other) = (connect(&database.url()).await, connect(&database.url()).await);
    let now = Timestamp::from_micros(1_700_000_000_000_000);
    assert_eq!(lead(&one, "a", now).await.len(), 1);
    let (mut client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let pass = client.transaction().await.unwrap();
    pass.execute("SELECT 1 FROM leader_leases WHERE role = 'planner' FOR KEY SHARE", &[]).await.unwrap();

    let later = now + Span::from_secs(60);
    assert_eq!(lead(&other, "b", later).await, [], "the pass is not over");
    assert_eq!(lead(&one, "a", later).await.len(), 1, "a pass does not keep its leader from renewing");
    let last = later + Span::from_secs(60);
    pass.commit().await.unwrap();
    assert_eq!(lead(&other, "b", last).await, [LeaderTerm { role: Role::Planner, term: 2 }]);
}

/// Of two that ask at the same time one leads, and the same one the next time.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_that_ask_at_once_leads() {
    let database = Postgres::shared().database();
    let url = database.url();
    let stores = futures::future::join_all((0..4).map(|_| connect(&url))).await;
    for round in 1..20_i64 {
        let now = Timestamp::from_micros(round * 60_000_000);
        let names: Vec<String> = (0..4).map(|number| format!("{number}")).collect();
        let bids = stores.iter().zip(&names).map(|(store, name)| lead(store, name, now));
        let leaders = futures::future::join_all(bids).await;
        // All may have skipped what another was changing, or one leads.
        assert!(leaders.iter().filter(|terms| !terms.is_empty()).count() <= 1, "{leaders:?}");
    }
}

fn claim() -> Command {
    Command::Claim(Ask { max: 5, ..Ask::default() })
}

/// Works on the store from all sides until told to stop.
async fn work(stage: Arc<Stage>, url: String, stop: Arc<AtomicBool>) {
    let store = connect(&url).await;
    let mut now = stage.now();
    while !stop.load(Ordering::Relaxed) {
        let jobs = (0..20).map(|_| stage.new_job(JobSpec::shell("x"))).collect();
        let submit = Command::Submit(Submit { jobs, atomic: true, set: None });
        store.apply_one(now, submit).await.unwrap().0.unwrap();
        store.apply_one(now, claim()).await.unwrap().0.unwrap();
        lead(&store, "somebody", now).await;
        store.counts().await.unwrap();
        now = now + Span::from_millis(100);
    }
    store.close().await;
}

/// What is idle inside a transaction keeps the server from removing dead rows, and what it reads grows without end.
#[tokio::test(flavor = "multi_thread")]
async fn no_connection_stays_inside_a_transaction() {
    let database = Postgres::shared().database();
    let stage = Arc::new(Stage::new(connect(&database.url()).await));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> =
        (0..3).map(|_| tokio::spawn(work(Arc::clone(&stage), database.url(), Arc::clone(&stop)))).collect();
    let mut samples = 0;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(idle_in_transaction(&database), "0", "a connection does nothing inside a transaction");
        samples += 1;
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(samples, 50);
}

/// Connections that were told nothing for a second while a transaction was open.
fn idle_in_transaction(database: &Database<'_>) -> String {
    database.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > interval '1 second'",
    )
}
