//! Grouping, isolation of failures, and claims that nobody takes.

use std::sync::Arc;

use muster_domain::{ReportKind, WorkerId};
use muster_store::{Ask, Command, Outcome, Report, StoreError};

use super::Batcher;
use crate::error::ApiError;
use crate::testing::{FakeStore, running_job, start_batcher};

fn beat(name: &str) -> Command {
    Command::WorkerHeartbeat { worker: WorkerId::new(name), ports: None }
}

fn claim() -> Command {
    Command::Claim(Ask { max: 5, ..Ask::default() })
}

fn submit(batcher: &Batcher, command: Command) -> tokio::task::JoinHandle<Result<Outcome, ApiError>> {
    let batcher = batcher.clone();
    tokio::spawn(async move { batcher.submit_one(command).await })
}

fn failed() -> StoreError {
    StoreError::Failed { operation: "test", source: "as told".into() }
}

#[tokio::test]
async fn the_first_goes_at_once_and_the_rest_together() {
    let store = Arc::new(FakeStore::scripted(|_| None));
    let (batcher, _) = start_batcher(&store, 100);
    let first = submit(&batcher, beat("a"));
    assert_eq!(store.begun(1).await, [[beat("a")]]);
    let others = ["b", "c", "d"].map(|name| submit(&batcher, beat(name)));
    tokio::task::yield_now().await;
    store.gate.add_permits(2);
    assert_eq!(first.await.unwrap(), Ok(Outcome::WorkerSeen));
    for other in others {
        assert_eq!(other.await.unwrap(), Ok(Outcome::WorkerSeen));
    }
    let mut second = store.begun(2).await[1].clone();
    second.sort_by_key(|command| format!("{command:?}"));
    assert_eq!(second, [beat("b"), beat("c"), beat("d")]);
}

#[tokio::test]
async fn a_unit_stays_together_and_is_answered_in_order() {
    let store = Arc::new(FakeStore::open());
    store.jobs.lock().unwrap().push_back(running_job(1, "w"));
    let (batcher, _) = start_batcher(&store, 100);
    let answers = batcher.submit(vec![beat("a"), claim(), beat("b")]).await.unwrap().take();
    assert_eq!(answers[0], Ok(Outcome::WorkerSeen));
    assert!(matches!(&answers[1], Ok(Outcome::Claimed(jobs)) if jobs.len() == 1));
    assert_eq!(answers[2], Ok(Outcome::WorkerSeen));
}

#[tokio::test]
async fn one_bad_unit_hurts_nobody_else() {
    let store = Arc::new(FakeStore::scripted(|commands| commands.contains(&beat("bad")).then(failed)));
    let (batcher, _) = start_batcher(&store, 100);
    let first = submit(&batcher, beat("first"));
    store.begun(1).await;
    let others = ["good", "bad", "fine"].map(|name| submit(&batcher, beat(name)));
    tokio::task::yield_now().await;
    store.gate.add_permits(1_000);
    first.await.unwrap().unwrap();
    let [good, bad, fine] = others;
    assert!(good.await.unwrap().is_ok());
    assert_eq!(bad.await.unwrap().unwrap_err().status.as_u16(), 503);
    assert!(fine.await.unwrap().is_ok());
}

#[tokio::test]
async fn an_outage_is_told_to_all_without_trying_each() {
    let outage = |_: &[Command]| Some(StoreError::Unavailable { operation: "test", source: "gone".into() });
    let store = Arc::new(FakeStore::scripted(outage));
    let (batcher, parts) = start_batcher(&store, 100);
    let since = parts.health.listening_since();
    let first = submit(&batcher, beat("a"));
    store.begun(1).await;
    let others = ["b", "c"].map(|name| submit(&batcher, beat(name)));
    tokio::task::yield_now().await;
    store.gate.add_permits(1_000);
    assert_eq!(first.await.unwrap().unwrap_err().message, "store unavailable");
    for other in others {
        assert_eq!(other.await.unwrap().unwrap_err().message, "store unavailable");
    }
    assert_eq!(store.begun(2).await.len(), 2);
    parts.health.answered();
    assert!(parts.health.listening_since() >= since);
}

#[tokio::test(start_paused = true)]
async fn a_collision_is_tried_again() {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let store = Arc::new(FakeStore::scripted(move |_| {
        let count = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (count < 2).then_some(StoreError::Conflict { operation: "test" })
    }));
    store.gate.add_permits(1_000);
    let (batcher, _) = start_batcher(&store, 100);
    assert!(batcher.submit_one(beat("a")).await.is_ok());
    assert_eq!(store.begun(3).await.len(), 3);
}

#[tokio::test]
async fn a_full_queue_turns_callers_away() {
    let store = Arc::new(FakeStore::scripted(|_| None));
    let (batcher, _) = start_batcher(&store, 2);
    let mut held = vec![submit(&batcher, beat("in flight"))];
    store.begun(1).await;
    held.extend(["q1", "q2"].map(|name| submit(&batcher, beat(name))));
    tokio::task::yield_now().await;
    let refused = batcher.submit_one(beat("too many")).await.unwrap_err();
    assert_eq!((refused.status.as_u16(), refused.retry_after), (503, Some(1)));
    store.gate.add_permits(1_000);
    for caller in held {
        assert!(caller.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_panicking_store_is_an_error() {
    let store = Arc::new(FakeStore::scripted(|commands| {
        assert!(!commands.contains(&beat("poison")), "as told");
        None
    }));
    store.gate.add_permits(1_000);
    let (batcher, _) = start_batcher(&store, 100);
    assert_eq!(batcher.submit_one(beat("poison")).await.unwrap_err().status.as_u16(), 503);
    assert!(batcher.submit_one(beat("fine")).await.is_ok());
}

/// The job that the first command of a batch hands back.
fn handed_back(batch: &[Command]) -> (muster_domain::JobId, Option<muster_domain::Lease>) {
    match &batch[0] {
        Command::Report(Report { job, caller, kind: ReportKind::Released, .. }) => (*job, caller.lease),
        other => panic!("not a release: {other:?}"),
    }
}

#[tokio::test]
async fn a_claim_whose_caller_is_gone_is_handed_back() {
    let store = Arc::new(FakeStore::scripted(|_| None));
    let job = running_job(7, "w");
    store.jobs.lock().unwrap().push_back(job.clone());
    let (batcher, _) = start_batcher(&store, 100);
    let caller = submit(&batcher, claim());
    store.begun(1).await;
    caller.abort();
    assert!(caller.await.is_err());
    store.gate.add_permits(1_000);
    assert_eq!(handed_back(&store.begun(2).await[1]), (job.id, Some(job.lease)));
}

#[tokio::test]
async fn a_delivery_that_is_dropped_is_handed_back_and_one_that_is_taken_is_not() {
    let store = Arc::new(FakeStore::open());
    let (batcher, _) = start_batcher(&store, 100);
    store.jobs.lock().unwrap().push_back(running_job(1, "w"));
    let taken = batcher.submit(vec![claim()]).await.unwrap().take();
    assert!(matches!(&taken[0], Ok(Outcome::Claimed(jobs)) if jobs.len() == 1));
    let job = running_job(2, "w");
    store.jobs.lock().unwrap().push_back(job.clone());
    drop(batcher.submit(vec![claim(), beat("a")]).await.unwrap().split());
    assert_eq!(handed_back(&store.begun(3).await[2]), (job.id, Some(job.lease)));
}

/// Whoever named its claim asks for it again, perhaps through another scheduler: the jobs may be running by now.
#[tokio::test]
async fn a_named_claim_whose_answer_nobody_took_is_not_handed_back() {
    let store = Arc::new(FakeStore::open());
    let (batcher, _) = start_batcher(&store, 100);
    store.jobs.lock().unwrap().push_back(running_job(1, "w"));
    let named = Command::Claim(Ask { max: 5, key: Some("once".into()), ..Ask::default() });
    let delivery = batcher.submit(vec![named]).await.unwrap();
    assert!(delivery.has_jobs());
    drop(delivery);
    assert!(batcher.submit_one(beat("next")).await.is_ok());
    assert_eq!(store.begun(2).await[1..], [vec![beat("next")]]);
}

#[tokio::test]
async fn a_named_claim_that_is_refused_after_all_is_handed_back() {
    let store = Arc::new(FakeStore::open());
    let (batcher, _) = start_batcher(&store, 100);
    let job = running_job(1, "w");
    store.jobs.lock().unwrap().push_back(job.clone());
    let named = Command::Claim(Ask { max: 5, key: Some("once".into()), ..Ask::default() });
    batcher.submit(vec![named]).await.unwrap().give_back();
    assert_eq!(handed_back(&store.begun(2).await[1]), (job.id, Some(job.lease)));
}
