//! Leases that say how long they last: of workers that stop a job by themselves before its lease ends.
//!
//! Whatever becomes of a job whose worker is silent waits for the end of its lease, and a job that is not to run again
//! after a loss never does.

use muster_domain::limits::LeaseTerms;
use muster_domain::retry::RetryPolicy;
use muster_domain::{Caller, Exit, Job, JobSpec, OnDisconnect, ReportKind, Span, Status, WorkerId};

use super::stage::Stage;
use crate::command::{Ask, Command, Outcome, Report};

const TERMS: LeaseTerms = LeaseTerms { shortest: Span::from_secs(30), keep: Span::from_secs(180) };

async fn claim(stage: &Stage) -> Job {
    let worker = Some(WorkerId::new("w1"));
    let ask = Ask { worker, max: 1, terms: Some(TERMS), ..Ask::default() };
    match stage.one(Command::Claim(ask)).await.unwrap() {
        Outcome::Claimed(mut jobs) => jobs.pop().unwrap().job,
        other => panic!("{other:?}"),
    }
}

fn wishing(on_disconnect: OnDisconnect) -> JobSpec {
    JobSpec { on_disconnect: Some(on_disconnect), ..JobSpec::shell("x") }
}

fn never_again() -> JobSpec {
    let mut retry = RetryPolicy::default();
    retry.on.lost = false;
    JobSpec { retry, ..JobSpec::shell("x") }
}

pub async fn a_lease_lasts_as_long_as_it_says(stage: &Stage) {
    let keep = |seconds| wishing(OnDisconnect::Keep(Span::from_secs(seconds)));
    let cases =
        [(JobSpec::shell("x"), 180), (wishing(OnDisconnect::Stop), 30), (keep(600), 600), (keep(5), 30)];
    for (spec, seconds) in cases {
        stage.submit(spec).await;
        let job = claim(stage).await;
        assert_eq!(job.lease_span, Some(Span::from_secs(seconds)));
        stage.advance(Span::from_secs(seconds));
        stage.heartbeat(&job).await.unwrap();
        let heard = stage.now();
        assert_eq!(stage.sweep().await.next_due, Some(heard + Span::from_secs(seconds)));
        stage.advance(Span::from_secs(seconds));
        assert_eq!(stage.sweep().await.requeued, 0, "exactly the lease is not longer than it");
        stage.advance(Span::from_micros(1));
        assert_eq!(stage.sweep().await.requeued, 1);
        assert!(stage.report(&job, ReportKind::Done).await.unwrap_err().is_stale_report());
        stage.cancel(job.id).await.unwrap();
    }
}

pub async fn a_lease_ends_while_somebody_listens(stage: &Stage) {
    for spec in [JobSpec::shell("x"), wishing(OnDisconnect::Stop)] {
        stage.submit(spec).await;
        claim(stage).await;
    }
    stage.advance(Span::from_secs(3600));
    let restarted = stage.now();
    let swept = stage.sweep_with(restarted, None).await;
    assert_eq!((swept.requeued, swept.next_due), (0, Some(restarted + Span::from_secs(30))));
    stage.advance(Span::from_secs(31));
    let swept = stage.sweep_with(restarted, None).await;
    assert_eq!((swept.requeued, swept.next_due), (1, Some(restarted + Span::from_secs(180))));
    stage.advance(Span::from_secs(149));
    assert_eq!(stage.sweep_with(restarted, None).await.requeued, 0);
    stage.advance(Span::from_secs(1));
    assert_eq!(stage.sweep_with(restarted, None).await.requeued, 1);
}

pub async fn a_stop_is_forced_when_the_lease_has_ended(stage: &Stage) {
    stage.shell("x").await;
    let job = claim(stage).await;
    stage.cancel(job.id).await.unwrap();
    for _ in 0..3 {
        stage.advance(Span::from_secs(100));
        assert_eq!(stage.sweep().await.stops_forced, 0, "the worker says that the process is still there");
        stage.heartbeat(&job).await.unwrap();
    }
    stage.advance(Span::from_secs(180));
    assert_eq!(stage.sweep().await.stops_forced, 0);
    stage.advance(Span::from_micros(1));
    assert_eq!(stage.sweep().await.stops_forced, 1);
    assert_eq!(stage.status(job.id).await, Status::Cancelled);
}

pub async fn a_job_that_is_not_to_run_again_after_a_loss_never_does(stage: &Stage) {
    // Its lease ends.
    let silent = stage.submit(never_again()).await;
    claim(stage).await;
    stage.advance(Span::from_secs(181));
    assert_eq!(stage.sweep().await.failed, 1);
    // Its lease ends while it is being preempted.
    let preempted = stage.submit(never_again()).await;
    claim(stage).await;
    stage.one(Command::Preempt { job: preempted.id, message: None }).await.unwrap();
    stage.advance(Span::from_secs(181));
    assert_eq!(stage.sweep().await.stops_forced, 1);
    // Its worker hands it back after it had started, because it was cut off or is shutting down.
    let started = stage.submit(never_again()).await;
    let job = claim(stage).await;
    stage.report(&job, ReportKind::Released).await.unwrap();
    for id in [silent.id, preempted.id, started.id] {
        let job = stage.get(id).await;
        assert_eq!((job.status(), job.attempts), (Status::Failed, 1), "{:?}", job.reason());
    }
    // One that never started may start.
    let waiting = stage.submit(never_again()).await;
    let job = claim(stage).await;
    let caller = Caller { lease: Some(job.lease), worker: None };
    let (kind, exit) = (ReportKind::Released, Exit::default());
    let report = Report { job: job.id, caller, kind, exit, message: None, outputs: None, spent: None };
    stage.one(Command::Report(report)).await.unwrap();
    assert_eq!(stage.status(waiting.id).await, Status::Pending);
    // One that was stopped by order, and whose worker says so, comes back.
    let job = claim(stage).await;
    stage.one(Command::Preempt { job: job.id, message: None }).await.unwrap();
    stage.report(&job, ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.status(waiting.id).await, Status::Pending);
}
