//! Workers: registration, signs of life, and what they hold.

use muster_domain::{Rejection, ReportKind, Span, Worker, WorkerId, WorkerStatus};

use super::stage::{Stage, memory, needing};
use crate::command::Command;
use crate::store::StoreExt;

async fn only(stage: &Stage) -> Worker {
    let mut workers = stage.store.workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    workers.pop().unwrap().worker
}

pub async fn register_makes_active(stage: &Stage) {
    let worker = stage.register("w1", memory(8000), Some(4)).await;
    assert_eq!(worker.status, WorkerStatus::Active);
    assert_eq!((worker.registered_at, worker.last_heartbeat), (stage.now(), stage.now()));
    assert_eq!(only(stage).await, worker);
}

pub async fn register_again_keeps_the_first_time(stage: &Stage) {
    let first = stage.register("w1", memory(8000), None).await;
    stage.advance(Span::from_secs(10));
    let moved = Worker {
        exec_addr: "h:1".into(),
        tags: ["ssd".to_owned()].into(),
        hostname: Some("h".into()),
        isolation: Some("cgroup-v2".into()),
        run_as: Some("submitter".into()),
        ..first.clone()
    };
    let second = stage.register_worker(moved).await;
    assert_eq!((second.registered_at, second.last_heartbeat), (first.registered_at, stage.now()));
    assert_eq!(only(stage).await, second);
    assert_eq!(second.exec_addr, "h:1");
}

pub async fn heartbeat_of_unknown_worker(stage: &Stage) {
    let answer = stage.one(Command::WorkerHeartbeat { worker: WorkerId::new("nobody"), ports: None }).await;
    assert!(matches!(answer, Err(Rejection::WorkerNotFound { .. })));
}

pub async fn silent_workers_go_offline_and_come_back(stage: &Stage) {
    stage.register("w1", memory(1), None).await;
    stage.register("w2", memory(1), None).await;
    stage.advance(Span::from_secs(60));
    assert_eq!(stage.sweep().await.workers_offline, 0);
    stage.advance(Span::from_micros(1));
    assert_eq!(stage.sweep().await.workers_offline, 2);
    assert_eq!(stage.sweep().await.workers_offline, 0, "only once");
    let beat = stage.one(Command::WorkerHeartbeat { worker: WorkerId::new("w1"), ports: None }).await;
    assert!(beat.is_ok());
    let workers = stage.store.workers().await.unwrap();
    let statuses: Vec<_> = workers.iter().map(|usage| usage.worker.status).collect();
    assert_eq!(statuses, [WorkerStatus::Active, WorkerStatus::Offline]);
}

pub async fn usage_is_derived_from_jobs(stage: &Stage) {
    stage.register("w1", memory(1000), None).await;
    stage.submit(needing(300)).await;
    stage.submit(needing(300)).await;
    stage.submit(needing(200)).await;
    let claimed = stage.claim_as(Some("w1"), 3).await;
    let usage = async || {
        let workers = stage.store.workers().await.unwrap();
        (workers[0].used.memory_mb, workers[0].running)
    };
    assert_eq!(usage().await, (800, 3));
    stage.report(&claimed[0].job, ReportKind::Done).await.unwrap();
    assert_eq!(usage().await, (500, 2));
    stage.report(&claimed[1].job, ReportKind::Failed).await.unwrap();
    assert_eq!(usage().await, (200, 1));
}

pub async fn a_claim_is_a_sign_of_life(stage: &Stage) {
    stage.register("w1", memory(1), None).await;
    stage.advance(Span::from_secs(61));
    stage.sweep().await;
    assert_eq!(only(stage).await.status, WorkerStatus::Offline);
    stage.claim_by("w1").await;
    assert_eq!(
        (only(stage).await.status, only(stage).await.last_heartbeat),
        (WorkerStatus::Active, stage.now())
    );
}
