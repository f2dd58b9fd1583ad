//! Pipelines and arrays: one submission, one id, the state of their jobs; and what steps hand on.

use std::sync::Arc;

use muster_domain::{
    Caller, Exit, JobSet, JobSpec, Member, Rejection, ReportKind, SetId, SetKind, Span, Status, StepOutline,
};

use super::stage::Stage;
use crate::command::{Answer, Command, NewJob, Outcome, Report, SetPart, Submit};
use crate::query::{JobFilter, SetFilter, SetView};
use crate::store::StoreExt;

fn set_id(byte: u8) -> SetId {
    SetId::from_random([byte; 16])
}

fn step(name: &str) -> StepOutline {
    StepOutline { name: name.to_owned(), needs: Vec::new() }
}

fn pipeline(stage: &Stage, id: SetId, steps: &[&str]) -> JobSet {
    JobSet {
        id,
        seq: 0,
        kind: SetKind::Pipeline,
        name: Some("nightly".to_owned()),
        created_at: stage.now(),
        size: 0,
        max_parallel: Some(4),
        idempotency_key: None,
        outline: steps.iter().map(|name| step(name)).collect(),
    }
}

fn member(stage: &Stage, set: SetId, name: &str, index: Option<u32>) -> NewJob {
    let member = Member { set, step: Some(name.into()), index };
    let reference = Some(index.map_or_else(|| name.to_owned(), |index| format!("{name}#{index}")));
    NewJob { member: Some(member), reference, ..stage.new_job(JobSpec::shell(name)) }
}

async fn submit(stage: &Stage, jobs: Vec<NewJob>, set: SetPart) -> Answer {
    stage.one(Command::Submit(Submit { jobs, atomic: true, set: Some(set) })).await
}

async fn read(stage: &Stage, id: SetId) -> SetView {
    let filter = SetFilter { ids: vec![id], ..SetFilter::default() };
    stage.store.sets(filter).await.unwrap().pop().unwrap()
}

fn count(view: &SetView, status: Status) -> u64 {
    view.counts.iter().filter(|count| count.status == status).map(|count| count.jobs).sum()
}

pub async fn a_pipeline_is_taken_whole(stage: &Stage) {
    let id = set_id(1);
    let second = NewJob { depends_on: vec!["a".into()], ..member(stage, id, "b", None) };
    let jobs = vec![member(stage, id, "a", None), second];
    let answer = submit(stage, jobs, SetPart::New(pipeline(stage, id, &["a", "b"]))).await.unwrap();
    let Outcome::SubmittedSet { set, repeated: false, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((set.size, set.outline.len(), set.seq > 0), (2, 2, true));
    let view = read(stage, id).await;
    assert_eq!(view.set, set);
    assert_eq!((count(&view, Status::Pending), count(&view, Status::Blocked)), (1, 1));
    let job = stage.claim().await.unwrap();
    assert_eq!(job.member.as_ref().unwrap().step.as_deref(), Some("a"));
    assert_eq!(stage.get(job.id).await.member, job.member);
    stage.report(&job, ReportKind::Done).await.unwrap();
    let view = read(stage, id).await;
    let done = view.counts.iter().find(|count| count.status == Status::Done).unwrap();
    assert_eq!((done.step.as_deref(), done.jobs), (Some("a"), 1));
    assert!(done.first_start.is_some() && done.last_end.is_some());
}

pub async fn a_refused_pipeline_leaves_nothing(stage: &Stage) {
    let id = set_id(1);
    let wrong = NewJob { depends_on: vec!["nobody".into()], ..member(stage, id, "b", None) };
    let jobs = vec![member(stage, id, "a", None), wrong];
    let refused = submit(stage, jobs, SetPart::New(pipeline(stage, id, &["a", "b"]))).await;
    assert!(matches!(refused, Err(Rejection::BatchRefused { .. })), "{refused:?}");
    assert!(stage.all().await.is_empty());
    assert!(stage.store.sets(SetFilter::default()).await.unwrap().is_empty());
}

pub async fn a_key_returns_the_first_set(stage: &Stage) {
    let keyed = |id| JobSet { idempotency_key: Some("k".to_owned()), ..pipeline(stage, id, &["a"]) };
    let one = |id: SetId| (vec![member(stage, id, "a", None)], SetPart::New(keyed(id)));
    let (jobs, part) = one(set_id(1));
    submit(stage, jobs, part).await.unwrap();
    let (jobs, part) = one(set_id(2));
    let answer = submit(stage, jobs, part).await.unwrap();
    let Outcome::SubmittedSet { set, repeated: true, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(set.id, set_id(1));
    let twins = [set_id(3), set_id(4)].map(|id| {
        let set = JobSet { idempotency_key: Some("l".to_owned()), ..pipeline(stage, id, &["a"]) };
        Command::Submit(Submit {
            jobs: vec![member(stage, id, "a", None)],
            atomic: true,
            set: Some(SetPart::New(set)),
        })
    });
    let answers = stage.apply(twins.into()).await;
    let ids: Vec<SetId> = answers
        .into_iter()
        .map(|answer| match answer.unwrap() {
            Outcome::SubmittedSet { set, .. } => set.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [set_id(3), set_id(3)], "two in one batch");
    assert_eq!(stage.all().await.len(), 2);
}

pub async fn steps_are_added_to_a_pipeline(stage: &Stage) {
    let id = set_id(1);
    let jobs = vec![member(stage, id, "a", None)];
    let first = jobs[0].id;
    submit(stage, jobs, SetPart::New(pipeline(stage, id, &["a"]))).await.unwrap();
    let more = |name: &str, needs: Vec<String>| {
        let job = NewJob { depends_on: needs, ..member(stage, id, name, None) };
        (vec![job], SetPart::Extend { set: id, outline: vec![step(name)] })
    };
    let (jobs, part) = more("b", vec![first.to_string()]);
    let answer = submit(stage, jobs, part).await.unwrap();
    let Outcome::SubmittedSet { set, .. } = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = set.outline.iter().map(|step| step.name.as_str()).collect();
    assert_eq!((set.size, names), (2, vec!["a", "b"]));
    assert_eq!(read(stage, id).await.set, set);
    let (jobs, part) = more("a", Vec::new());
    let twice = submit(stage, jobs, part).await;
    assert_eq!(twice, Err(Rejection::DuplicateStep { name: "a".to_owned() }));
    let strange = SetPart::Extend { set: set_id(9), outline: vec![step("c")] };
    let missing = submit(stage, vec![member(stage, set_id(9), "c", None)], strange).await;
    assert_eq!(missing, Err(Rejection::SetNotFound { id: set_id(9) }));
    assert_eq!(stage.all().await.len(), 2);
}

pub async fn elements_are_listed_and_counted(stage: &Stage) {
    let id = set_id(1);
    let element = |index| NewJob {
        member: Some(Member { set: id, step: None, index: Some(index) }),
        ..stage.new_job(JobSpec::shell("x"))
    };
    let set = JobSet { kind: SetKind::Array, outline: Vec::new(), ..pipeline(stage, id, &[]) };
    submit(stage, (0..7).map(element).collect(), SetPart::New(set)).await.unwrap();
    stage.shell("another").await;
    let filter = JobFilter { set: Some(id), limit: Some(5), ..JobFilter::default() };
    let page = stage.store.jobs(filter.clone()).await.unwrap();
    let indices = |page: &crate::query::JobPage| -> Vec<Option<u32>> {
        page.jobs.iter().map(|view| view.job.member.as_ref().unwrap().index).collect()
    };
    assert_eq!(indices(&page), [Some(6), Some(5), Some(4), Some(3), Some(2)]);
    let rest = stage.store.jobs(JobFilter { before_seq: page.next, ..filter }).await.unwrap();
    assert_eq!(indices(&rest), [Some(1), Some(0)]);
    for _ in 0..3 {
        stage.claim().await.unwrap();
    }
    let view = read(stage, id).await;
    assert_eq!((count(&view, Status::Running), count(&view, Status::Pending)), (3, 4));
    let kinds = |kind| SetFilter { kind: Some(kind), ..SetFilter::default() };
    assert_eq!(stage.store.sets(kinds(SetKind::Array)).await.unwrap().len(), 1);
    assert!(stage.store.sets(kinds(SetKind::Pipeline)).await.unwrap().is_empty());
}

pub async fn outputs_are_kept_and_handed_on(stage: &Stage) {
    let id = set_id(1);
    let second = NewJob { depends_on: vec!["load#3".into()], ..member(stage, id, "fit", None) };
    let jobs = vec![member(stage, id, "load", Some(3)), second];
    submit(stage, jobs, SetPart::New(pipeline(stage, id, &["load", "fit"]))).await.unwrap();
    let load = stage.claim_as(None, 1).await.pop().unwrap();
    assert!(load.inputs.is_empty());
    let outputs: Arc<str> = r#"{"rows":5,"path":"/x \u00e9"}"#.into();
    let report = Report {
        job: load.job.id,
        caller: Caller { lease: Some(load.job.lease), worker: None },
        kind: ReportKind::Done,
        exit: Exit { code: Some(0), signal: None },
        message: None,
        outputs: Some(Arc::clone(&outputs)),
        spent: None,
    };
    stage.one(Command::Report(report)).await.unwrap();
    assert_eq!(stage.get(load.job.id).await.outputs, Some(Arc::clone(&outputs)));
    let fit = stage.claim_as(None, 1).await.pop().unwrap();
    assert_eq!(fit.inputs.len(), 1);
    let input = &fit.inputs[0];
    assert_eq!((input.name.as_deref(), input.index, &input.outputs), (Some("load"), Some(3), &outputs));
}

pub async fn retention_removes_empty_sets(stage: &Stage) {
    let id = set_id(1);
    submit(stage, vec![member(stage, id, "a", None)], SetPart::New(pipeline(stage, id, &["a"])))
        .await
        .unwrap();
    let job = stage.claim().await.unwrap();
    stage.report(&job, ReportKind::Done).await.unwrap();
    stage.advance(Span::from_secs(100));
    let keep = Some(Span::from_secs(50));
    stage.sweep_with(muster_domain::Timestamp::default(), keep).await;
    assert!(stage.all().await.is_empty());
    stage.sweep_with(muster_domain::Timestamp::default(), keep).await;
    assert!(stage.store.sets(SetFilter::default()).await.unwrap().is_empty());
}

pub async fn a_cancelled_pipeline_is_retried_in_order(stage: &Stage) {
    let id = set_id(1);
    let second = NewJob { depends_on: vec!["a".into()], ..member(stage, id, "b", None) };
    let jobs = vec![member(stage, id, "a", None), second];
    let (a, b) = (jobs[0].id, jobs[1].id);
    submit(stage, jobs, SetPart::New(pipeline(stage, id, &["a", "b"]))).await.unwrap();
    let cancel = |job| Command::Cancel { job, message: None };
    stage.apply(vec![cancel(b), cancel(a)]).await;
    assert_eq!((stage.status(a).await, stage.status(b).await), (Status::Cancelled, Status::Cancelled));
    let alone = stage.control(Command::Retry { job: b }).await.unwrap_err();
    assert_eq!(alone, Rejection::EndedByAncestor { ancestor: a });
    stage.control(Command::Retry { job: a }).await.unwrap();
    stage.control(Command::Retry { job: b }).await.unwrap();
    assert_eq!((stage.status(a).await, stage.status(b).await), (Status::Pending, Status::Blocked));
}

pub async fn a_preview_ends_nothing(stage: &Stage) {
    let running = stage.shell("runs").await;
    stage.claim().await.unwrap();
    let follower = stage.after(&[running.id]).await;
    let waiting = stage.shell("waits").await;
    let below = stage.after(&[waiting.id]).await;
    let preview = stage.store.cancel_preview(vec![running.id, waiting.id]).await.unwrap();
    assert_eq!(preview.stopping, [running.id]);
    assert_eq!(preview.following, [follower.id]);
    assert_eq!(preview.cancelled, [waiting.id, below.id]);
    assert_eq!(stage.status(waiting.id).await, Status::Pending);
    assert_eq!(stage.status(running.id).await, Status::Running);
}
