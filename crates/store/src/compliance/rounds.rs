//! The start of a round: everyone is prepared before anyone starts, and a round that does not come that far costs nothing.

use muster_domain::{Caller, EventKind, GangId, Job, Phase, Rejection, ReportKind, Span, Status, WorkerId};

use super::Stage;
use super::band::membership;
use crate::command::{Ask, Command, Outcome};
use crate::store::StoreExt;

const RESERVATION: Span = Span::from_secs(30);
const HEARTBEAT: Span = Span::from_secs(30);

impl Stage {
    /// Claims what is reserved for the worker, which prepares it.
    async fn take(&self, worker: &str, again: bool) -> Vec<Job> {
        let key = Some(format!("{worker}-{}", self.now().as_micros()).into());
        let ask =
            Ask { worker: Some(WorkerId::new(worker)), max: 4, key, again, prepares: true, ..Ask::default() };
        match self.one(Command::Claim(ask)).await.unwrap() {
            Outcome::Claimed(jobs) => jobs.into_iter().map(|claimed| claimed.job).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn prepared(&self, task: &Job) -> Result<Status, Rejection> {
        let caller = Caller { lease: Some(task.lease), worker: None };
        match self.one(Command::Prepared { job: task.id, caller }).await? {
            Outcome::Heartbeat(reply) => Ok(reply.job.status()),
            other => panic!("{other:?}"),
        }
    }

    /// A gang of two, placed and claimed by its workers.
    async fn claimed_pair(&self) -> (GangId, Vec<Job>) {
        self.crew(2).await;
        let gang = self.gang(2).await;
        self.plan().await;
        let mut tasks = Vec::new();
        for task in self.tasks(gang).await {
            tasks.extend(self.take(task.worker().unwrap().as_str(), false).await);
        }
        (gang, tasks)
    }
}

pub async fn nobody_starts_before_all_are_prepared(stage: &Stage) {
    let (gang, tasks) = stage.claimed_pair().await;
    assert_eq!(stage.statuses(gang).await, [Status::Reserved; 2]);
    assert_eq!(stage.prepared(&tasks[0]).await, Ok(Status::Reserved));
    assert_eq!(stage.why_codes(tasks[0].id).await, ["assembling"]);
    stage.advance(Span::from_secs(7));
    // Said again, it is a sign of life.
    assert_eq!(stage.prepared(&tasks[0]).await, Ok(Status::Reserved));
    let first = stage.tasks(gang).await.remove(0);
    assert_eq!(first.preparation().unwrap().prepared_at, Some(stage.now() - Span::from_secs(7)));
    assert_eq!(first.last_heartbeat(), Some(stage.now()));
    assert_eq!(stage.prepared(&tasks[1]).await, Ok(Status::Running));
    assert_eq!(stage.statuses(gang).await, [Status::Running; 2]);
    assert_eq!(stage.prepared(&tasks[0]).await, Ok(Status::Running), "the word is repeated");
    for task in stage.tasks(gang).await {
        assert_eq!((task.started_at, task.attempts), (Some(stage.now()), 1), "time counts from the start");
        assert_eq!(task.lease, tasks[0].lease);
    }
    let wake = stage.store.states(vec![tasks[0].id]).await.unwrap();
    assert_eq!(wake[0].status(), Status::Running);
    for task in &tasks {
        stage.report(task, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.statuses(gang).await, [Status::Done; 2]);
}

pub async fn the_last_one_prepared_wakes_all_workers(stage: &Stage) {
    let (gang, tasks) = stage.claimed_pair().await;
    stage.prepared(&tasks[0]).await.unwrap();
    let caller = Caller { lease: Some(tasks[1].lease), worker: None };
    let said = vec![Command::Prepared { job: tasks[1].id, caller }];
    let applied = stage.store.apply(stage.now(), said).await.unwrap();
    let mut woken = applied.wake.stops.clone();
    woken.sort();
    let mut workers: Vec<_> =
        stage.tasks(gang).await.iter().filter_map(|task| task.worker().cloned()).collect();
    workers.sort();
    assert_eq!(woken, workers);
    let started = applied.events.iter().filter(|event| matches!(event.kind, EventKind::Started { .. }));
    assert_eq!(started.count(), 2);
}

pub async fn a_claim_of_a_round_is_answered_again(stage: &Stage) {
    let (_, tasks) = stage.claimed_pair().await;
    let worker = tasks[0].worker().unwrap().as_str().to_owned();
    let again = stage.take(&worker, true).await;
    assert_eq!((again.len(), again[0].id, again[0].lease), (1, tasks[0].id, tasks[0].lease));
    assert_eq!(again[0].status(), Status::Reserved);
}

pub async fn a_round_that_is_not_claimed_whole_is_taken_back_unstarted(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    stage.plan().await;
    let worker = stage.tasks(gang).await[0].worker().unwrap().clone();
    let task = stage.take(worker.as_str(), false).await.remove(0);
    stage.advance(Span::from_micros(RESERVATION.as_micros() / 2));
    stage.prepared(&task).await.unwrap();
    stage.advance(Span::from_micros(RESERVATION.as_micros() / 2 + 1));
    assert_eq!(stage.plan().await.lapsed, 1);
    // The worker that has prepared its task is told, and keeps the room until it has answered.
    assert_eq!(stage.statuses(gang).await, [Status::Preempting, Status::Blocked]);
    stage.report(&task, ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.attempts(gang).await, [0, 0]);
    assert!(stage.tasks(gang).await.iter().all(|task| task.served == Span::ZERO), "nothing ran");
}

pub async fn a_worker_lost_before_the_start_costs_no_attempt(stage: &Stage) {
    let (gang, tasks) = stage.claimed_pair().await;
    stage.prepared(&tasks[0]).await.unwrap();
    stage.advance(HEARTBEAT);
    stage.prepared(&tasks[0]).await.unwrap();
    stage.advance(Span::from_micros(1));
    stage.sweep().await;
    assert_eq!(stage.statuses(gang).await, [Status::Preempting, Status::Preempted]);
    assert!(stage.prepared(&tasks[1]).await.is_err(), "its lease is over");
    stage.report(&tasks[0], ReportKind::Preempted).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    assert_eq!(stage.attempts(gang).await, [0, 0]);
    assert!(stage.prepared(&tasks[0]).await.is_err());
}

pub async fn a_task_that_cannot_be_prepared_costs_no_attempt(stage: &Stage) {
    for kind in [ReportKind::Failed, ReportKind::Released] {
        let (gang, tasks) = stage.claimed_pair().await;
        stage.prepared(&tasks[0]).await.unwrap();
        assert!(stage.report(&tasks[0], ReportKind::Done).await.is_err(), "it never ran");
        stage.report(&tasks[1], kind).await.unwrap();
        stage.report(&tasks[0], ReportKind::Preempted).await.unwrap();
        assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2], "{kind:?}");
        assert_eq!(stage.attempts(gang).await, [0, 0], "{kind:?}");
        stage.cancel(tasks[0].id).await.unwrap();
    }
}

pub async fn a_stop_between_preparation_and_start_leaves_nothing(stage: &Stage) {
    let (gang, tasks) = stage.claimed_pair().await;
    stage.prepared(&tasks[0]).await.unwrap();
    stage.cancel(tasks[0].id).await.unwrap();
    assert_eq!(stage.statuses(gang).await, [Status::Preempting; 2]);
    assert_eq!(stage.prepared(&tasks[1]).await, Ok(Status::Preempting), "too late to start");
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Cancelled; 2]);
    assert!(stage.tasks(gang).await.iter().all(|task| matches!(task.phase, Phase::Cancelled { .. })));
}

pub async fn workers_that_do_not_prepare_start_at_their_claim(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.submit_gang(muster_domain::JobSpec::shell("x"), membership(2)).await;
    stage.plan().await;
    let tasks = stage.tasks(gang).await;
    let old = stage.claim_by(tasks[0].worker().unwrap().as_str()).await.unwrap();
    assert_eq!(old.status(), Status::Running);
    let new = stage.take(tasks[1].worker().unwrap().as_str(), false).await.remove(0);
    assert_eq!(stage.prepared(&new).await, Ok(Status::Running), "nobody else is waited for");
}
