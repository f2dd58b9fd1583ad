//! Jobs one at a time: what goes in comes out, and each report has its effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_domain::{
    Caller, JobSpec, Program, QueueName, Rejection, ReportKind, Resources, Span, Status, WorkerId,
};

use super::stage::Stage;
use crate::command::{Command, Outcome};
use crate::store::StoreExt;

pub async fn add_job_returns_a_unique_id(stage: &Stage) {
    let (a, b) = (stage.shell("a").await, stage.shell("b").await);
    assert_ne!(a.id, b.id);
    assert_eq!(stage.get(a.id).await.id, a.id);
}

pub async fn get_job_round_trip(stage: &Stage) {
    let job = stage.shell("echo hello").await;
    let found = stage.get(job.id).await;
    assert_eq!(found, job);
    assert_eq!(found.spec.program, Program::Shell("echo hello".to_owned()));
    assert_eq!(found.status(), Status::Pending);
    assert_eq!(found.created_at, stage.now());
    assert_eq!((found.started_at, found.done_at(), found.last_heartbeat()), (None, None, None));
    assert_eq!((found.spec.max_attempts, found.attempts), (3, 0));
}

pub async fn get_job_not_found(stage: &Stage) {
    assert!(stage.store.job(stage.new_id()).await.unwrap().is_none());
}

pub async fn fields_round_trip(stage: &Stage) {
    let resources = Resources {
        cpu_millis: 1500,
        memory_mb: 2048,
        vram_mb: 16384,
        gpus: 2,
        counters: BTreeMap::from([("matlab".to_owned(), 1)]),
    };
    let spec = JobSpec {
        program: Program::Argv(vec!["printf".into(), "%s \u{1F600} 'quoted' \"\\".into()]),
        name: Some("näme".into()),
        env: BTreeMap::from([("A".to_owned(), "b=c\nd".to_owned())]),
        working_dir: Some("/tmp".into()),
        resources: Some(resources),
        tags: ["a100".to_owned(), "ssd".to_owned()].into(),
        queue: Some(QueueName::new("research")),
        priority: -7,
        max_attempts: 9,
        grace: Some(Span::from_secs(3)),
        idempotency_key: Some("once".into()),
        ..JobSpec::shell("")
    };
    let job = stage.submit(spec.clone()).await;
    assert_eq!(*stage.get(job.id).await.spec, spec);
}

pub async fn default_fields(stage: &Stage) {
    let job = stage.shell("x").await;
    let found = stage.get(job.id).await;
    assert_eq!(found.spec.as_ref(), &JobSpec::shell("x"));
    assert_eq!((found.preemption_epoch, found.reservation_epoch, found.checkpoint_bytes), (0, 0, None));
}

pub async fn done_sets_done_at(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(2));
    let done = stage.report(&job, ReportKind::Done).await.unwrap();
    assert_eq!((done.worker(), done.ran_on.as_ref()), (None, Some(&WorkerId::new("w1"))));
    assert_eq!(done.status(), Status::Done);
    assert_eq!(done.done_at(), Some(stage.now()));
    assert_eq!(done.attempts, 1);
    assert_eq!(stage.get(job.id).await, done);
}

pub async fn failure_requeues_then_fails(stage: &Stage) {
    let id = stage.shell("false").await.id;
    for attempt in 1..=3 {
        let job = stage.claim().await.unwrap();
        assert_eq!(job.attempts, attempt);
        let after = stage.report(&job, ReportKind::Failed).await.unwrap();
        assert_eq!(after.status(), if attempt < 3 { Status::Pending } else { Status::Failed });
    }
    let failed = stage.get(id).await;
    assert_eq!((failed.attempts, failed.done_at()), (3, Some(stage.now())));
    assert_eq!(failed.reason().as_deref(), Some("exit code 1"));
    assert!(stage.claim().await.is_none());
}

pub async fn requeue_clears_done_at(stage: &Stage) {
    stage.shell("false").await;
    let job = stage.claim_by("w1").await.unwrap();
    let after = stage.report(&job, ReportKind::Failed).await.unwrap();
    assert_eq!((after.status(), after.done_at(), after.worker()), (Status::Pending, None, None));
    assert_eq!(after.started_at, job.started_at, "the time of the last claim is kept");
    assert!(after.lease > job.lease);
}

pub async fn events_tell_the_whole_story(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let job = stage.claim_by("w1").await.unwrap();
    stage.report(&job, ReportKind::Failed).await.unwrap();
    let job = stage.claim_by("w2").await.unwrap();
    stage.report(&job, ReportKind::Done).await.unwrap();
    assert_eq!(stage.event_names(id).await, ["submitted", "claimed", "requeued", "claimed", "done"]);
}

pub async fn checkpoint_is_guarded_by_its_epoch_and_kept_byte_by_byte(stage: &Stage) {
    let bytes: Vec<u8> = (0..=255).collect();
    let id = stage.shell("train").await.id;
    stage.claim().await.unwrap();
    let save = async |epoch: i64| {
        let (caller, bytes) = (Caller::default(), bytes.clone());
        stage
            .one(Command::SaveCheckpoint {
                job: id,
                caller,
                epoch: Some(epoch),
                content: crate::command::Content::Bytes(bytes),
            })
            .await
    };
    assert!(matches!(save(1).await, Err(Rejection::NotStopping { .. })));
    stage.cancel(id).await.unwrap();
    assert!(matches!(save(9).await, Err(Rejection::EpochMismatch { given: 9, current: 1 })));
    assert!(stage.store.job(id).await.unwrap().unwrap().checkpoint.is_none());
    assert!(matches!(save(1).await, Ok(Outcome::CheckpointSaved { .. })));
    let view = stage.store.job(id).await.unwrap().unwrap();
    assert_eq!(view.checkpoint, Some(Arc::from(bytes)));
    assert_eq!(view.job.checkpoint_bytes, Some(256));
}
