//! Who caused what: events name it, and what operators change leaves a line.

use muster_domain::{
    Actor, By, EventKind, Job, JobId, JobSpec, QueueName, Rejection, ReportKind, SealedSecret, Span, Status,
    TerminalKind, TerminalSize,
};

use super::Stage;
use super::outlook::{A_WHILE, alive, running};
use super::stage::{memory, needing};
use crate::command::{Attributed, Command, Outcome, QueueSettings, Submit};
use crate::records::AuditFilter;
use crate::secrets::SecretCommand;
use crate::store::StoreExt as _;

/// What each event of a job says of who caused it.
async fn told(stage: &Stage, job: JobId) -> Vec<String> {
    let line = |event: &muster_domain::Event| {
        let by = event.by().map_or_else(|| "nobody".to_owned(), |by| by.to_string());
        format!("{} by {by}", event.kind.name())
    };
    stage.events_of(job).await.iter().map(line).collect()
}

fn ann(token: Option<&str>) -> By {
    By::User { name: "ann".into(), token: token.map(Into::into) }
}

async fn submit_as(stage: &Stage, by: By, spec: JobSpec) -> Job {
    let jobs = vec![stage.new_job(spec)];
    let command = Command::Submit(Submit { jobs, atomic: true, set: None }).caused_by(by);
    match stage.one(command).await.unwrap() {
        Outcome::Submitted(mut taken) => taken.pop().unwrap().unwrap().job,
        other => panic!("{other:?}"),
    }
}

pub async fn users_workers_and_the_scheduler_are_named(stage: &Stage) {
    stage.register("w1", memory(100), None).await;
    let job = submit_as(stage, ann(Some("ci")), JobSpec::shell("x")).await;
    let held = Command::Hold { job: job.id, message: None }.caused_by(By::Local);
    stage.one(held).await.unwrap();
    stage.one(Command::Release { job: job.id }.caused_by(ann(None))).await.unwrap();
    let lost = stage.claim_by("w1").await.unwrap();
    stage.advance(Span::from_secs(600));
    stage.sweep().await;
    alive(stage, &["w1"]).await;
    assert_ne!(stage.status(lost.id).await, Status::Running);
    stage.advance(Span::from_secs(600));
    stage.sweep().await;
    alive(stage, &["w1"]).await;
    let again = stage.claim_by("w1").await.unwrap();
    stage.report(&again, ReportKind::Done).await.unwrap();
    let expected = [
        "submitted by ann (token ci)",
        "held by local",
        "released by ann",
        "claimed by worker w1",
        "requeued by scheduler",
        "claimed by worker w1",
        "done by worker w1",
    ];
    let seen: Vec<String> =
        told(stage, job.id).await.into_iter().filter(|line| !line.starts_with("due")).collect();
    assert_eq!(seen, expected);
}

pub async fn who_has_no_name_is_a_worker_or_nobody(stage: &Stage) {
    let job = stage.shell("x").await;
    let claimed = stage.claim().await.unwrap();
    stage.report(&claimed, ReportKind::Done).await.unwrap();
    assert_eq!(told(stage, job.id).await, ["submitted by nobody", "claimed by worker", "done by worker"]);
}

pub async fn what_follows_from_an_end_is_the_schedulers(stage: &Stage) {
    let top = submit_as(stage, By::Local, JobSpec::shell("top")).await;
    let child = stage.after(&[top.id]).await;
    stage.one(Command::Cancel { job: top.id, message: None }.caused_by(ann(None))).await.unwrap();
    assert_eq!(told(stage, top.id).await, ["submitted by local", "cancelled by ann"]);
    assert_eq!(told(stage, child.id).await, ["submitted by nobody", "cancelled by scheduler"]);
    stage.one(Command::Retry { job: top.id }.caused_by(ann(None))).await.unwrap();
    assert_eq!(told(stage, child.id).await.last().unwrap(), "retry_requested by ann");
    let first = stage.claim_by("w1").await.unwrap();
    stage.report(&first, ReportKind::Done).await.unwrap();
    assert_eq!(told(stage, child.id).await.last().unwrap(), "unblocked by scheduler");
}

pub async fn stops_say_who_wanted_them(stage: &Stage) {
    stage.register("a", memory(100), None).await;
    let low = running(stage, "a", needing(80)).await;
    stage.advance(A_WHILE);
    alive(stage, &["a"]).await;
    let urgent = JobSpec { priority: 5, ..needing(100) };
    let urgent = submit_as(stage, ann(None), urgent).await;
    assert_eq!(stage.look().await.stopped.all(), 1);
    stage.report(&low, ReportKind::Preempted).await.unwrap();
    let seen = told(stage, low.id).await;
    assert_eq!(seen[2..], ["stop_requested by scheduler", "requeued by worker a"]);
    assert_eq!(told(stage, urgent.id).await, ["submitted by ann", "room_made by scheduler"]);
    let started = stage.claim_by("a").await.unwrap();
    let stop = Command::Cancel { job: started.id, message: None }.caused_by(ann(None));
    stage.one(stop).await.unwrap();
    stage.report(&started, ReportKind::Preempted).await.unwrap();
    let seen = told(stage, urgent.id).await;
    assert_eq!(seen[3..], ["stop_requested by ann", "cancelled by worker a"]);
}

pub async fn tasks_of_a_gang_say_who_stopped_them(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.one(Command::Preempt { job: tasks[0].id, message: None }.caused_by(ann(None))).await.unwrap();
    stage.finish_drain(gang).await;
    for task in &tasks {
        let worker = task.worker().unwrap();
        let seen = told(stage, task.id).await;
        let drained = format!("drained by worker {worker}");
        assert!(seen.contains(&"reserved by scheduler".to_owned()), "{seen:?}");
        assert!(seen.contains(&"stop_requested by ann".to_owned()) && seen.contains(&drained), "{seen:?}");
    }
    stage.advance(Span::from_secs(600));
    stage.crew_alive(2).await;
    let tasks = stage.start_gang(gang).await;
    stage.report(&tasks[0], ReportKind::Failed).await.unwrap();
    let other = told(stage, tasks[1].id).await;
    assert_eq!(other.last().unwrap(), "stop_requested by scheduler", "no worker stops what another one has");
}

pub async fn a_batch_keeps_its_callers_apart(stage: &Stage) {
    let job = |by: By| {
        let jobs = vec![stage.new_job(JobSpec::shell("x"))];
        Command::Submit(Submit { jobs, atomic: false, set: None }).caused_by(by)
    };
    let jobs = (0..2).map(|_| stage.new_job(JobSpec::shell("twice"))).collect();
    let twice = Command::Submit(Submit { jobs, atomic: false, set: None }).caused_by(ann(Some("ci")));
    let answers = stage.apply(vec![job(By::Local), twice, job(ann(None))]).await;
    let mut seen = Vec::new();
    for answer in answers {
        let Ok(Outcome::Submitted(taken)) = answer else { panic!("{answer:?}") };
        for one in taken {
            seen.extend(told(stage, one.unwrap().job.id).await);
        }
    }
    let ci = "submitted by ann (token ci)";
    assert_eq!(seen, ["submitted by local", ci, ci, "submitted by ann"]);
}

fn audited(command: Command) -> Command {
    let address = Some("192.0.2.1".to_owned());
    let request = Some("r1".to_owned());
    let actor = Some(Actor { name: "ann".to_owned(), credential: None, address, request });
    Command::Attributed(Box::new(Attributed { by: ann(None), actor, command }))
}

pub async fn what_operators_change_leaves_a_line(stage: &Stage) {
    let queue = QueueName::new("q");
    stage.register("w1", memory(100), None).await;
    let worker = muster_domain::WorkerId::new("w1");
    let secret = SealedSecret {
        name: "s".to_owned(),
        queue: Some(queue.clone()),
        owner: None,
        version: 1,
        boxes: Vec::new(),
        updated_at: stage.now(),
    };
    let answers = stage
        .apply(vec![
            audited(Command::PutQueue(QueueSettings::new(queue.clone()))),
            audited(Command::ReleaseWorker { worker }),
            audited(Command::Secrets(SecretCommand::Put(secret))),
            audited(Command::Secrets(SecretCommand::Delete { name: "other".to_owned() })),
            Command::PutQueue(QueueSettings::new(QueueName::new("unnoted"))),
        ])
        .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 4, "{answers:?}");
    stage.one(audited(Command::RemoveQueue { name: queue })).await.unwrap();
    let lines = stage.store.audit(AuditFilter { limit: 10, ..AuditFilter::default() }).await.unwrap();
    let seen: Vec<(&str, &str)> =
        lines.iter().map(|line| (line.deed.action.as_str(), line.deed.object.as_deref().unwrap())).collect();
    let expected = [("queue.remove", "q"), ("secret.set", "s"), ("worker.release", "w1"), ("queue.set", "q")];
    assert_eq!(seen, expected, "what is refused leaves none");
    let complete =
        |by: &Actor| by.name == "ann" && by.address.is_some() && by.request.as_deref() == Some("r1");
    assert!(lines.iter().all(|line| complete(&line.deed.by)));
}

/// Entering a job changes nothing of it: its history names who did, and the audit log has a line.
pub async fn who_enters_a_job_is_written_down(stage: &Stage) {
    let pty = Some(TerminalSize { columns: 80, rows: 24 });
    let job = submit_as(stage, ann(None), JobSpec { pty, ..JobSpec::shell("x") }).await;
    let enter = |kind| {
        let actor = Some(Actor { name: "ann".to_owned(), ..Actor::default() });
        let command = Command::NoteTerminal { job: job.id, kind };
        Command::Attributed(Box::new(Attributed { by: ann(Some("ci")), actor, command }))
    };
    let waits = stage.one(enter(TerminalKind::Exec)).await.unwrap_err();
    assert_eq!(waits, Rejection::NotEnterable { status: Status::Pending });
    let claimed = stage.claim().await.unwrap();
    let before = stage.get(job.id).await;
    let entered = stage.one(enter(TerminalKind::Exec)).await.unwrap();
    let Outcome::Changed { job: seen, .. } = entered else { panic!("{entered:?}") };
    assert_eq!((seen.lease, seen.status()), (claimed.lease, Status::Running));
    assert_eq!(stage.get(job.id).await, before);
    stage.one(enter(TerminalKind::Attach)).await.unwrap();
    stage.report(&claimed, ReportKind::Done).await.unwrap();
    assert!(stage.one(enter(TerminalKind::Exec)).await.is_err());
    let kinds: Vec<_> = stage.events_of(job.id).await.into_iter().map(|event| event.kind).collect();
    let opened = |kind| EventKind::TerminalOpened { kind };
    assert!(kinds.contains(&opened(TerminalKind::Exec)) && kinds.contains(&opened(TerminalKind::Attach)));
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    assert!(told(stage, job.id).await.contains(&"terminal_opened by ann (token ci)".to_owned()));
    let plain = submit_as(stage, ann(None), JobSpec::shell("x")).await;
    stage.claim().await.unwrap();
    let attach = Command::NoteTerminal { job: plain.id, kind: TerminalKind::Attach };
    assert_eq!(stage.one(attach).await.unwrap_err(), Rejection::NoTerminal);
    let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
    let lines = stage.store.audit(filter).await.unwrap();
    let named: Vec<_> =
        lines.iter().map(|line| (line.deed.action.as_str(), line.deed.object.clone())).collect();
    let object = Some(job.id.to_string());
    assert_eq!(named.len(), 2, "{named:?}");
    assert!(named.contains(&("job.exec", object.clone())) && named.contains(&("job.attach", object)));
}
