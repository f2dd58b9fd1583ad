//! Gates: paused queues, rates, concurrency keys.

use muster_domain::{Concurrency, Job, JobSpec, QueueName, RateLimit, Reason, ReportKind, Span, Status};

use super::stage::Stage;
use crate::command::{Command, Outcome, QueueSettings};
use crate::store::StoreExt;

fn settings(name: &str) -> QueueSettings {
    QueueSettings::new(QueueName::new(name))
}

async fn set(stage: &Stage, settings: QueueSettings) {
    assert!(matches!(stage.one(Command::PutQueue(settings)).await, Ok(Outcome::Queue(_))));
}

fn queued(queue: &str) -> JobSpec {
    JobSpec { queue: Some(QueueName::new(queue)), ..JobSpec::shell("x") }
}

fn keyed(key: &str, limit: u32) -> JobSpec {
    JobSpec { concurrency: Some(Concurrency { key: key.to_owned(), limit }), ..JobSpec::shell("x") }
}

async fn claim_all(stage: &Stage) -> Vec<Job> {
    stage.claim_as(None, 100).await.into_iter().map(|claimed| claimed.job).collect()
}

pub async fn a_paused_queue_starts_nothing(stage: &Stage) {
    set(stage, QueueSettings { paused: Some(true), ..settings("night") }).await;
    let waiting = stage.submit(queued("night")).await.id;
    let other = stage.submit(queued("day")).await.id;
    assert_eq!(claim_all(stage).await.iter().map(|job| job.id).collect::<Vec<_>>(), [other]);
    set(stage, QueueSettings { paused: Some(false), ..settings("night") }).await;
    assert_eq!(stage.claim().await.unwrap().id, waiting);
    assert_eq!(stage.store.queues().await.unwrap().len(), 1);
}

pub async fn a_rate_bounds_starts(stage: &Stage) {
    let rate = Some(Some(RateLimit { starts: 2, per: Span::from_secs(10) }));
    set(stage, QueueSettings { rate, ..settings("mail") }).await;
    for _ in 0..5 {
        stage.submit(queued("mail")).await;
    }
    assert_eq!(claim_all(stage).await.len(), 2);
    assert_eq!(claim_all(stage).await.len(), 0);
    stage.advance(Span::from_secs(5));
    assert_eq!(claim_all(stage).await.len(), 1);
    stage.advance(Span::from_secs(100));
    assert_eq!(claim_all(stage).await.len(), 2, "no more than one full rate is saved up");
}

pub async fn a_key_bounds_what_runs_at_once(stage: &Stage) {
    for _ in 0..4 {
        stage.submit(keyed("db", 2)).await;
    }
    let free = stage.shell("free").await.id;
    let running = claim_all(stage).await;
    assert_eq!(running.len(), 3);
    assert!(running.iter().any(|job| job.id == free));
    assert!(stage.claim().await.is_none());
    let keyed = running.iter().find(|job| job.id != free).unwrap();
    stage.cancel(keyed.id).await.unwrap();
    assert!(stage.claim().await.is_none(), "a stopping job still holds its place");
    stage.report(keyed, ReportKind::Preempted).await.unwrap();
    assert_eq!(claim_all(stage).await.len(), 1);
}

pub async fn parallel_claims_respect_a_key(stage: &Stage) {
    for _ in 0..20 {
        stage.submit(keyed("one", 3)).await;
    }
    let claims = (0..10).map(|n| async move { stage.claim_by(&format!("w{n}")).await });
    let claimed = futures::future::join_all(claims).await.into_iter().flatten().count();
    let late = claim_all(stage).await.len();
    assert_eq!(claimed + late, 3);
    let running = stage.all().await.iter().filter(|job| job.status() == Status::Running).count();
    assert_eq!(running, 3);
}

pub async fn the_smallest_limit_of_a_key_counts(stage: &Stage) {
    stage.submit(keyed("k", 5)).await;
    stage.submit(keyed("k", 1)).await;
    assert_eq!(claim_all(stage).await.len(), 1);
}

pub async fn why_names_the_gate(stage: &Stage) {
    let codes = async |id| {
        let reasons = stage.reasons(id).await;
        reasons.iter().map(Reason::code).collect::<Vec<_>>()
    };
    stage.submit(keyed("k", 1)).await;
    stage.claim().await.unwrap();
    let waiting = stage.submit(keyed("k", 1)).await.id;
    assert!(codes(waiting).await.contains(&"concurrency"));
    set(stage, QueueSettings { paused: Some(true), ..settings("q") }).await;
    let paused = stage.submit(queued("q")).await.id;
    assert!(codes(paused).await.contains(&"queue_paused"));
    stage.control(Command::Hold { job: paused, message: None }).await.unwrap();
    assert_eq!(codes(paused).await, ["held"]);
    let later = Some(stage.now() + Span::from_secs(9));
    let delayed = stage.submit(JobSpec { not_before: later, ..JobSpec::shell("x") }).await.id;
    assert_eq!(codes(delayed).await, ["not_before"]);
}
