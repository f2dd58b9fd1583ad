//! Lists as one caller may see them, and the lists of users that queues keep.

use muster_domain::access::{Principal, UserRole};
use muster_domain::{JobId, JobSet, JobSpec, Member, QueueAccess, QueueName, SetId, SetKind, StepOutline};

use super::Stage;
use crate::command::{AccessChange, Command, NewJob, Outcome, QueueSettings, SetPart, Submit};
use crate::query::{JobFilter, SetFilter, SetView};
use crate::store::StoreExt as _;

fn user(name: &str) -> Principal {
    Principal::User { name: name.to_owned(), role: UserRole::User, queues: None }
}

fn operator() -> Principal {
    Principal::User { name: "olga".to_owned(), role: UserRole::Operator, queues: None }
}

fn of(owner: &str) -> JobSpec {
    JobSpec { user: Some(owner.to_owned()), ..JobSpec::shell("x") }
}

fn private(owner: &str) -> JobSpec {
    JobSpec { private: true, ..of(owner) }
}

fn in_queue(owner: &str, queue: &str) -> JobSpec {
    JobSpec { queue: Some(QueueName::new(queue)), ..of(owner) }
}

async fn set(stage: &Stage, queue: &str, parent: Option<&str>, access: AccessChange) -> QueueAccess {
    let mut settings = QueueSettings { access, ..QueueSettings::new(QueueName::new(queue)) };
    settings.terms.parent = parent.map(|parent| Some(QueueName::new(parent)));
    match stage.one(Command::PutQueue(settings)).await.unwrap() {
        Outcome::Queue(queue) => queue.access,
        other => panic!("{other:?}"),
    }
}

fn viewers(names: &[&str]) -> AccessChange {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    AccessChange { viewers: Some(names), ..AccessChange::default() }
}

/// All pages of so many jobs that a caller sees, by the pages.
async fn pages(stage: &Stage, caller: &Principal, limit: usize) -> Vec<Vec<JobId>> {
    let (mut pages, mut before_seq) = (Vec::new(), None);
    loop {
        let seen_by = Some(caller.clone());
        let filter = JobFilter { before_seq, limit: Some(limit), seen_by, ..JobFilter::default() };
        let page = stage.store.jobs(filter).await.unwrap();
        pages.push(page.jobs.iter().map(|view| view.job.id).collect());
        before_seq = page.next;
        if before_seq.is_none() {
            return pages;
        }
    }
}

pub async fn pages_of_what_is_visible_join_without_loss(stage: &Stage) {
    let (mut open, mut own) = (Vec::new(), Vec::new());
    for number in 0..30 {
        let job = match number % 3 {
            0 => stage.submit(of("ann")).await,
            _ => stage.submit(private("ann")).await,
        };
        own.push(job.id);
        if number % 3 == 0 {
            open.push(job.id);
        }
    }
    own.reverse();
    open.reverse();
    for limit in [1, 3, 4, 9, 10, 11, 100] {
        let seen = pages(stage, &user("bob"), limit).await;
        assert!(seen.iter().rev().skip(1).all(|page| page.len() == limit), "{limit}: {seen:?}");
        assert!(limit == 100 || seen.last().is_some_and(|page| !page.is_empty()), "{limit}");
        assert_eq!(seen.concat(), open, "{limit}");
        assert_eq!(pages(stage, &user("ann"), limit).await.concat(), own, "{limit}");
        assert_eq!(pages(stage, &operator(), limit).await.concat(), own, "{limit}");
    }
    let whole = JobFilter { seen_by: Some(user("bob")), ..JobFilter::default() };
    assert_eq!(stage.store.jobs(whole).await.unwrap().jobs.len(), open.len());
}

pub async fn nothing_visible_is_an_empty_list(stage: &Stage) {
    for _ in 0..5 {
        stage.submit(private("ann")).await;
    }
    assert_eq!(pages(stage, &user("bob"), 2).await, [Vec::new()]);
}

pub async fn the_viewers_of_a_queue_see_its_jobs(stage: &Stage) {
    assert_eq!(set(stage, "lab", None, viewers(&["vera"])).await.viewers, ["vera"]);
    set(stage, "below", Some("lab"), AccessChange::default()).await;
    let job = stage.submit(in_queue("ann", "below")).await.id;
    let other = stage.submit(in_queue("ann", "other")).await.id;
    let sees = async |name: &str| pages(stage, &user(name), 9).await.concat();
    assert_eq!(sees("vera").await, [other, job]);
    assert_eq!(sees("ann").await, [other, job]);
    assert_eq!(sees("bob").await, [other], "the list of the queue above counts");
    set(stage, "below", Some("lab"), viewers(&["bob"])).await;
    assert_eq!((sees("bob").await.len(), sees("vera").await.len()), (2, 1), "its own goes first");
    assert_eq!(set(stage, "below", None, viewers(&[])).await, QueueAccess::default());
    assert_eq!(stage.store.queues().await.unwrap().len(), 2);
}

fn set_id(byte: u8) -> SetId {
    SetId::from_random([byte; 16])
}

async fn submit_set(stage: &Stage, id: SetId, kind: SetKind, members: Vec<(&str, JobSpec)>) {
    let outline = match kind {
        SetKind::Pipeline => members.iter().map(|(name, _)| (*name).to_owned()).collect(),
        SetKind::Array => Vec::new(),
    };
    let step = |name: String| StepOutline { name, needs: Vec::new() };
    let mut outline: Vec<StepOutline> = outline.into_iter().map(step).collect();
    if let [first, .., last] = outline.as_mut_slice() {
        last.needs = vec![(first.name.clone(), muster_domain::Rule::default())];
    }
    let job = |(index, (name, spec)): (usize, (&str, JobSpec))| {
        let (step, index) = match kind {
            SetKind::Pipeline => (Some(name.into()), None),
            SetKind::Array => (None, Some(index as u32)),
        };
        NewJob { member: Some(Member { set: id, step, index }), ..stage.new_job(spec) }
    };
    let jobs = members.into_iter().enumerate().map(job).collect();
    let set = JobSet {
        id,
        seq: 0,
        kind,
        name: Some("nightly".to_owned()),
        created_at: stage.now(),
        size: 0,
        max_parallel: None,
        idempotency_key: None,
        outline,
    };
    stage.one(Command::Submit(Submit { jobs, atomic: true, set: Some(SetPart::New(set)) })).await.unwrap();
}

async fn sets(stage: &Stage, caller: &str, filter: SetFilter) -> Vec<SetView> {
    let seen_by = Some(user(caller));
    stage.store.sets(SetFilter { seen_by, ..filter }).await.unwrap()
}

pub async fn of_a_pipeline_only_visible_steps_are_shown(stage: &Stage) {
    let steps = vec![("a", private("ann")), ("b", of("ann")), ("c", of("ann"))];
    submit_set(stage, set_id(1), SetKind::Pipeline, steps).await;
    let seen = sets(stage, "bob", SetFilter::default()).await.pop().unwrap();
    let names: Vec<&str> = seen.set.outline.iter().map(|step| step.name.as_str()).collect();
    assert_eq!((names.as_slice(), seen.set.size), (["b", "c"].as_slice(), 2));
    assert!(seen.set.outline.iter().all(|step| step.needs.is_empty()), "{:?}", seen.set.outline);
    assert!(seen.counts.iter().all(|count| count.step.as_deref() != Some("a")), "{:?}", seen.counts);
    let own = sets(stage, "ann", SetFilter::default()).await.pop().unwrap();
    assert_eq!((own.set.outline.len(), own.set.size), (3, 3));
    assert_eq!(own.set.outline[2].needs.len(), 1);
}

pub async fn sets_of_which_nothing_is_visible_are_left_out(stage: &Stage) {
    for byte in 1..=9 {
        let spec = if byte % 3 == 0 { of("ann") } else { private("ann") };
        let kind = if byte % 2 == 0 { SetKind::Array } else { SetKind::Pipeline };
        submit_set(stage, set_id(byte), kind, vec![("a", spec.clone()), ("b", spec)]).await;
    }
    let ids = |views: &[SetView]| views.iter().map(|view| view.set.id).collect::<Vec<_>>();
    let all = sets(stage, "bob", SetFilter::default()).await;
    assert_eq!(ids(&all), [set_id(9), set_id(6), set_id(3)]);
    let first = sets(stage, "bob", SetFilter { limit: Some(2), ..SetFilter::default() }).await;
    assert_eq!(ids(&first), [set_id(9), set_id(6)]);
    let before_seq = first.last().map(|view| view.set.seq);
    let second = sets(stage, "bob", SetFilter { limit: Some(2), before_seq, ..SetFilter::default() }).await;
    assert_eq!(ids(&second), [set_id(3)]);
    assert_eq!(sets(stage, "ann", SetFilter::default()).await.len(), 9);
    let named = SetFilter { ids: vec![set_id(1)], ..SetFilter::default() };
    assert!(
        sets(stage, "bob", named.clone()).await.is_empty() && !sets(stage, "ann", named).await.is_empty()
    );
}

pub async fn a_private_job_stays_private(stage: &Stage) {
    let job = stage.submit(private("ann")).await;
    assert!(job.spec.private && stage.get(job.id).await.spec.private);
    assert!(!stage.shell("x").await.spec.private);
}
