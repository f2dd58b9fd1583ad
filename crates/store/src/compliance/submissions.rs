//! Batches: local names, atomicity, idempotency, order.

use muster_domain::{JobSpec, Rejection, Status};

use super::stage::{Stage, memory, needing};
use crate::command::NewJob;

fn named(stage: &Stage, reference: &str, depends_on: &[&str]) -> NewJob {
    NewJob {
        reference: Some(reference.to_owned()),
        depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        ..stage.new_job(JobSpec::shell(reference))
    }
}

pub async fn references_within_a_batch(stage: &Stage) {
    // The dependant comes first: order within the batch does not matter to references.
    let jobs = vec![
        named(stage, "last", &["first", "second"]),
        named(stage, "first", &[]),
        named(stage, "second", &["first"]),
    ];
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    let taken = stage.try_submit(jobs, true).await.unwrap();
    let statuses: Vec<_> = taken.iter().map(|job| job.as_ref().unwrap().job.status()).collect();
    assert_eq!(statuses, [Status::Blocked, Status::Pending, Status::Blocked]);
    assert_eq!(stage.get(ids[0]).await.spec.depends_on, [ids[1], ids[2]]);
    for expected in [ids[1], ids[2], ids[0]] {
        let job = stage.claim().await.unwrap();
        assert_eq!(job.id, expected);
        stage.report(&job, muster_domain::ReportKind::Done).await.unwrap();
    }
}

pub async fn a_cycle_is_spelled_out(stage: &Stage) {
    let jobs = vec![named(stage, "A", &["B"]), named(stage, "B", &["A"])];
    let refused = stage.try_submit(jobs, false).await.unwrap_err();
    assert_eq!(refused.to_string(), "cycle detected: A->B->A");
    let twice = vec![named(stage, "A", &[]), named(stage, "A", &[])];
    assert!(matches!(stage.try_submit(twice, false).await, Err(Rejection::DuplicateReference { .. })));
    assert!(stage.all().await.is_empty());
}

pub async fn atomic_takes_all_or_none(stage: &Stage) {
    let jobs = vec![named(stage, "a", &[]), named(stage, "b", &["nowhere"])];
    let refused = stage.try_submit(jobs, true).await.unwrap_err();
    assert!(matches!(refused, Rejection::BatchRefused { .. }), "{refused:?}");
    assert!(stage.all().await.is_empty());
}

pub async fn others_survive_a_refused_one(stage: &Stage) {
    let jobs = vec![
        named(stage, "a", &[]),
        named(stage, "b", &["nowhere"]),
        named(stage, "c", &["b"]),
        named(stage, "d", &["a"]),
    ];
    let taken = stage.try_submit(jobs, false).await.unwrap();
    let accepted: Vec<bool> = taken.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [true, false, false, true]);
    assert_eq!(stage.all().await.len(), 2);
}

pub async fn an_idempotency_key_returns_the_first_job(stage: &Stage) {
    let spec = |line: &str| JobSpec { idempotency_key: Some("key".into()), ..JobSpec::shell(line) };
    let first = stage.submit(spec("one")).await;
    let again =
        stage.try_submit(vec![stage.new_job(spec("one"))], true).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((again.job.id, again.repeated), (first.id, true));
    let other = |line: &str| JobSpec { idempotency_key: Some("other".into()), ..JobSpec::shell(line) };
    let twins = vec![stage.new_job(other("three")), stage.new_job(other("three"))];
    let twins = stage.try_submit(twins, false).await.unwrap();
    let ids: Vec<_> = twins.iter().map(|twin| twin.as_ref().unwrap().job.id).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(stage.all().await.len(), 2);
}

pub async fn a_key_names_one_job_and_no_other(stage: &Stage) {
    let spec = |key: &str, line: &str| JobSpec { idempotency_key: Some(key.into()), ..JobSpec::shell(line) };
    let first = stage.submit(spec("key", "one")).await;
    let differs = |refused: &Rejection| match refused {
        Rejection::KeyReused { first: named, fields, .. } => {
            *named == first.id.to_string() && fields == &["command"]
        }
        _ => false,
    };
    let other = vec![stage.new_job(spec("key", "two")), stage.new_job(JobSpec::shell("three"))];
    let taken = stage.try_submit(other.clone(), false).await.unwrap();
    assert!(taken[0].as_ref().is_err_and(differs) && taken[1].is_ok());
    let before = stage.all().await.len();
    let refused = match stage.try_submit(other, true).await.unwrap_err() {
        Rejection::BatchRefused { cause } => *cause,
        refused => refused,
    };
    assert!(differs(&refused), "{refused:?}");
    let twins = vec![stage.new_job(spec("new", "four")), stage.new_job(spec("new", "five"))];
    assert!(stage.try_submit(twins.clone(), true).await.is_err());
    assert_eq!(stage.all().await.len(), before, "all or none");
    let taken = stage.try_submit(twins, false).await.unwrap();
    assert!(taken[0].is_ok() && matches!(taken[1], Err(Rejection::KeyReused { .. })));
}

pub async fn order_of_a_batch_is_kept(stage: &Stage) {
    let jobs: Vec<NewJob> = (0..20).map(|n| stage.new_job(JobSpec::shell(n.to_string()))).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    stage.try_submit(jobs, true).await.unwrap();
    let mut claimed = Vec::new();
    while let Some(job) = stage.claim().await {
        claimed.push(job.id);
    }
    assert_eq!(claimed, ids);
}

pub async fn impossible_needs_are_flagged(stage: &Stage) {
    let submit =
        async |spec| stage.try_submit(vec![stage.new_job(spec)], true).await.unwrap().pop().unwrap().unwrap();
    assert!(submit(needing(999_999)).await.warnings.is_empty(), "no worker is known yet");
    stage.register("w1", memory(8000), None).await;
    assert!(submit(needing(8000)).await.warnings.is_empty());
    let warnings = submit(needing(999_999)).await.warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("999999") && warning.contains("w1")),
        "{warnings:?}"
    );
}
