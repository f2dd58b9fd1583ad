//! Standing: what a job has had and how long it has waited decide its place in the line, as the policy says.

use muster_domain::{Hold, Job, JobSpec, Reason, ReportKind, Span, Status};

use super::Stage;
use super::band::membership;
use crate::command::Command;
use crate::store::StoreExt as _;

const fn hours(hours: u32) -> Span {
    Span::from_secs(hours * 3600)
}

/// Stops a running job politely, so that it waits again.
async fn stop(stage: &Stage, job: &Job) -> Job {
    stage.control(Command::Preempt { job: job.id, message: None }).await.unwrap();
    stage.report(job, ReportKind::Preempted).await.unwrap()
}

async fn ahead(stage: &Stage, job: &Job) -> u64 {
    let (_, reasons) = stage.store.why(job.id).await.unwrap().unwrap();
    let ahead = |reason: &Reason| if let Reason::Ahead { jobs } = reason { Some(*jobs) } else { None };
    reasons.iter().find_map(ahead).unwrap_or(0)
}

pub async fn who_has_had_much_goes_behind_who_has_not(stage: &Stage) {
    let first = stage.shell("long").await;
    let running = stage.claim().await.unwrap();
    stage.advance(hours(5));
    let stopped = stop(stage, &running).await;
    assert_eq!((stopped.status(), stopped.served), (Status::Pending, hours(5)));
    let fresh = stage.shell("fresh").await;
    let urgent = stage.submit(JobSpec { priority: 1, ..JobSpec::shell("urgent") }).await;
    assert_eq!(
        [ahead(stage, &urgent).await, ahead(stage, &fresh).await, ahead(stage, &first).await],
        [0, 1, 2]
    );
    for expected in [urgent.id, fresh.id, first.id] {
        assert_eq!(stage.claim().await.unwrap().id, expected);
    }
}

pub async fn a_short_stop_costs_no_place(stage: &Stage) {
    let first = stage.shell("short").await;
    let running = stage.claim().await.unwrap();
    stage.advance(hours(3));
    let fresh = stage.shell("fresh").await;
    stop(stage, &running).await;
    assert_eq!(
        stage.claim().await.unwrap().id,
        first.id,
        "it came first and has had less than its first service"
    );
    assert_eq!(stage.claim().await.unwrap().id, fresh.id);
}

pub async fn time_is_counted_once_as_run_or_as_waited(stage: &Stage) {
    let id = stage.submit(JobSpec { max_attempts: 9, ..JobSpec::shell("x") }).await.id;
    let standing = async || {
        let job = stage.get(id).await;
        (job.served, job.waited)
    };
    stage.advance(hours(1));
    let hold = Hold::Asked { message: None };
    stage.control(Command::Hold { job: id, message: None }).await.unwrap();
    assert_eq!(stage.get(id).await.hold, Some(hold));
    stage.advance(hours(10));
    stage.control(Command::Release { job: id }).await.unwrap();
    assert_eq!(standing().await, (Span::ZERO, hours(1)), "held is not waiting");
    stage.advance(hours(2));
    let running = stage.claim().await.unwrap();
    stage.advance(hours(1));
    stage.report(&running, ReportKind::Failed).await.unwrap();
    assert_eq!(standing().await, (hours(1), hours(3)));
    let running = stage.claim().await.unwrap();
    stage.advance(hours(4));
    stage.control(Command::Preempt { job: id, message: None }).await.unwrap();
    stage.advance(hours(1));
    stage.report(&running, ReportKind::Preempted).await.unwrap();
    assert_eq!(standing().await, (hours(6), hours(3)), "it held its place while it stopped");
    let running = stage.claim().await.unwrap();
    stage.advance(hours(1));
    stage.report(&running, ReportKind::Done).await.unwrap();
    assert_eq!(standing().await, (hours(7), hours(3)));
}

pub async fn a_gang_that_has_had_much_goes_behind_another(stage: &Stage) {
    stage.crew(4).await;
    let first = stage.gang(4).await;
    stage.start_gang(first).await;
    // Four tasks take four times as much as one: an hour is their first service.
    stage.advance(hours(2));
    let tasks = stage.tasks(first).await;
    stage.control(Command::Preempt { job: tasks[0].id, message: None }).await.unwrap();
    stage.finish_drain(first).await;
    let second = stage.submit_gang(JobSpec::shell("fresh"), membership(4)).await;
    assert!(stage.tasks(first).await.iter().all(|task| task.served == hours(2)));
    stage.crew_alive(4).await;
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.statuses(second).await, [Status::Reserved; 4]);
    assert_eq!(stage.statuses(first).await, [Status::Blocked; 4]);
}

pub async fn an_edit_of_the_priority_moves_a_job(stage: &Stage) {
    let (first, second) = (stage.shell("a").await, stage.shell("b").await);
    let edit = muster_domain::Edit { priority: Some(3), ..muster_domain::Edit::default() };
    stage.control(Command::Edit { job: second.id, edit }).await.unwrap();
    assert_eq!((ahead(stage, &first).await, ahead(stage, &second).await), (1, 0));
    assert_eq!(stage.claim().await.unwrap().id, second.id);
}
