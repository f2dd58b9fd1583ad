//! Cancels: waiting work ends at once, running work is told to stop and ends when it is gone.

use muster_domain::{Caller, Rejection, ReportKind, Status, WorkerId};

use super::stage::{Stage, named};
use crate::command::{Command, Outcome};
use crate::store::StoreExt;

async fn stopping(stage: &Stage) -> muster_domain::Job {
    stage.shell("sleep").await;
    let job = stage.claim_by("w1").await.unwrap();
    let (cancelled, stopping) = stage.cancel(job.id).await.unwrap();
    assert_eq!((cancelled, stopping), (vec![], vec![job.id]));
    job
}

pub async fn cancel_of_waiting_work_is_immediate(stage: &Stage) {
    let pending = stage.shell("x").await;
    let blocked = stage.after(&[pending.id]).await;
    assert_eq!(stage.cancel(blocked.id).await.unwrap().0, [blocked.id]);
    assert_eq!(stage.cancel(pending.id).await.unwrap().0, [pending.id]);
    assert_eq!(stage.get(pending.id).await.done_at(), Some(stage.now()));
    assert!(stage.claim().await.is_none());
}

pub async fn cancel_of_running_work_orders_a_stop(stage: &Stage) {
    let job = stopping(stage).await;
    let child = stage.after(&[job.id]).await;
    let now = stage.get(job.id).await;
    assert_eq!((now.status(), now.preemption_epoch), (Status::Preempting, 1));
    assert_eq!(now.drain_started_at(), Some(stage.now()));
    assert_eq!(stage.heartbeat(&job).await.unwrap().status(), Status::Preempting);
    let orders = stage.store.stops(vec![WorkerId::new("w1"), WorkerId::new("w2")]).await.unwrap();
    assert_eq!(orders.iter().map(|order| order.id).collect::<Vec<_>>(), [job.id]);
    assert_eq!(stage.status(child.id).await, Status::Blocked, "not before the process is gone");
    stage.report(&job, ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.status(job.id).await, Status::Cancelled);
    assert_eq!(stage.status(child.id).await, Status::Cancelled);
    assert!(stage.store.stops(vec![WorkerId::new("w1")]).await.unwrap().is_empty());
}

pub async fn the_epoch_acknowledges_a_stop_once(stage: &Stage) {
    let job = stopping(stage).await;
    let ack = async |epoch| {
        stage.one(Command::AcknowledgeStop { job: job.id, caller: Caller::default(), epoch }).await
    };
    assert!(matches!(ack(0).await, Err(Rejection::EpochMismatch { .. })));
    assert!(matches!(ack(1).await, Ok(Outcome::StopAcknowledged { repeated: false })));
    assert!(matches!(ack(1).await, Err(Rejection::NotStopping { .. })));
    assert_eq!(stage.status(job.id).await, Status::Cancelled);
}

pub async fn a_report_under_lease_ends_a_stop(stage: &Stage) {
    for kind in [ReportKind::Done, ReportKind::Failed, ReportKind::Released] {
        let job = stopping(stage).await;
        let after = stage.report(&job, kind).await.unwrap();
        assert_eq!(after.status(), Status::Cancelled, "{kind:?}");
        assert_eq!(stage.report(&job, kind).await.unwrap(), after, "repeated");
    }
    let job = stopping(stage).await;
    assert_eq!(
        stage.report_as(job.id, named("w1"), ReportKind::Done).await.unwrap().status(),
        Status::Cancelled
    );
}

pub async fn anonymous_reports_do_not_end_a_stop(stage: &Stage) {
    let job = stopping(stage).await;
    for kind in [ReportKind::Done, ReportKind::Failed] {
        let refused = stage.report_as(job.id, Caller::default(), kind).await;
        assert!(matches!(refused, Err(Rejection::NotRunning { status: Status::Preempting })));
    }
    assert_eq!(stage.status(job.id).await, Status::Preempting);
}

pub async fn cancel_repeats_and_refusals(stage: &Stage) {
    let job = stopping(stage).await;
    assert_eq!(stage.cancel(job.id).await.unwrap().1, [job.id]);
    assert_eq!(stage.get(job.id).await.preemption_epoch, 1, "one order, one epoch");
    stage.report(&job, ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.cancel(job.id).await.unwrap().0, [job.id]);
    let done = stage.run_to_done().await;
    assert!(matches!(stage.cancel(done.id).await, Err(Rejection::AlreadyEnded { status: Status::Done })));
    assert!(matches!(stage.cancel(stage.new_id()).await, Err(Rejection::JobNotFound { .. })));
}
