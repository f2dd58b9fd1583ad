//! Black holes and poison: workers and jobs that are set aside on evidence.

use muster_domain::health::{FIRST_PROBE, STREAK};
use muster_domain::{Hold, JobSpec, ReportKind, Resources, Span, Status, Worker, WorkerId};

use super::stage::Stage;
use crate::command::{Command, Outcome};
use crate::store::StoreExt;

async fn worker(stage: &Stage, id: &str) -> Worker {
    let workers = stage.store.workers().await.unwrap();
    workers.into_iter().map(|usage| usage.worker).find(|worker| worker.id.as_str() == id).unwrap()
}

/// Runs one job on the worker; false when it got none.
async fn run(stage: &Stage, worker: &str, kind: ReportKind) -> bool {
    stage.submit(JobSpec { max_attempts: 1, ..JobSpec::shell("x") }).await;
    let Some(job) = stage.claim_by(worker).await else { return false };
    // The report shares its batch with the worker's next ask, as our worker does it.
    stage.report(&job, kind).await.unwrap();
    true
}

async fn succeed(stage: &Stage, id: &str) {
    stage.shell("x").await;
    let job = stage.claim_by(id).await.unwrap();
    let report = crate::command::Report {
        job: job.id,
        caller: muster_domain::Caller { lease: Some(job.lease), worker: None },
        kind: ReportKind::Done,
        exit: muster_domain::Exit::default(),
        message: None,
        outputs: None,
        spent: None,
    };
    let beat = Command::WorkerHeartbeat { worker: WorkerId::new(id), ports: None };
    stage.apply(vec![Command::Report(report), beat]).await;
}

pub(super) async fn black_hole(stage: &Stage) {
    for id in ["good", "bad"] {
        stage.register(id, Resources::default(), None).await;
    }
    succeed(stage, "good").await;
    for _ in 0..STREAK {
        assert!(run(stage, "bad", ReportKind::Failed).await);
    }
}

pub async fn a_black_hole_is_set_aside_with_the_evidence(stage: &Stage) {
    black_hole(stage).await;
    let quarantine = worker(stage, "bad").await.health.quarantine.unwrap();
    assert_eq!(quarantine.evidence.len(), STREAK);
    assert!(quarantine.lines()[0].contains("exit code 1"), "{:?}", quarantine.lines());
    assert!(!run(stage, "bad", ReportKind::Done).await, "it gets no work");
    let waiting = stage.all().await.into_iter().find(|job| job.status() == Status::Pending).unwrap();
    let reasons = stage.reasons(waiting.id).await;
    assert!(reasons.iter().any(|reason| reason.code() == "quarantine"), "{reasons:?}");
    assert!(stage.claim_by("good").await.is_some());
}

pub async fn bad_jobs_everywhere_set_nobody_aside(stage: &Stage) {
    for id in ["one", "two"] {
        stage.register(id, Resources::default(), None).await;
    }
    for _ in 0..2 * STREAK {
        assert!(run(stage, "one", ReportKind::Failed).await);
        assert!(run(stage, "two", ReportKind::Failed).await);
    }
}

pub async fn a_probe_ends_a_quarantine(stage: &Stage) {
    black_hole(stage).await;
    stage.advance(FIRST_PROBE + Span::from_secs(1));
    for _ in 0..3 {
        stage.shell("x").await;
    }
    let probe = stage.claim_as(Some("bad"), 3).await;
    assert_eq!(probe.len(), 1, "one job tries it");
    assert!(stage.claim_by("bad").await.is_none());
    let report = crate::command::Report {
        job: probe[0].job.id,
        caller: muster_domain::Caller { lease: Some(probe[0].job.lease), worker: None },
        kind: ReportKind::Done,
        exit: muster_domain::Exit::default(),
        message: None,
        outputs: None,
        spent: None,
    };
    let beat = Command::WorkerHeartbeat { worker: WorkerId::new("bad"), ports: None };
    stage.apply(vec![Command::Report(report), beat]).await;
    assert!(worker(stage, "bad").await.health.quarantine.is_none());
    assert!(stage.claim_by("bad").await.is_some());
}

/// A queue of gangs alone tries a worker in quarantine too, with one task, where they cannot do without it.
pub async fn a_gang_tries_a_worker_in_quarantine_only_where_it_must(stage: &Stage) {
    black_hole(stage).await;
    let both = stage.gang(2).await;
    assert_eq!(stage.plan().await.placed, 0, "it is not time yet");
    stage.advance(FIRST_PROBE + Span::from_secs(1));
    for id in ["good", "bad"] {
        stage.one(Command::WorkerHeartbeat { worker: WorkerId::new(id), ports: None }).await.unwrap();
    }
    stage.gang(1).await;
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.statuses(both).await, [Status::Blocked; 2], "the other one starts without it");
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.statuses(both).await, [Status::Reserved; 2]);
    stage.gang(2).await;
    assert_eq!(stage.plan().await.placed, 0, "one task is enough to try it");
}

pub async fn a_quarantine_is_ended_by_hand(stage: &Stage) {
    black_hole(stage).await;
    let release = Command::ReleaseWorker { worker: WorkerId::new("bad") };
    let Outcome::Worker(released) = stage.one(release).await.unwrap() else { panic!("another answer") };
    assert!(released.health.quarantine.is_none());
    assert!(run(stage, "bad", ReportKind::Done).await);
    let unknown = Command::ReleaseWorker { worker: WorkerId::new("nobody") };
    assert!(stage.one(unknown).await.is_err());
}

pub async fn a_quarantine_survives_a_new_registration(stage: &Stage) {
    black_hole(stage).await;
    stage.register("bad", Resources::default(), None).await;
    assert!(worker(stage, "bad").await.health.quarantine.is_some());
}

pub async fn a_job_that_takes_its_workers_along_is_held(stage: &Stage) {
    let id = stage.submit(JobSpec { max_attempts: 9, ..JobSpec::shell("x") }).await.id;
    for worker in ["a", "b", "c"] {
        stage.register(worker, Resources::default(), None).await;
        let job = stage.claim_by(worker).await.unwrap();
        assert_eq!(job.id, id);
        stage.advance(Span::from_secs(31));
        stage.sweep().await;
    }
    let job = stage.get(id).await;
    assert_eq!(job.status(), Status::Held);
    let Some(Hold::Poison { workers }) = &job.hold else { panic!("{:?}", job.hold) };
    assert_eq!(workers.len(), 3);
    assert!(stage.event_names(id).await.contains(&"requeued"));
    stage.control(Command::Release { job: id }).await.unwrap();
    let job = stage.claim_by("a").await.unwrap();
    assert_eq!(job.attempts, 1, "it tries anew");
}
