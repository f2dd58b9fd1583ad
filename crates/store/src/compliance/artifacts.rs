//! Artifacts: listed by attempt and name, bounded, told by the holder of the lease only, gone with their job.

use muster_domain::{
    ArtifactBounds, ArtifactContent, Caller, Job, JobId, JobSpec, Lease, QueueName, Rejection, ReportKind,
    Span,
};

use super::stage::{Stage, needing};
use crate::artifacts::{ArtifactFilter, ArtifactRun, ExpireArtifacts, KeepArtifacts};
use crate::command::{Command, Outcome};
use crate::store::StoreExt;

fn kept(blob: &str, size: u64) -> ArtifactContent {
    let (blob, sha256) = (blob.to_owned(), "0".repeat(64));
    ArtifactContent::Kept { blob, size, sha256, content_type: "text/plain".to_owned() }
}

fn missing(why: &str) -> ArtifactContent {
    ArtifactContent::Missing { why: why.to_owned() }
}

async fn keep_within(
    stage: &Stage,
    (job, lease): (JobId, Lease),
    bounds: ArtifactBounds,
    artifacts: &[(&str, ArtifactContent)],
) -> Result<Vec<String>, Rejection> {
    let artifacts = artifacts.iter().map(|(name, content)| ((*name).to_owned(), content.clone())).collect();
    let caller = Caller { lease: Some(lease), worker: None };
    match stage.one(Command::KeepArtifacts(KeepArtifacts { job, caller, artifacts, bounds })).await? {
        Outcome::ArtifactsKept { replaced } => Ok(replaced),
        other => panic!("{other:?}"),
    }
}

async fn keep(
    stage: &Stage,
    job: &Job,
    artifacts: &[(&str, ArtifactContent)],
) -> Result<Vec<String>, Rejection> {
    keep_within(stage, (job.id, job.lease), ArtifactBounds::default(), artifacts).await
}

async fn names(stage: &Stage, filter: ArtifactFilter) -> Vec<String> {
    stage.store.artifacts(filter).await.unwrap().into_iter().map(|artifact| artifact.name).collect()
}

pub async fn artifacts_are_listed_by_attempt_and_name(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    assert_eq!(stage.store.artifact_runs(job.id).await.unwrap(), []);
    let two = [("b/\u{e4} x", kept("blob-b", 7)), ("a", kept("blob-a", 5)), ("c", missing("it changed"))];
    assert_eq!(keep(stage, &job, &two).await.unwrap(), Vec::<String>::new());
    let all = stage.store.artifacts(ArtifactFilter::of(job.id, job.lease)).await.unwrap();
    assert_eq!(all.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["a", "b/\u{e4} x", "c"]);
    assert_eq!((&all[1].content, &all[2].content), (&kept("blob-b", 7), &missing("it changed")));
    assert_eq!((all[0].attempt, all[0].lease, all[0].at), (job.attempts, job.lease, stage.now()));
    let page = |after: &str| ArtifactFilter {
        after: Some(after.to_owned()),
        limit: 1,
        ..ArtifactFilter::of(job.id, job.lease)
    };
    assert_eq!(names(stage, page("a")).await, ["b/\u{e4} x"]);
    assert_eq!(names(stage, page("c")).await, [""; 0]);
    let named = ArtifactFilter { name: Some("c".to_owned()), ..ArtifactFilter::of(job.id, job.lease) };
    assert_eq!(names(stage, named).await, ["c"]);
    let run = ArtifactRun { lease: job.lease, attempt: job.attempts, files: 2, bytes: 12, missing: 1 };
    assert_eq!(stage.store.artifact_runs(job.id).await.unwrap(), [run]);
    let asked = ["blob-a", "other", "blob-b"].map(str::to_owned).to_vec();
    let mut known = stage.store.known_blobs(asked).await.unwrap();
    known.sort_unstable();
    assert_eq!(known, ["blob-a", "blob-b"]);
}

pub async fn an_artifact_that_comes_again_replaces_the_first(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    keep(stage, &job, &[("a", kept("one", 5))]).await.unwrap();
    assert_eq!(keep(stage, &job, &[("a", kept("one", 5))]).await.unwrap(), Vec::<String>::new());
    assert_eq!(keep(stage, &job, &[("a", kept("two", 6))]).await.unwrap(), ["one"]);
    assert_eq!(stage.store.known_blobs(vec!["one".to_owned()]).await.unwrap(), Vec::<String>::new());
    assert_eq!(stage.store.artifact_runs(job.id).await.unwrap()[0].bytes, 6);
}

pub async fn only_the_holder_of_the_lease_leaves_artifacts(stage: &Stage) {
    let pending = stage.shell("x").await;
    let none = ArtifactBounds::default();
    let early = keep_within(stage, (pending.id, Lease(1)), none, &[("a", kept("a", 1))]).await;
    assert!(early.is_err(), "{early:?}");
    let job = stage.claim().await.unwrap();
    let other = keep_within(stage, (job.id, Lease(job.lease.0 + 1)), none, &[("a", kept("a", 1))]).await;
    assert!(matches!(other, Err(Rejection::StaleLease { .. })), "{other:?}");
    let caller = Caller { lease: None, worker: None };
    let artifacts = vec![("a".to_owned(), kept("a", 1))];
    let command = KeepArtifacts { job: job.id, caller, artifacts, bounds: none };
    assert!(stage.one(Command::KeepArtifacts(command)).await.is_err());
    stage.report(&job, ReportKind::Done).await.unwrap();
    assert!(keep(stage, &job, &[("a", kept("a", 1))]).await.is_err(), "it has ended");
    assert_eq!(stage.store.artifact_runs(job.id).await.unwrap(), []);
}

pub async fn artifacts_keep_within_their_bounds(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    let lease = (job.id, job.lease);
    let files = ArtifactBounds { files: Some(2), ..ArtifactBounds::default() };
    keep_within(stage, lease, files, &[("a", kept("a", 5)), ("b", missing("x"))]).await.unwrap();
    keep_within(stage, lease, files, &[("a", kept("a2", 5))]).await.unwrap();
    // What is missing takes the place of no file.
    keep_within(stage, lease, files, &[("c", kept("c", 0)), ("d", missing("x"))]).await.unwrap();
    for one in [kept("e", 1), missing("x")] {
        let third = keep_within(stage, lease, files, &[("e", one)]).await;
        assert_eq!(third, Err(Rejection::TooManyArtifacts { limit: 2 }));
    }
    let again = keep_within(stage, lease, files, &[("b", kept("b", 1))]).await;
    assert_eq!(again, Err(Rejection::TooManyArtifacts { limit: 2 }));
    for bounds in [
        ArtifactBounds { job: Some(9), ..ArtifactBounds::default() },
        ArtifactBounds { queue: Some(9), ..ArtifactBounds::default() },
        ArtifactBounds { user: Some(9), ..ArtifactBounds::default() },
    ] {
        let over = keep_within(stage, lease, bounds, &[("e", kept("e", 5))]).await;
        let full = matches!(over, Err(Rejection::ArtifactsFull { used: 5, wanted: 5, limit: 9, .. }));
        assert!(full, "{over:?}");
        keep_within(stage, lease, bounds, &[("a", kept("a3", 9))]).await.unwrap();
        keep_within(stage, lease, bounds, &[("a", kept("a4", 5))]).await.unwrap();
    }
    assert_eq!(names(stage, ArtifactFilter::of(job.id, job.lease)).await, ["a", "b", "c", "d"]);
}

pub async fn bytes_count_for_their_queue(stage: &Stage) {
    let mut jobs = Vec::new();
    for queue in ["ml", "other"] {
        stage.submit(JobSpec { queue: Some(QueueName::new(queue)), ..needing(1) }).await;
        jobs.push(stage.claim().await.unwrap());
    }
    let bounds = ArtifactBounds { queue: Some(10), ..ArtifactBounds::default() };
    for job in &jobs {
        keep_within(stage, (job.id, job.lease), bounds, &[("a", kept(&job.id.to_string(), 8))])
            .await
            .unwrap();
    }
    let over =
        keep_within(stage, (jobs[0].id, jobs[0].lease), bounds, &[("b", kept("b", 3))]).await.unwrap_err();
    assert!(over.to_string().contains("queue ml has 8 bytes"), "{over}");
}

pub async fn old_artifacts_go_and_their_names_stay(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    keep(stage, &job, &[("a", kept("one", 5)), ("b", missing("x"))]).await.unwrap();
    stage.advance(Span::from_secs(100));
    keep(stage, &job, &[("c", kept("two", 7))]).await.unwrap();
    let expire = |before, limit| Command::ExpireArtifacts(ExpireArtifacts { before, limit });
    let cutoff = stage.now() - Span::from_secs(50);
    let gone = stage.one(expire(cutoff, 10)).await.unwrap();
    assert_eq!(gone, Outcome::ArtifactsExpired { blobs: vec!["one".to_owned()] });
    assert_eq!(stage.one(expire(cutoff, 10)).await.unwrap(), Outcome::ArtifactsExpired { blobs: Vec::new() });
    let left = stage.store.artifacts(ArtifactFilter::of(job.id, job.lease)).await.unwrap();
    let contents: Vec<&ArtifactContent> = left.iter().map(|artifact| &artifact.content).collect();
    assert_eq!(*contents[0], ArtifactContent::Removed { at: stage.now() });
    assert_eq!((contents[1], contents[2]), (&missing("x"), &kept("two", 7)));
    let run = stage.store.artifact_runs(job.id).await.unwrap()[0];
    assert_eq!((run.files, run.bytes, run.missing), (1, 7, 1));
    assert_eq!(stage.store.known_blobs(vec!["one".to_owned()]).await.unwrap(), Vec::<String>::new());
    // The name can be used again.
    keep(stage, &job, &[("a", kept("three", 2))]).await.unwrap();
    assert_eq!(stage.store.artifact_runs(job.id).await.unwrap()[0].bytes, 9);
}

pub async fn artifacts_go_with_their_job(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    keep(stage, &job, &[("a", kept("one", 5))]).await.unwrap();
    stage.report(&job, ReportKind::Done).await.unwrap();
    assert_eq!(names(stage, ArtifactFilter::of(job.id, job.lease)).await, ["a"]);
    stage.advance(Span::from_secs(100));
    stage.sweep_with(stage.now(), Some(Span::from_secs(50))).await;
    assert_eq!(names(stage, ArtifactFilter::of(job.id, job.lease)).await, [""; 0]);
    assert_eq!(stage.store.known_blobs(vec!["one".to_owned()]).await.unwrap(), Vec::<String>::new());
}
