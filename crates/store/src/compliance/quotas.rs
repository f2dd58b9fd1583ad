//! Quotas, limits on what runs, and turns among queues.

use muster_domain::{
    Amounts, Dimension, GangId, GangMembership, Job, JobSpec, QueueName, Rejection, ReportKind, Resources,
    Status,
};

use super::stage::{Stage, memory};
use crate::command::{Command, NewJob, Outcome, PlanPass, QueueSettings, TermsChange};
use crate::query::{Query, Reply};
use crate::store::StoreExt;

/// So much memory.
pub fn amount(memory_mb: u64) -> Option<Option<Amounts>> {
    Some(Some([(Dimension::MemoryMb, memory_mb)].into_iter().collect()))
}

/// A queue below `lab` with its own.
pub fn owning(name: &str, memory_mb: u64) -> QueueSettings {
    let parent = Some(Some(QueueName::new("lab")));
    let terms = TermsChange { parent, nominal: amount(memory_mb), ..TermsChange::default() };
    QueueSettings { terms, ..QueueSettings::new(QueueName::new(name)) }
}

fn with_terms(name: &str, terms: TermsChange) -> QueueSettings {
    QueueSettings { terms, ..QueueSettings::new(QueueName::new(name)) }
}

async fn try_set(stage: &Stage, settings: QueueSettings) -> Result<(), Rejection> {
    match stage.one(Command::PutQueue(settings)).await? {
        Outcome::Queue(_) => Ok(()),
        other => panic!("{other:?}"),
    }
}

pub async fn set(stage: &Stage, settings: QueueSettings) {
    try_set(stage, settings).await.unwrap();
}

/// A job of a queue that needs so much memory.
pub fn queued(queue: &str, memory_mb: u64) -> JobSpec {
    JobSpec { queue: Some(QueueName::new(queue)), resources: Some(memory(memory_mb)), ..JobSpec::shell("x") }
}

async fn submit(stage: &Stage, spec: &JobSpec, count: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        jobs.push(stage.submit(spec.clone()).await);
    }
    jobs
}

async fn claim(stage: &Stage, max: u32) -> Vec<Job> {
    stage.claim_as(None, max).await.into_iter().map(|claimed| claimed.job).collect()
}

/// The queues of these jobs, in order, a letter each.
fn letters(jobs: &[Job]) -> String {
    let first = |job: &Job| job.spec.queue.as_ref().and_then(|queue| queue.as_str().chars().next());
    jobs.iter().map(|job| first(job).unwrap_or('-')).collect()
}

async fn running(stage: &Stage) -> usize {
    stage.all().await.iter().filter(|job| job.status() == Status::Running).count()
}

pub async fn idle_quota_is_lent_and_comes_back(stage: &Stage) {
    set(stage, owning("a", 40)).await;
    set(stage, owning("b", 40)).await;
    submit(stage, &queued("a", 10), 10).await;
    let borrowed = claim(stage, 100).await;
    assert_eq!(borrowed.len(), 8, "its own and what b does not need");
    let waiting = submit(stage, &queued("b", 10), 2).await;
    assert!(claim(stage, 100).await.is_empty(), "nobody is thrown out");
    let codes = stage.why_codes(waiting[0].id).await;
    assert!(codes.contains(&"quota"), "{codes:?}");
    for job in &borrowed[..2] {
        stage.report(job, ReportKind::Done).await.unwrap();
    }
    assert_eq!(letters(&claim(stage, 100).await), "bb", "the owner goes first");
}

pub async fn borrowing_and_lending_have_limits(stage: &Stage) {
    set(stage, owning("a", 40)).await;
    set(stage, owning("b", 40)).await;
    let terms = TermsChange { lend: amount(20), ..TermsChange::default() };
    set(stage, with_terms("b", terms)).await;
    submit(stage, &queued("a", 10), 10).await;
    assert_eq!(claim(stage, 100).await.len(), 6);
    let terms = TermsChange { borrow: amount(10), ..TermsChange::default() };
    set(stage, with_terms("b", terms)).await;
    submit(stage, &queued("b", 10), 10).await;
    assert_eq!(claim(stage, 100).await.len(), 2, "what it kept; the rest is lent");
}

pub async fn work_that_is_not_preemptible_stays_within_its_own(stage: &Stage) {
    set(stage, owning("a", 20)).await;
    set(stage, owning("b", 40)).await;
    let fixed = JobSpec { fixed: true, ..queued("a", 10) };
    let jobs = submit(stage, &fixed, 5).await;
    assert_eq!(claim(stage, 100).await.len(), 2);
    let reasons = stage.reasons(jobs[4].id).await;
    assert!(reasons.iter().any(|reason| reason.to_string().contains("does not borrow")), "{reasons:?}");
}

pub async fn limits_bound_what_runs_in_a_tree_and_of_a_user(stage: &Stage) {
    let parent = Some(Some(QueueName::new("lab")));
    let terms = TermsChange { parent, max_running_per_user: Some(Some(2)), ..TermsChange::default() };
    set(stage, with_terms("a", terms)).await;
    set(stage, with_terms("lab", TermsChange { max_running: Some(Some(4)), ..TermsChange::default() })).await;
    let of = |user: &str| JobSpec { user: Some(user.to_owned()), ..queued("a", 1) };
    let anns = submit(stage, &of("ann"), 4).await;
    submit(stage, &of("bob"), 1).await;
    assert_eq!(claim(stage, 100).await.len(), 3, "two of ann, and hers hide nobody else's");
    assert!(stage.why_codes(anns[3].id).await.contains(&"user_limit"));
    submit(stage, &queued("lab", 1), 3).await;
    let last = stage.submit(queued("lab", 1)).await;
    assert_eq!(claim(stage, 100).await.len(), 1, "the parent counts all below it");
    assert!(stage.why_codes(last.id).await.contains(&"queue_full"));
}

pub async fn weights_share_what_there_is(stage: &Stage) {
    let weight = |milli| TermsChange { weight_milli: Some(Some(milli)), ..TermsChange::default() };
    set(stage, with_terms("a", weight(2000))).await;
    set(stage, with_terms("b", weight(1000))).await;
    stage.register("w", memory(1000), None).await;
    submit(stage, &queued("b", 10), 9).await;
    let last = submit(stage, &queued("a", 10), 9).await;
    let started: Vec<Job> =
        stage.claim_as(Some("w"), 6).await.into_iter().map(|claimed| claimed.job).collect();
    assert_eq!(letters(&started).matches('a').count(), 4, "{}", letters(&started));
    // One at a time it is the same.
    let mut more = Vec::new();
    for _ in 0..6 {
        more.extend(stage.claim_by("w").await);
    }
    assert_eq!(letters(&more).matches('a').count(), 4, "{}", letters(&more));
    assert!(!stage.why_codes(last[8].id).await.contains(&"ahead"));
}

pub async fn jobs_without_a_queue_take_their_turn(stage: &Stage) {
    let weight = TermsChange { weight_milli: Some(Some(1000)), ..TermsChange::default() };
    set(stage, with_terms("a", weight)).await;
    stage.register("w", memory(1000), None).await;
    submit(stage, &queued("a", 10), 6).await;
    submit(stage, &JobSpec { queue: None, ..queued("a", 10) }, 6).await;
    let mut started = Vec::new();
    for _ in 0..6 {
        started.extend(stage.claim_by("w").await);
    }
    assert_eq!(letters(&started), "a-a-a-");
}

pub async fn priority_goes_before_share(stage: &Stage) {
    set(stage, owning("a", 100)).await;
    set(stage, owning("b", 100)).await;
    submit(stage, &queued("a", 10), 2).await;
    submit(stage, &JobSpec { priority: 5, ..queued("b", 10) }, 1).await;
    assert_eq!(letters(&claim(stage, 100).await), "baa");
}

pub async fn parallel_claims_respect_a_quota(stage: &Stage) {
    set(stage, owning("a", 30)).await;
    set(stage, owning("b", 20)).await;
    submit(stage, &queued("a", 10), 10).await;
    submit(stage, &queued("b", 10), 10).await;
    let claims = (0..12).map(|n| async move { stage.claim_by(&format!("w{n}")).await });
    futures::future::join_all(claims).await;
    claim(stage, 100).await;
    assert_eq!(running(stage).await, 5);
}

fn pass() -> PlanPass {
    PlanPass {
        timeouts: muster_domain::limits::Timeouts::default(),
        listening_since: muster_domain::Timestamp::default(),
        limit: 100,
        look: true,
        allowances: muster_planner::policy::Allowances::default(),
    }
}

/// The tasks of a gang in a queue.
pub fn gang(stage: &Stage, queue: &str, size: u32, memory_mb: u64) -> Vec<NewJob> {
    let id = GangId::from_uuid(stage.new_id().as_uuid());
    let task = |index| {
        let gang =
            GangMembership { id, size, index, min: None, per_worker: size, keep_done: false, topology: None };
        let spec = JobSpec { gang: Some(gang), ..queued(queue, memory_mb) };
        NewJob { first_task: (index > 0).then_some(0), ..stage.new_job(spec) }
    };
    (0..size).map(task).collect()
}

pub async fn a_gang_fits_its_quota_whole_or_waits(stage: &Stage) {
    set(stage, owning("a", 40)).await;
    stage.register("w", memory(1000), None).await;
    let large = stage.try_submit(gang(stage, "a", 5, 10), true).await.unwrap();
    let small = stage.try_submit(gang(stage, "a", 3, 10), true).await.unwrap();
    stage.one(Command::Plan(pass())).await.unwrap();
    let status = async |taken: &[Result<crate::command::Submitted, Rejection>]| {
        stage.status(taken[0].as_ref().unwrap().job.id).await
    };
    assert_eq!(status(&large).await, Status::Blocked);
    assert_eq!(status(&small).await, Status::Reserved);
    let codes = stage.why_codes(large[0].as_ref().unwrap().job.id).await;
    assert!(codes.contains(&"quota"), "{codes:?}");
    submit(stage, &queued("a", 10), 3).await;
    assert_eq!(
        stage.claim_as(Some("w"), 9).await.len(),
        4,
        "what is reserved counts: one job beside the gang"
    );
}

pub async fn a_cycle_of_queues_is_refused(stage: &Stage) {
    let below = |name: &str, parent: &str| {
        let parent = Some(Some(QueueName::new(parent)));
        with_terms(name, TermsChange { parent, ..TermsChange::default() })
    };
    set(stage, below("b", "a")).await;
    let refusal = try_set(stage, below("a", "b")).await.unwrap_err();
    assert_eq!(refusal.to_string(), "a queue cannot be below itself: a -> b -> a");
    let queues = stage.store.queues().await.unwrap();
    assert!(queues.iter().all(|queue| queue.tree == Some(QueueName::new("a"))), "{queues:?}");
    let alone = TermsChange { parent: Some(None), ..TermsChange::default() };
    set(stage, with_terms("b", alone)).await;
    let queues = stage.store.queues().await.unwrap();
    assert!(queues.len() == 2 && queues.iter().all(|queue| queue.tree.is_none()), "{queues:?}");
}

pub async fn a_smaller_quota_stops_nobody(stage: &Stage) {
    set(stage, owning("a", 40)).await;
    submit(stage, &queued("a", 10), 6).await;
    let started = claim(stage, 100).await;
    assert_eq!(started.len(), 4);
    set(stage, owning("a", 10)).await;
    assert_eq!(running(stage).await, 4);
    for (done, job) in started.iter().enumerate() {
        assert!(claim(stage, 100).await.is_empty(), "after {done}");
        stage.report(job, ReportKind::Done).await.unwrap();
    }
    assert_eq!(claim(stage, 100).await.len(), 1);
}

pub async fn standings_tell_what_is_used_lent_and_waiting(stage: &Stage) {
    set(stage, owning("a", 20)).await;
    set(stage, owning("b", 40)).await;
    let of = |user: &str, queue| JobSpec { user: Some(user.to_owned()), ..queued(queue, 10) };
    submit(stage, &of("ann", "a"), 4).await;
    claim(stage, 3).await;
    stage.submit(of("bob", "a")).await;
    let Reply::Standings(all) = stage.store.read(Query::Standings).await.unwrap() else { panic!() };
    let names: Vec<&str> = all.iter().map(|standing| standing.queue.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "lab"]);
    let memory = |amounts: &Amounts| amounts.get(&Dimension::MemoryMb);
    assert_eq!((memory(&all[0].used), memory(&all[0].borrowed)), (Some(30), Some(10)));
    assert_eq!((memory(&all[1].lent), memory(&all[2].used_below)), (Some(10), Some(30)));
    assert_eq!((all[0].share, all[2].running_below), (166_666_666, 3));
    let query = Query::WaitingByUser(vec![QueueName::new("a")]);
    let Reply::WaitingByUser(users) = stage.store.read(query).await.unwrap() else { panic!() };
    let users: Vec<(String, u64)> = users.into_iter().map(|((_, user), jobs)| (user, jobs)).collect();
    assert_eq!(users, [("ann".to_owned(), 1), ("bob".to_owned(), 1)]);
}

pub async fn a_queue_without_terms_is_as_before(stage: &Stage) {
    set(stage, owning("a", 10)).await;
    let big = Resources { memory_mb: 1 << 30, ..Resources::default() };
    submit(stage, &JobSpec { resources: Some(big), ..queued("free", 0) }, 3).await;
    assert_eq!(claim(stage, 100).await.len(), 3);
}

pub async fn a_queue_is_forgotten_when_nothing_is_left_in_it(stage: &Stage) {
    let remove = async |name: &str| stage.one(Command::RemoveQueue { name: QueueName::new(name) }).await;
    set(stage, owning("team", 1000)).await;
    let refused = remove("lab").await.unwrap_err();
    assert!(
        matches!(&refused, Rejection::QueueHasQueues { child, .. } if child.as_str() == "team"),
        "{refused:?}"
    );
    stage.register("w1", memory(8000), None).await;
    let waiting = submit(stage, &queued("team", 100), 1).await;
    let refused = remove("team").await.unwrap_err();
    assert!(matches!(&refused, Rejection::QueueHasJobs { job, .. } if *job == waiting[0].id), "{refused:?}");
    let running = stage.claim_by("w1").await.unwrap();
    assert!(matches!(remove("team").await, Err(Rejection::QueueHasJobs { .. })));
    stage.report(&running, ReportKind::Done).await.unwrap();
    assert!(matches!(remove("team").await, Ok(Outcome::Queue(queue)) if queue.name.as_str() == "team"));
    assert!(matches!(remove("team").await, Err(Rejection::QueueNotFound { .. })));
    assert!(remove("lab").await.is_ok());
    let Ok(Reply::Queues(left)) = stage.store.read(Query::Queues).await else { panic!("no queues") };
    assert!(left.is_empty(), "{left:?}");
}
