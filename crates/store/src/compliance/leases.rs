//! Fencing: only the lease in force may speak, and saying the same thing twice is harmless.

use muster_domain::{Caller, Rejection, ReportKind, Span, Status};

use crate::command::Command;

use super::stage::{Stage, lease, named};

pub async fn a_stale_lease_changes_nothing(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let lost = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(31));
    assert_eq!(stage.sweep().await.requeued, 1);
    let held = stage.claim_by("w2").await.unwrap();
    assert!(held.lease > lost.lease);
    for kind in [ReportKind::Done, ReportKind::Failed, ReportKind::Released, ReportKind::Preempted] {
        let refused = stage.report(&lost, kind).await.unwrap_err();
        assert!(refused.is_stale_report(), "{refused:?}");
    }
    assert!(stage.heartbeat(&lost).await.unwrap_err().is_stale_report());
    assert_eq!(stage.get(id).await, held, "nothing changed");
}

pub async fn the_same_report_twice_is_harmless(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let first = stage.claim().await.unwrap();
    let requeued = stage.report(&first, ReportKind::Failed).await.unwrap();
    assert_eq!(stage.report(&first, ReportKind::Failed).await.unwrap(), requeued);
    let second = stage.claim().await.unwrap();
    assert_eq!(stage.report(&first, ReportKind::Failed).await.unwrap().attempts, 2, "no second effect");
    let done = stage.report(&second, ReportKind::Done).await.unwrap();
    stage.advance(Span::from_secs(5));
    assert_eq!(stage.report(&second, ReportKind::Done).await.unwrap(), done);
    assert_eq!(stage.event_names(id).await.iter().filter(|name| **name == "done").count(), 1);
}

pub async fn a_contradicting_report_is_refused(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    let done = stage.report(&job, ReportKind::Done).await.unwrap();
    let refused = stage.report(&job, ReportKind::Failed).await.unwrap_err();
    assert!(matches!(refused, Rejection::ContradictsReport { .. }), "{refused:?}");
    assert_eq!(stage.get(job.id).await, done);
}

pub async fn the_holder_may_report_without_a_lease(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim_by("w1").await.unwrap();
    let refused = stage.report_as(job.id, named("w2"), ReportKind::Done).await.unwrap_err();
    assert!(matches!(refused, Rejection::NotHolder { .. }));
    let done = stage.report_as(job.id, named("w1"), ReportKind::Done).await.unwrap();
    assert_eq!(done.status(), Status::Done);
}

pub async fn anonymous_reports_follow_the_status(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let report = async |kind| stage.report_as(id, Caller::default(), kind).await;
    assert!(matches!(report(ReportKind::Done).await, Err(Rejection::NotRunning { status: Status::Pending })));
    stage.claim_by("w1").await.unwrap();
    assert_eq!(report(ReportKind::Done).await.unwrap().status(), Status::Done);
    assert!(matches!(report(ReportKind::Done).await, Err(Rejection::NotRunning { status: Status::Done })));
    assert!(matches!(report(ReportKind::Failed).await, Err(Rejection::NotRunning { .. })));
}

pub async fn an_anonymous_report_does_not_end_what_another_took_over(stage: &Stage) {
    let id = stage.shell("x").await.id;
    stage.claim_by("old").await.unwrap();
    stage.advance(Span::from_secs(31));
    assert_eq!(stage.sweep().await.requeued, 1);
    let held = stage.claim_by("new").await.unwrap();
    for kind in [ReportKind::Done, ReportKind::Failed, ReportKind::Released] {
        let refused = stage.report_as(id, Caller::default(), kind).await.unwrap_err();
        assert!(matches!(refused, Rejection::AnonymousAfterLoss { current } if current == held.lease));
        assert!(refused.is_stale_report());
    }
    let beat = Command::Heartbeat { job: id, caller: Caller::default() };
    assert!(matches!(stage.one(beat).await, Err(Rejection::AnonymousAfterLoss { .. })));
    assert_eq!(stage.get(id).await, held, "nothing changed");
    assert_eq!(stage.report(&held, ReportKind::Done).await.unwrap().status(), Status::Done);
}

pub async fn a_worker_that_takes_its_own_job_again_may_report_anonymously(stage: &Stage) {
    let id = stage.shell("x").await.id;
    for _ in 0..2 {
        stage.claim_by("old").await.unwrap();
        stage.advance(Span::from_secs(31));
        assert_eq!(stage.sweep().await.requeued, 1);
    }
    stage.claim_by("old").await.unwrap();
    let done = stage.report_as(id, Caller::default(), ReportKind::Done).await.unwrap();
    assert_eq!(done.status(), Status::Done);
}

pub async fn who_lost_a_job_is_remembered_over_further_losses(stage: &Stage) {
    let id = stage.shell("x").await.id;
    for worker in ["one", "two"] {
        stage.claim_by(worker).await.unwrap();
        stage.advance(Span::from_secs(31));
        assert_eq!(stage.sweep().await.requeued, 1);
    }
    stage.claim_by("two").await.unwrap();
    let refused = stage.report_as(id, Caller::default(), ReportKind::Done).await.unwrap_err();
    assert!(matches!(refused, Rejection::AnonymousAfterLoss { .. }), "{refused:?}");
    assert_eq!(stage.report_as(id, named("two"), ReportKind::Done).await.unwrap().status(), Status::Done);
}

pub async fn release_refunds_the_attempt(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    let back = stage.report(&job, ReportKind::Released).await.unwrap();
    assert_eq!((back.status(), back.attempts), (Status::Pending, 0));
    assert_eq!(stage.report(&job, ReportKind::Released).await.unwrap().attempts, 0);
    assert_eq!(stage.claim().await.unwrap().attempts, 1);
}

pub async fn leases_only_grow(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let mut last = 0;
    for kind in [ReportKind::Released, ReportKind::Failed, ReportKind::Released, ReportKind::Failed] {
        let job = stage.claim().await.unwrap();
        assert!(job.lease.0 > last);
        last = job.lease.0;
        assert!(stage.report_as(id, lease(last + 1), kind).await.is_err(), "a lease from the future");
        stage.report(&job, kind).await.unwrap();
    }
}
