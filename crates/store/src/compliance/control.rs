//! What people do to jobs: hold, release, retry, edit, delete.

use muster_domain::{Edit, Hold, JobSpec, Rejection, ReportKind, Status};

use super::stage::{Stage, memory, needing};
use crate::command::{Command, NewJob, Outcome};
use crate::store::StoreExt;

fn hold(job: muster_domain::JobId) -> Command {
    Command::Hold { job, message: Some("wait for data".to_owned()) }
}

pub async fn hold_and_release(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let held = stage.control(hold(id)).await.unwrap();
    assert_eq!(held.status(), Status::Held);
    assert_eq!(stage.get(id).await, held);
    assert!(stage.claim().await.is_none());
    assert!(stage.control(hold(id)).await.is_ok(), "again");
    assert_eq!(stage.control(Command::Release { job: id }).await.unwrap().status(), Status::Pending);
    assert_eq!(stage.claim().await.unwrap().id, id);
    assert!(matches!(stage.control(hold(id)).await, Err(Rejection::NotWaiting { .. })));
}

pub async fn a_blocked_job_can_be_held(stage: &Stage) {
    let parent = stage.shell("x").await;
    let child = stage.after(&[parent.id]).await;
    assert_eq!(stage.control(hold(child.id)).await.unwrap().status(), Status::Blocked);
    let parent = stage.claim().await.unwrap();
    stage.report(&parent, ReportKind::Done).await.unwrap();
    assert_eq!(stage.status(child.id).await, Status::Held);
    stage.control(Command::Release { job: child.id }).await.unwrap();
    assert_eq!(stage.claim().await.unwrap().id, child.id);
}

pub async fn held_at_submit(stage: &Stage) {
    let job = NewJob { hold: Some(Hold::Asked { message: None }), ..stage.new_job(JobSpec::shell("x")) };
    let id = job.id;
    stage.try_submit(vec![job], true).await.unwrap();
    assert_eq!(stage.status(id).await, Status::Held);
    assert!(stage.claim().await.is_none());
    assert_eq!(stage.cancel(id).await.unwrap().0, [id]);
}

pub async fn retry_runs_again(stage: &Stage) {
    let id = stage.shell("x").await.id;
    assert!(matches!(stage.control(Command::Retry { job: id }).await, Err(Rejection::NotEnded { .. })));
    let failed = stage.fail_for_good(id).await;
    let again = stage.control(Command::Retry { job: id }).await.unwrap();
    assert_eq!((again.status(), again.attempts, again.lease), (Status::Pending, 0, failed.lease));
    let job = stage.claim().await.unwrap();
    assert!(job.lease > failed.lease);
    stage.report(&job, ReportKind::Done).await.unwrap();
    assert!(matches!(stage.control(Command::Retry { job: id }).await, Err(Rejection::AlreadyEnded { .. })));
}

pub async fn retry_revives_what_ended_with_it(stage: &Stage) {
    let top = stage.shell("top").await;
    let middle = stage.after(&[top.id]).await;
    let bottom = stage.after(&[middle.id]).await;
    stage.fail_for_good(top.id).await;
    let late = stage.after(&[top.id]).await;
    assert_eq!(late.status(), Status::Failed);
    let refused = stage.control(Command::Retry { job: middle.id }).await.unwrap_err();
    assert_eq!(refused, Rejection::EndedByAncestor { ancestor: top.id });
    stage.control(Command::Retry { job: top.id }).await.unwrap();
    for id in [middle.id, bottom.id, late.id] {
        assert_eq!(stage.status(id).await, Status::Blocked);
    }
    let mut ran = 0;
    while let Some(job) = stage.claim().await {
        stage.report(&job, ReportKind::Done).await.unwrap();
        ran += 1;
    }
    assert_eq!(ran, 4);
}

pub async fn retry_revives_those_that_two_ways_lead_to(stage: &Stage) {
    let top = stage.shell("top").await;
    let middle = stage.after(&[top.id]).await;
    let bottom = stage.after(&[top.id, middle.id]).await;
    stage.fail_for_good(top.id).await;
    assert_eq!(stage.status(bottom.id).await, Status::Failed);
    stage.control(Command::Retry { job: top.id }).await.unwrap();
    for expected in [top.id, middle.id, bottom.id] {
        let job = stage.claim().await.unwrap();
        assert_eq!(job.id, expected);
        assert!(stage.claim().await.is_none(), "the next one waits for it");
        stage.report(&job, ReportKind::Done).await.unwrap();
    }
}

pub async fn edit_changes_order_and_fit(stage: &Stage) {
    stage.register("w1", memory(100), None).await;
    let first = stage.submit(needing(50)).await;
    let second = stage.submit(needing(999)).await;
    let edit = Edit { priority: Some(9), resources: Some(memory(50)), ..Edit::default() };
    let edited = stage.control(Command::Edit { job: second.id, edit }).await.unwrap();
    assert_eq!(stage.get(second.id).await, edited);
    assert_eq!(stage.claim_by("w1").await.unwrap().id, second.id, "now it fits and goes first");
    assert_eq!(stage.claim_by("w1").await.unwrap().id, first.id);
    assert_eq!(stage.event_names(second.id).await, ["submitted", "edited", "claimed"]);
}

pub async fn edit_is_for_waiting_jobs(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let edit = || Command::Edit { job: id, edit: Edit { priority: Some(1), ..Edit::default() } };
    let edited = stage.control(edit()).await.unwrap();
    assert_eq!(stage.control(edit()).await.unwrap(), edited, "again");
    let job = stage.claim().await.unwrap();
    let other = || Command::Edit { job: id, edit: Edit { priority: Some(2), ..Edit::default() } };
    assert!(matches!(stage.control(other()).await, Err(Rejection::NotWaiting { .. })));
    stage.report(&job, ReportKind::Done).await.unwrap();
    assert!(matches!(stage.control(other()).await, Err(Rejection::AlreadyEnded { .. })));
}

pub async fn delete_is_for_ended_jobs(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let delete = async || stage.one(Command::Delete { job: id }).await;
    assert!(matches!(delete().await, Err(Rejection::NotEnded { .. })));
    stage.cancel(id).await.unwrap();
    assert!(matches!(delete().await, Ok(Outcome::Deleted)));
    assert!(stage.store.job(id).await.unwrap().is_none());
    assert!(matches!(delete().await, Err(Rejection::JobNotFound { .. })));
}

pub async fn one_batch_may_cancel_and_delete(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let commands = vec![Command::Cancel { job: id, message: None }, Command::Delete { job: id }];
    let answers = stage.apply(commands).await;
    assert!(
        matches!(&answers[0], Ok(Outcome::Cancelled { cancelled, .. }) if *cancelled == [id]),
        "{answers:?}"
    );
    assert_eq!(answers[1], Ok(Outcome::Deleted));
    assert!(stage.all().await.is_empty());
}
