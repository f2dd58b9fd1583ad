//! What is expected of a job, from runs of the same name before it.

use muster_domain::{Job, JobSpec, ReportKind, Span, Status};

use super::Stage;
use super::band::membership;
use super::outlook::alive;
use super::stage::{memory, needing};
use crate::store::StoreExt;

fn named(name: &str) -> JobSpec {
    let user = Some("ann".to_owned());
    JobSpec { name: Some(name.to_owned()), user, ..needing(10) }
}

async fn run(stage: &Stage, spec: JobSpec, seconds: u32, kind: ReportKind) -> Job {
    let id = stage.submit(spec).await.id;
    let job = stage.claim().await.unwrap();
    assert_eq!(job.id, id, "another job was pending");
    stage.advance(Span::from_secs(seconds));
    stage.report(&job, kind).await.unwrap()
}

async fn expects(stage: &Stage, spec: JobSpec) -> Option<u64> {
    let job = stage.submit(spec).await;
    let stored = stage.get(job.id).await;
    assert_eq!(stored.expected, job.expected);
    stage.cancel(job.id).await.unwrap();
    job.expected.map(|span| span.as_micros() / 1_000_000)
}

pub async fn runs_before_say_what_to_expect(stage: &Stage) {
    assert_eq!(expects(stage, named("train")).await, None);
    run(stage, named("train"), 100, ReportKind::Done).await;
    assert_eq!(expects(stage, named("train")).await, Some(100));
    run(stage, named("train"), 300, ReportKind::Done).await;
    assert_eq!(expects(stage, named("train")).await, Some(200));
    // The same name of somebody else, or in a queue, is something else; so is another name, and none.
    assert_eq!(expects(stage, JobSpec { user: None, ..named("train") }).await, None);
    let queue = Some(muster_domain::QueueName::new("q"));
    assert_eq!(expects(stage, JobSpec { queue, ..named("train") }).await, None);
    assert_eq!(expects(stage, named("other")).await, None);
    assert_eq!(expects(stage, needing(10)).await, None);
    // What fails teaches nothing, and small changes are not worth a write: this one would make it 315.
    let failing = JobSpec { max_attempts: 1, ..named("train") };
    assert_eq!(run(stage, failing, 5000, ReportKind::Failed).await.status(), Status::Failed);
    run(stage, named("train"), 310, ReportKind::Done).await;
    assert_eq!(expects(stage, named("train")).await, Some(305));
    run(stage, named("train"), 320, ReportKind::Done).await;
    assert_eq!(expects(stage, named("train")).await, Some(305));
}

pub async fn one_batch_teaches_in_order_and_old_series_are_forgotten(stage: &Stage) {
    let (first, second) = (stage.submit(named("x")).await, stage.submit(named("x")).await);
    let jobs: Vec<Job> = stage.claim_as(None, 2).await.into_iter().map(|one| one.job).collect();
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [first.id, second.id]);
    stage.advance(Span::from_secs(60));
    let reports = jobs.iter().map(|job| {
        let caller = muster_domain::Caller { lease: Some(job.lease), worker: None };
        let (kind, exit) = (ReportKind::Done, muster_domain::Exit { code: Some(0), signal: None });
        crate::command::Command::Report(crate::command::Report {
            job: job.id,
            caller,
            kind,
            exit,
            message: None,
            outputs: None,
            spent: None,
        })
    });
    stage.apply(reports.collect()).await;
    assert_eq!(expects(stage, named("x")).await, Some(60));
    stage.advance(Span::from_secs(89 * 24 * 3600));
    stage.sweep().await;
    assert_eq!(expects(stage, named("x")).await, Some(60));
    stage.advance(Span::from_secs(2 * 24 * 3600));
    stage.sweep().await;
    assert_eq!(expects(stage, named("x")).await, None);
}

pub async fn what_is_expected_is_foreseen_and_lets_short_jobs_pass(stage: &Stage) {
    run(stage, named("short"), 50, ReportKind::Done).await;
    run(stage, named("long"), 100, ReportKind::Done).await;
    stage.register("a", memory(100), None).await;
    let long = stage.submit(JobSpec { resources: Some(memory(60)), ..named("long") }).await;
    assert_eq!(stage.claim_by("a").await.unwrap().id, long.id);
    let gang = stage.submit_gang(needing(100), membership(1)).await;
    assert_eq!(stage.look().await.keeping, 1);
    let task = stage.tasks(gang).await[0].id;
    assert!(stage.why_codes(task).await.contains(&"foreseen"));
    assert!(stage.why(task).await.start.unwrap().by_history, "the long one has no limit");
    stage.submit(needing(10)).await;
    let short = stage.submit(named("short")).await;
    assert_eq!(stage.claim_by("a").await.unwrap().id, short.id, "it is gone in time");
    assert!(stage.claim_by("a").await.is_none());
    // It takes longer than expected: it is given as much again.
    stage.advance(Span::from_secs(150));
    alive(stage, &["a"]).await;
    assert_eq!(stage.look().await.keeping, 1);
    let workers = stage.store.workers().await.unwrap();
    let kept = workers[0].worker.kept.clone().unwrap();
    assert_eq!(kept.until, Some(stage.now() + Span::from_secs(50)));
}
