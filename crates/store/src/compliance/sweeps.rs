//! Sweeps: what is overdue is found, what is not is left alone, and a report that came first stands.

use muster_domain::{ReportKind, Span, Status};

use super::stage::Stage;
use crate::command::{Command, Outcome, Removal};
use crate::store::StoreExt;

pub async fn silence_requeues(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(31));
    assert_eq!(stage.sweep().await.requeued, 1);
    let after = stage.get(job.id).await;
    assert_eq!((after.status(), after.attempts, after.worker()), (Status::Pending, 1, None));
    assert!(after.lease > job.lease);
    assert_eq!(stage.sweep().await.requeued, 0);
}

pub async fn silence_with_no_attempt_left_fails(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let child = stage.after(&[id]).await;
    for attempt in 1..=3 {
        stage.claim().await.unwrap();
        stage.advance(Span::from_secs(31));
        let summary = stage.sweep().await;
        assert_eq!((summary.requeued, summary.failed), if attempt < 3 { (1, 0) } else { (0, 1) });
    }
    assert_eq!(stage.status(id).await, Status::Failed);
    assert_eq!(stage.status(child.id).await, Status::Failed, "in the same transaction");
}

pub async fn a_heartbeat_keeps_the_lease(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    for _ in 0..5 {
        stage.advance(Span::from_secs(20));
        assert_eq!(stage.heartbeat(&job).await.unwrap().last_heartbeat(), Some(stage.now()));
        assert_eq!(stage.sweep().await.requeued, 0);
    }
}

pub async fn the_bound_is_strict(stage: &Stage) {
    stage.shell("x").await;
    stage.claim().await.unwrap();
    stage.advance(Span::from_secs(30));
    assert_eq!(stage.sweep().await.requeued, 0, "exactly the timeout is not longer than it");
    stage.advance(Span::from_micros(1));
    assert_eq!(stage.sweep().await.requeued, 1);
}

pub async fn silence_counts_only_while_somebody_listens(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    stage.advance(Span::from_secs(3600));
    let restarted = stage.now();
    assert_eq!(stage.sweep_with(restarted, None).await.requeued, 0, "the scheduler was down, not the worker");
    stage.advance(Span::from_secs(31));
    assert_eq!(stage.sweep_with(restarted, None).await.requeued, 1);
    assert!(stage.report(&job, ReportKind::Done).await.is_err());
}

pub async fn a_report_before_the_sweep_is_never_overwritten(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let job = stage.claim().await.unwrap();
    stage.advance(Span::from_secs(31));
    let (reported, swept) = futures::join!(stage.report(&job, ReportKind::Done), stage.sweep());
    match reported {
        Ok(_) => {
            assert_eq!(swept.requeued, 0);
            assert_eq!(stage.status(id).await, Status::Done);
        }
        Err(refused) => {
            assert!(refused.is_stale_report(), "{refused:?}");
            assert_eq!((swept.requeued, stage.status(id).await), (1, Status::Pending));
        }
    }
    let terminal = stage.run_to_done_or_claim().await;
    stage.advance(Span::from_secs(3600));
    stage.sweep().await;
    assert_eq!(stage.get(terminal.id).await, terminal);
}

pub async fn unanswered_stops_are_forced(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    stage.cancel(job.id).await.unwrap();
    stage.advance(Span::from_secs(45));
    assert_eq!(stage.sweep().await.stops_forced, 0);
    stage.advance(Span::from_micros(1));
    assert_eq!(stage.sweep().await.stops_forced, 1);
    assert_eq!(stage.status(job.id).await, Status::Cancelled);
    assert!(stage.report(&job, ReportKind::Preempted).await.unwrap_err().is_stale_report());
}

pub async fn retention_removes_old_ends_only(stage: &Stage) {
    let old = stage.run_to_done().await;
    stage.shell("running").await;
    stage.claim().await.unwrap();
    stage.advance(Span::from_secs(100));
    let young = stage.run_to_done().await;
    let summary = stage.sweep_with(stage.now(), Some(Span::from_secs(50))).await;
    assert_eq!(summary.removed, 1);
    assert!(stage.store.job(old.id).await.unwrap().is_none());
    assert!(stage.events_of(old.id).await.is_empty());
    assert_eq!(stage.status(young.id).await, Status::Done);
    assert_eq!(stage.all().await.len(), 2);
}

pub async fn finished_jobs_are_read_whole_and_removed_by_name(stage: &Stage) {
    let old = stage.run_to_done().await;
    let needed = stage.shell("needed").await;
    stage.after(&[needed.id]).await;
    let claimed = stage.claim().await.unwrap();
    stage.report(&claimed, ReportKind::Done).await.unwrap();
    let cancelled = stage.shell("cancelled").await.id;
    stage.cancel(cancelled).await.unwrap();
    let last = stage.store.last_event().await.unwrap();
    stage.advance(Span::from_secs(100));
    let before = stage.now() - Span::from_secs(50);
    let found = stage.store.finished(before, 10).await.unwrap();
    let ids: Vec<_> = found.iter().map(|found| found.view.job.id).collect();
    assert_eq!(ids.len(), 2, "a job that is needed is not among them");
    let first = found.iter().find(|found| found.view.job.id == old.id).unwrap();
    assert_eq!(first.events, stage.events_of(old.id).await);
    assert_eq!(stage.store.finished(before, 1).await.unwrap().len(), 1);
    // Between the look and the removal a job may be run again.
    stage.control(Command::Retry { job: cancelled }).await.unwrap();
    let jobs = vec![old.id, cancelled, needed.id, stage.new_id()];
    let removed = stage.one(Command::Remove(Removal { jobs, before })).await.unwrap();
    assert_eq!(removed, Outcome::Removed(1));
    assert!(stage.store.job(old.id).await.unwrap().is_none());
    assert_eq!(stage.status(cancelled).await, Status::Pending);
    assert_eq!(stage.status(needed.id).await, Status::Done);
    assert!(stage.store.last_event().await.unwrap() > last);
}

pub async fn the_last_position_outlives_its_event(stage: &Stage) {
    stage.run_to_done().await;
    let last = stage.store.last_event().await.unwrap();
    stage.advance(Span::from_secs(100));
    stage.sweep_with(stage.now(), Some(Span::from_secs(50))).await;
    assert!(stage.all().await.is_empty());
    assert_eq!(stage.store.last_event().await.unwrap(), last);
}

pub async fn the_next_deadline_is_known(stage: &Stage) {
    assert_eq!(stage.sweep().await.next_due, None);
    stage.shell("x").await;
    stage.claim().await.unwrap();
    let claimed = stage.now();
    stage.advance(Span::from_secs(1));
    assert_eq!(stage.sweep().await.next_due, Some(claimed + Span::from_secs(30)));
    let restarted = stage.now();
    let due = stage.sweep_with(restarted, None).await.next_due;
    assert_eq!(due, Some(restarted + Span::from_secs(30)));
}
