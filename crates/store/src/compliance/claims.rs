//! Claims: one winner per job, in the right order, never beyond what a worker has.

use std::collections::HashSet;

use muster_domain::{Exit, Job, JobSpec, Rejection, ReportKind, Status, Worker, WorkerId};

use super::stage::{Stage, memory, needing};
use crate::command::{Ask, Command, Outcome, Report, Submit};
use crate::store::StoreExt;

pub async fn claim_returns_the_job(stage: &Stage) {
    let id = stage.shell("x").await.id;
    let job = stage.claim_by("w1").await.unwrap();
    assert_eq!((job.id, job.status(), job.attempts), (id, Status::Running, 1));
    assert_eq!((job.started_at, job.last_heartbeat()), (Some(stage.now()), None));
    assert_eq!(job.worker(), Some(&WorkerId::new("w1")));
    assert_eq!(stage.get(id).await, job);
}

pub async fn claim_on_an_empty_store(stage: &Stage) {
    assert!(stage.claim().await.is_none());
    assert!(stage.claim_by("w1").await.is_none());
}

pub async fn claim_skips_what_is_not_pending(stage: &Stage) {
    stage.shell("x").await;
    assert!(stage.claim().await.is_some());
    assert!(stage.claim().await.is_none());
}

pub async fn parallel_claims_never_share_a_job(stage: &Stage) {
    for _ in 0..20 {
        stage.shell("x").await;
    }
    let claims = (0..30).map(|n| async move { stage.claim_by(&format!("w{n}")).await });
    let claimed: Vec<Job> = futures::future::join_all(claims).await.into_iter().flatten().collect();
    let distinct: HashSet<_> = claimed.iter().map(|job| job.id).collect();
    assert_eq!(distinct.len(), claimed.len(), "a job was handed out twice");
    // A claim may pass over a row that another holds at that instant; nothing is left in the end.
    let mut late = 0;
    while stage.claim().await.is_some() {
        late += 1;
    }
    assert_eq!(claimed.len() + late, 20);
}

pub async fn priority_then_age(stage: &Stage) {
    let spec = |priority| JobSpec { priority, ..JobSpec::shell("x") };
    let mut ids = Vec::new();
    for priority in [0, 5, 5, -1] {
        ids.push(stage.submit(spec(priority)).await.id);
    }
    let mut order = Vec::new();
    while let Some(job) = stage.claim().await {
        order.push(job.id);
    }
    assert_eq!(order, [ids[1], ids[2], ids[0], ids[3]]);
}

pub async fn a_registered_worker_gets_only_what_fits(stage: &Stage) {
    stage.register("w1", memory(1000), None).await;
    let large = stage.submit(needing(999_999)).await.id;
    let (a, b) = (stage.submit(needing(600)).await.id, stage.submit(needing(600)).await.id);
    let first = stage.claim_by("w1").await.unwrap();
    assert_eq!(first.id, a);
    assert!(stage.claim_by("w1").await.is_none(), "600 of 1000 are taken");
    stage.report(&first, ReportKind::Done).await.unwrap();
    assert_eq!(stage.claim_by("w1").await.unwrap().id, b);
    assert_eq!(stage.status(large).await, Status::Pending);
}

pub async fn several_asks_of_one_worker_share_its_room(stage: &Stage) {
    stage.register("w1", memory(1000), None).await;
    for _ in 0..4 {
        stage.submit(needing(500)).await;
    }
    let ask = || Command::Claim(Ask { worker: Some(WorkerId::new("w1")), max: 4, ..Ask::default() });
    let answers = stage.apply(vec![ask(), ask()]).await;
    let handed: usize = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(Outcome::Claimed(jobs)) => jobs.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(handed, 2);
}

pub async fn slots_bound_a_worker(stage: &Stage) {
    stage.register("w1", memory(0), Some(2)).await;
    for _ in 0..5 {
        stage.shell("x").await;
    }
    assert_eq!(stage.claim_as(Some("w1"), 9).await.len(), 2);
    assert_eq!(stage.claim_as(Some("w1"), 9).await.len(), 0);
    let ask = Ask { worker: Some(WorkerId::new("w1")), max: 9, ahead: 2, ..Ask::default() };
    let Ok(Outcome::Claimed(ahead)) = stage.one(Command::Claim(ask)).await else { panic!("not claimed") };
    assert_eq!(ahead.len(), 2, "two more may be queued locally");
}

pub async fn tags_are_required(stage: &Stage) {
    let plain = stage.register("plain", memory(10), None).await;
    stage
        .register_worker(Worker { id: WorkerId::new("gpu"), tags: ["a100".to_owned()].into(), ..plain })
        .await;
    let id = stage.submit(JobSpec { tags: ["a100".to_owned()].into(), ..JobSpec::shell("x") }).await.id;
    assert!(stage.claim_by("plain").await.is_none());
    assert_eq!(stage.claim_by("gpu").await.unwrap().id, id);
}

pub async fn an_unregistered_claimer_takes_anything(stage: &Stage) {
    stage.submit(needing(999_999)).await;
    assert_eq!(stage.claim_by("stranger").await.unwrap().worker(), Some(&WorkerId::new("stranger")));
}

pub async fn stopping_work_still_takes_room(stage: &Stage) {
    stage.register("w1", memory(1000), None).await;
    stage.submit(needing(1000)).await;
    let first = stage.claim_by("w1").await.unwrap();
    let second = stage.submit(needing(1000)).await.id;
    stage.cancel(first.id).await.unwrap();
    assert!(stage.claim_by("w1").await.is_none(), "the process may still be alive");
    stage.report(&first, ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.claim_by("w1").await.unwrap().id, second);
}

pub async fn work_that_cannot_fit_hides_nothing(stage: &Stage) {
    stage.register("w1", memory(10), None).await;
    for n in 0..50 {
        stage.submit(JobSpec { priority: 10, ..needing(1000 + n) }).await;
    }
    let small = stage.submit(needing(5)).await.id;
    assert_eq!(stage.claim_by("w1").await.unwrap().id, small);
}

pub async fn a_batch_sees_what_it_released(stage: &Stage) {
    stage.register("w1", memory(100), None).await;
    stage.submit(needing(100)).await;
    let first = stage.claim_by("w1").await.unwrap();
    let next = stage.new_job(needing(100));
    let (id, caller) = (next.id, super::stage::lease(first.lease.0));
    let report = Report {
        job: first.id,
        caller,
        kind: ReportKind::Done,
        exit: Exit::default(),
        message: None,
        outputs: None,
        spent: None,
    };
    let answers = stage
        .apply(vec![
            Command::Claim(Ask { worker: Some(WorkerId::new("w1")), max: 1, ..Ask::default() }),
            Command::Submit(Submit { jobs: vec![next], atomic: true, set: None }),
            Command::Report(report),
        ])
        .await;
    let Ok(Outcome::Claimed(jobs)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(jobs.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [id]);
}

pub async fn a_claimer_that_gives_its_name_gets_a_record(stage: &Stage) {
    stage.claim_by("old").await;
    let heartbeat = || Command::WorkerHeartbeat { worker: WorkerId::new("old"), ports: None };
    assert!(
        matches!(stage.one(heartbeat()).await, Err(Rejection::WorkerNotFound { .. })),
        "it registers again"
    );
    let introduce = || Command::Introduce { worker: WorkerId::new("old") };
    stage.one(introduce()).await.unwrap();
    assert!(matches!(stage.one(heartbeat()).await, Ok(Outcome::WorkerSeen)));
    // What it has is not known: it is trusted with everything, as an anonymous claimer is.
    let id = stage.submit(needing(5000)).await.id;
    let job = stage.claim_by("old").await.unwrap();
    assert_eq!(job.id, id);
    stage.check().await;
    stage.report(&job, ReportKind::Done).await.unwrap();
    let registered = stage.register("old", memory(100), None).await;
    stage.one(introduce()).await.unwrap();
    let workers = stage.store.workers().await.unwrap();
    assert_eq!(
        (workers.len(), &workers[0].worker.resources),
        (1, &registered.resources),
        "a record stays as it is"
    );
    assert!(!workers[0].worker.assumed);
}
