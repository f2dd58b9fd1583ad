//! Unique keys: at most one unfinished job has one.

use muster_domain::{By, Job, JobSpec, Rejection, ReportKind, Status, Unique};

use super::stage::Stage;
use crate::command::{Command, NewJob, Outcome, Submit, Submitted};

fn keyed(stage: &Stage, replace: bool) -> NewJob {
    let unique = Some(Unique { key: "nightly".to_owned(), replace });
    stage.new_job(JobSpec { unique, ..JobSpec::shell("x") })
}

async fn submit(stage: &Stage, job: NewJob) -> Submitted {
    stage.try_submit(vec![job], true).await.unwrap().pop().unwrap().unwrap()
}

pub async fn the_unfinished_job_is_returned(stage: &Stage) {
    let first = submit(stage, keyed(stage, false)).await;
    let second = submit(stage, keyed(stage, false)).await;
    assert!(!first.repeated && second.repeated);
    assert_eq!(second.job.id, first.job.id);
    let running = stage.claim().await.unwrap();
    assert_eq!(submit(stage, keyed(stage, true)).await.job.id, running.id, "a running job is not replaced");
    stage.report(&running, ReportKind::Done).await.unwrap();
    let third = submit(stage, keyed(stage, false)).await;
    assert!(!third.repeated);
    assert_ne!(third.job.id, first.job.id);
}

pub async fn a_waiting_job_gives_way(stage: &Stage) {
    let first = submit(stage, keyed(stage, false)).await.job;
    let follower = stage.after(&[first.id]).await;
    let second = submit(stage, keyed(stage, true)).await;
    assert!(!second.repeated);
    let replaced: Job = stage.get(first.id).await;
    assert_eq!(replaced.status(), Status::Cancelled);
    assert!(replaced.reason().unwrap().contains(&second.job.id.to_string()));
    assert_eq!(stage.status(follower.id).await, Status::Cancelled);
    assert_eq!(stage.claim().await.unwrap().id, second.job.id);
    assert!(stage.claim().await.is_none());
}

pub async fn a_job_of_another_user_does_not_give_way(stage: &Stage) {
    let of = |user: &str| {
        let job = keyed(stage, true);
        let spec = JobSpec { user: Some(user.to_owned()), ..(*job.spec).clone() };
        NewJob { spec: spec.into(), ..job }
    };
    let submit_as = async |name: &str, user: &str| {
        let by = By::User { name: name.into(), token: None };
        let submit = Submit { jobs: vec![of(user)], atomic: true, set: None };
        match stage.one(Command::Submit(submit).caused_by(by)).await.unwrap() {
            Outcome::Submitted(mut taken) => taken.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    submit_as("ann", "ann").await.unwrap();
    let first = stage.all().await.pop().unwrap();
    let refused = submit_as("bob", "bob").await.unwrap_err();
    assert_eq!(refused, Rejection::KeyOfAnother { key: "nightly".to_owned() });
    assert_eq!(stage.status(first.id).await, Status::Pending);
    submit_as("olga", "ann").await.unwrap();
    assert_eq!(stage.status(first.id).await, Status::Cancelled, "an operator submits as its user");
    // Nobody has proven a name here, so that names decide nothing.
    assert!(!submit(stage, of("carl")).await.repeated);
}

pub async fn one_batch_makes_one_job(stage: &Stage) {
    let submit = |job| Command::Submit(Submit { jobs: vec![job], atomic: true, set: None });
    let answers = stage.apply(vec![submit(keyed(stage, false)), submit(keyed(stage, false))]).await;
    let ids: Vec<_> = answers
        .into_iter()
        .map(|answer| match answer.unwrap() {
            Outcome::Submitted(mut jobs) => jobs.pop().unwrap().unwrap().job.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(stage.all().await.len(), 1);
}

pub async fn parallel_submits_make_one_job(stage: &Stage) {
    let submits = (0..8).map(|_| submit(stage, keyed(stage, false)));
    let ids: std::collections::BTreeSet<_> =
        futures::future::join_all(submits).await.into_iter().map(|submitted| submitted.job.id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(stage.all().await.len(), 1);
}

pub async fn a_follower_of_the_same_batch_goes_with_the_replaced(stage: &Stage) {
    let first = submit(stage, keyed(stage, false)).await.job;
    let follower =
        NewJob { depends_on: vec![first.id.to_string()], ..stage.new_job(JobSpec::shell("after")) };
    let id = follower.id;
    let submit = |job| Command::Submit(Submit { jobs: vec![job], atomic: true, set: None });
    stage.apply(vec![submit(follower), submit(keyed(stage, true))]).await;
    assert_eq!(stage.status(first.id).await, Status::Cancelled);
    assert_eq!(stage.status(id).await, Status::Cancelled);
}
