//! Uploads: declared, completed, named by jobs, and gone when nothing names them.

use muster_domain::{Inputs, Job, JobSpec, Rejection, Span, Timestamp, UploadRef};

use super::stage::Stage;
use crate::command::{Command, NewJob, Outcome};
use crate::store::StoreExt;
use crate::uploads::{UploadCommand, UploadOutcome};

const HOUR: Span = Span::from_secs(3_600);

fn upload(id: &str) -> UploadRef {
    UploadRef { space: "shared".into(), id: id.into() }
}

async fn change(stage: &Stage, command: UploadCommand) -> Result<UploadOutcome, Rejection> {
    match stage.one(Command::Uploads(command)).await? {
        Outcome::Uploads(outcome) => Ok(outcome),
        other => panic!("{other:?}"),
    }
}

async fn declare(stage: &Stage, id: &str) -> Result<bool, Rejection> {
    match change(stage, UploadCommand::Declare { upload: upload(id), files: 2, bytes: 10 }).await? {
        UploadOutcome::Declared { complete } => Ok(complete),
        other => panic!("{other:?}"),
    }
}

async fn complete(stage: &Stage, id: &str) {
    declare(stage, id).await.unwrap();
    change(stage, UploadCommand::Complete(upload(id))).await.unwrap();
}

fn job_with(stage: &Stage, id: &str) -> NewJob {
    let inputs = Inputs { upload: Some(upload(id)), ..Inputs::default() }.boxed();
    stage.new_job(JobSpec { inputs, ..JobSpec::shell("make") })
}

async fn submit(stage: &Stage, id: &str) -> Result<Job, Rejection> {
    let taken = stage.try_submit(vec![job_with(stage, id)], true).await?;
    Ok(taken.into_iter().next().unwrap()?.job)
}

async fn forget(stage: &Stage, id: &str, unused_since: Timestamp) -> Vec<UploadRef> {
    let command = UploadCommand::Forget { uploads: vec![upload(id)], unused_since };
    match change(stage, command).await.unwrap() {
        UploadOutcome::Forgotten(gone) => gone,
        other => panic!("{other:?}"),
    }
}

pub async fn an_upload_is_declared_then_complete_and_jobs_name_it(stage: &Stage) {
    assert!(!declare(stage, "a").await.unwrap());
    assert!(!declare(stage, "a").await.unwrap(), "it was not said to be complete");
    let known = &stage.store.uploads(None).await.unwrap()[0];
    assert_eq!((known.complete, known.files, known.bytes, known.used_at), (false, 2, 10, stage.now()));
    stage.advance(HOUR);
    change(stage, UploadCommand::Complete(upload("a"))).await.unwrap();
    assert!(declare(stage, "a").await.unwrap(), "it stays complete when it is sent again");
    let job = submit(stage, "a").await.unwrap();
    let read = stage.store.job(job.id).await.unwrap().unwrap().job;
    assert_eq!(read.spec.inputs.as_ref().unwrap().upload, Some(upload("a")));
    let named = stage.store.uploads(Some(vec![upload("a"), upload("b")])).await.unwrap();
    assert_eq!(named.len(), 1);
    assert!(named[0].complete && named[0].used_at == stage.now());
}

pub async fn a_job_names_only_what_is_there(stage: &Stage) {
    assert_eq!(submit(stage, "a").await.unwrap_err(), Rejection::UploadNotFound { id: "a".into() });
    declare(stage, "a").await.unwrap();
    assert_eq!(submit(stage, "a").await.unwrap_err(), Rejection::UploadIncomplete { id: "a".into() });
    let missing = change(stage, UploadCommand::Complete(upload("b"))).await;
    assert_eq!(missing, Err(Rejection::UploadNotFound { id: "b".into() }));
    // The same digest in the space of others is another upload.
    complete(stage, "a").await;
    let other = UploadRef { space: "other".into(), id: "a".into() };
    let inputs = Inputs { stdin: Some(other), ..Inputs::default() }.boxed();
    let job = stage.new_job(JobSpec { inputs, ..JobSpec::shell("cat") });
    let refused = stage.try_submit(vec![job], true).await;
    assert_eq!(refused.unwrap_err(), Rejection::UploadNotFound { id: "a".into() });
    assert!(stage.store.upload_uses().await.unwrap().is_empty(), "what is refused leaves nothing");
}

pub async fn uses_outlive_the_submission_and_keep_an_upload(stage: &Stage) {
    complete(stage, "a").await;
    let job = submit(stage, "a").await.unwrap();
    let uses = stage.store.upload_uses().await.unwrap();
    assert_eq!(uses.len(), 1);
    assert_eq!((uses[0].job, uses[0].set, &uses[0].upload), (Some(job.id), None, &upload("a")));
    stage.advance(HOUR);
    assert!(forget(stage, "a", stage.now()).await.is_empty(), "a job names it");
    change(stage, UploadCommand::DropUses(uses)).await.unwrap();
    assert!(stage.store.upload_uses().await.unwrap().is_empty());
    assert_eq!(forget(stage, "a", stage.now()).await, [upload("a")]);
    assert!(stage.store.uploads(None).await.unwrap().is_empty());
    assert!(forget(stage, "a", stage.now()).await.is_empty());
}

pub async fn while_old_uploads_are_removed_none_is_declared(stage: &Stage) {
    let sweep = |sweeper: &str, until| {
        change(stage, UploadCommand::BeginSweep { sweeper: sweeper.to_owned(), until })
    };
    complete(stage, "a").await;
    let until = stage.now() + HOUR;
    assert_eq!(sweep("one", until).await, Ok(UploadOutcome::Sweeping(true)));
    assert_eq!(sweep("two", until).await, Ok(UploadOutcome::Sweeping(false)));
    assert_eq!(declare(stage, "b").await, Err(Rejection::UploadsSwept));
    submit(stage, "a").await.unwrap();
    change(stage, UploadCommand::EndSweep { sweeper: "two".into() }).await.unwrap();
    assert_eq!(declare(stage, "b").await, Err(Rejection::UploadsSwept), "it is not theirs to end");
    change(stage, UploadCommand::EndSweep { sweeper: "one".into() }).await.unwrap();
    declare(stage, "b").await.unwrap();
    // One that died on the way holds nobody up for ever.
    sweep("one", stage.now() + HOUR).await.unwrap();
    stage.advance(HOUR);
    declare(stage, "c").await.unwrap();
    assert_eq!(sweep("two", stage.now() + HOUR).await, Ok(UploadOutcome::Sweeping(true)));
}

pub async fn an_upload_in_use_is_not_forgotten(stage: &Stage) {
    complete(stage, "a").await;
    stage.advance(HOUR);
    let before = stage.now();
    // Somebody who was told that it is there names it a moment later.
    declare(stage, "a").await.unwrap();
    assert!(forget(stage, "a", before).await.is_empty());
    submit(stage, "a").await.unwrap();
}
