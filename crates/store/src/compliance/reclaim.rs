//! Stops that priority does not demand: work that borrows stops for work of a queue that owns, and what has had
//! much service for what has had less, within a budget.

use std::collections::BTreeSet;

use muster_domain::{
    EventKind, GangMembership, Job, JobSpec, PoolAt, ReportKind, Span, Status, Unit, Worker,
};

use muster_planner::policy::Allowances;

use super::Stage;
use super::band::membership;
use super::outlook::{A_WHILE, alive, running};
use super::quotas::{owning, queued, set};
use super::stage::{memory, needing};

/// Two queues that own 40 each; `b` runs as much as there is, in jobs of 10 on one worker, for a while.
async fn all_is_lent(stage: &Stage, room: u64) -> Vec<Job> {
    set(stage, owning("a", 40)).await;
    set(stage, owning("b", 40)).await;
    stage.register("w", memory(room), None).await;
    for _ in 0..8 {
        stage.submit(queued("b", 10)).await;
    }
    let running: Vec<Job> = stage.claim_as(Some("w"), 100).await.into_iter().map(|one| one.job).collect();
    assert_eq!(running.len(), 8, "its own and what a does not need");
    stage.advance(A_WHILE);
    alive(stage, &["w"]).await;
    running
}

async fn stopping(stage: &Stage) -> Vec<Job> {
    stage.all().await.into_iter().filter(|job| job.status() == Status::Preempting).collect()
}

async fn let_go(stage: &Stage, jobs: &[Job]) {
    for job in jobs {
        stage.report(job, ReportKind::Preempted).await.unwrap();
    }
}

pub async fn an_owner_takes_back_what_it_lent(stage: &Stage) {
    all_is_lent(stage, 80).await;
    let owner = stage.submit(queued("a", 20)).await;
    assert_eq!(stage.look().await.stopped.quota, 2);
    assert_eq!(stage.look().await.stopped.all(), 0, "it is on its way");
    let victims = stopping(stage).await;
    for job in &victims {
        let why = stage.store_reason(job.id).await;
        assert!(
            why.contains(&owner.id.to_string()) && why.contains("queue a takes back what it lent"),
            "{why}"
        );
    }
    let made = stage.events_of(owner.id).await.into_iter().find_map(|event| match event.kind {
        EventKind::RoomMade { by } => Some(by.len()),
        _ => None,
    });
    assert_eq!(made, Some(2));
    let_go(stage, &victims).await;
    assert_eq!(stage.claim_by("w").await.unwrap().id, owner.id);
    assert!(stage.claim_by("w").await.is_none());
    // Who was stopped waits for its turn, has paid nothing and stops nobody in return.
    stage.advance(A_WHILE);
    alive(stage, &["w"]).await;
    assert_eq!(stage.look().await.stopped.all(), 0);
    for job in victims {
        let job = stage.get(job.id).await;
        let favoured = job.stopped_for;
        assert_eq!((job.status(), job.attempts, favoured), (Status::Pending, 0, Some(Unit::Job(owner.id))));
    }
    stage.report(&stage.get(owner.id).await, ReportKind::Done).await.unwrap();
    let back = stage.claim_by("w").await.unwrap();
    assert_eq!(back.stopped_for, None, "it runs again");
}

pub async fn a_gang_takes_back_what_its_queue_lent(stage: &Stage) {
    all_is_lent(stage, 80).await;
    let membership = muster_domain::GangMembership { per_worker: 2, ..membership(2) };
    let gang = stage.submit_gang(queued("a", 20), membership.clone()).await;
    assert_eq!(stage.look().await.stopped.quota, 4);
    let victims = stopping(stage).await;
    let_go(stage, &victims).await;
    assert_eq!(stage.look().await.placed, 1);
    stage.claim_gang(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Running; 2]);
    // More than its own it does not get.
    stage.submit_gang(queued("a", 20), membership).await;
    stage.advance(A_WHILE);
    alive(stage, &["w"]).await;
    assert_eq!(stage.look().await.stopped.all(), 0);
}

pub async fn quota_is_taken_back_where_room_is_not_what_lacks(stage: &Stage) {
    all_is_lent(stage, 1000).await;
    let owner = stage.submit(queued("a", 40)).await;
    assert!(stage.claim_by("w").await.is_none());
    assert_eq!(stage.look().await.stopped.quota, 4);
    let victims = stopping(stage).await;
    let_go(stage, &victims[..3]).await;
    assert!(stage.claim_by("w").await.is_none(), "nobody else gets what comes back");
    let_go(stage, &victims[3..]).await;
    assert_eq!(stage.claim_by("w").await.unwrap().id, owner.id);
}

pub async fn what_may_not_be_stopped_stays(stage: &Stage) {
    set(stage, owning("a", 60)).await;
    set(stage, owning("b", 20)).await;
    stage.register("w", memory(80), None).await;
    for _ in 0..6 {
        stage.submit(queued("b", 10)).await;
    }
    assert_eq!(stage.claim_as(Some("w"), 100).await.len(), 6);
    stage.advance(Span::from_secs(5));
    let fixed = JobSpec { fixed: true, ..queued("b", 10) };
    for _ in 0..2 {
        stage.submit(fixed.clone()).await;
    }
    // Younger, so that their stop would cost less.
    assert_eq!(stage.claim_as(Some("w"), 100).await.len(), 2);
    let owner = stage.submit(queued("a", 10)).await;
    assert_eq!(stage.look().await.stopped.all(), 0, "they have hardly begun");
    stage.advance(A_WHILE);
    alive(stage, &["w"]).await;
    assert_eq!(stage.look().await.stopped.quota, 1);
    assert!(stopping(stage).await.iter().all(|job| !job.spec.fixed));
    let_go(stage, &stopping(stage).await).await;
    assert_eq!(stage.claim_by("w").await.unwrap().id, owner.id);
}

pub async fn owners_are_not_stopped_for_borrowers(stage: &Stage) {
    set(stage, owning("a", 40)).await;
    set(stage, owning("b", 40)).await;
    stage.register("w", memory(40), None).await;
    for _ in 0..4 {
        stage.submit(queued("b", 10)).await;
    }
    assert_eq!(stage.claim_as(Some("w"), 100).await.len(), 4);
    stage.advance(A_WHILE);
    alive(stage, &["w"]).await;
    // More than its own, however urgent; then within its own, but b uses no more than b's.
    stage.submit(JobSpec { priority: 9, ..queued("a", 41) }).await;
    stage.submit(queued("a", 10)).await;
    assert_eq!(stage.look().await.stopped.all(), 0);
    stage.submit(JobSpec { priority: 9, ..queued("a", 20) }).await;
    assert_eq!(stage.look().await.stopped.priority, 2, "between owners priority decides");
}

/// One that runs alone on the only worker, for so long, and another of the same priority.
async fn one_has_had_much(stage: &Stage, ran: Span) -> (Job, Job) {
    stage.register("w", memory(80), None).await;
    stage.submit(needing(80)).await;
    let first = stage.claim_by("w").await.unwrap();
    stage.advance(ran);
    alive(stage, &["w"]).await;
    (first, stage.submit(needing(80)).await)
}

pub async fn more_service_gives_way_to_less(stage: &Stage) {
    // Four hours of a core are the first service; one that asks for none counts as one core.
    let (first, second) = one_has_had_much(stage, Span::from_secs(4 * 3600)).await;
    assert_eq!(stage.look().await.stopped.level, 1);
    let why = stage.store_reason(first.id).await;
    assert!(why.contains(&format!("makes room for {}, which has run for less time", second.id)), "{why}");
    let_go(stage, &stopping(stage).await).await;
    let second = stage.claim_by("w").await.unwrap();
    // As soon as they have had equally much, and later, when the other one has had more: what was stopped for
    // it does not stop it in turn.
    for hours in [4, 40] {
        stage.advance(Span::from_secs(hours * 3600));
        alive(stage, &["w"]).await;
        assert_eq!(stage.look().await.stopped.all(), 0, "after {hours} hours");
    }
    stage.report(&second, ReportKind::Done).await.unwrap();
    assert_eq!(stage.claim_by("w").await.unwrap().id, first.id);
}

pub async fn equal_service_stops_nobody(stage: &Stage) {
    one_has_had_much(stage, Span::from_secs(4 * 3600 - 10)).await;
    assert_eq!(stage.look().await.stopped.all(), 0);
}

pub async fn stops_that_priority_does_not_demand_have_a_budget(stage: &Stage) {
    all_is_lent(stage, 80).await;
    stage.submit(queued("a", 20)).await;
    // Nothing is left after one that cost more than a day's worth.
    let now = stage.now();
    let (mut spent, only) = (Allowances::default(), PoolAt::default());
    spent.of_mut(only).fill(8, 40, now);
    spent.of_mut(only).spend(u64::MAX);
    let summary = stage.look_with(spent).await;
    assert_eq!((summary.stopped.all(), summary.allowances.of(only).left()), (0, 0));
    let urgent = stage.submit(JobSpec { priority: 1, ..needing(10) }).await;
    assert_eq!(stage.look_with(summary.allowances.clone()).await.stopped.priority, 1, "priority needs none");
    stage.cancel(urgent.id).await.unwrap();
    let mut later = summary.allowances;
    later.of_mut(only).fill(8, 40, now + Span::from_secs(3600));
    let summary = stage.look_with(later.clone()).await;
    assert_eq!(summary.stopped.quota, 1, "beside the one that stops already");
    assert!(summary.allowances.of(only).left() < later.of(only).left());
}

/// A worker that carries a tag, beside `x`, which does not.
async fn tagged(stage: &Stage, name: &str) {
    let plain = stage.register(name, memory(100), None).await;
    stage.register_worker(Worker { tags: BTreeSet::from(["t".to_owned()]), ..plain }).await;
}

/// Two jobs of 20 fill the quota of queue `a` on `x`; `w` is idle, and carries a tag.
async fn full_queue(stage: &Stage) -> [Job; 2] {
    set(stage, owning("a", 40)).await;
    stage.register("x", memory(100), None).await;
    tagged(stage, "w").await;
    let first = running(stage, "x", queued("a", 20)).await;
    stage.advance(A_WHILE);
    let second = running(stage, "x", queued("a", 20)).await;
    stage.advance(A_WHILE);
    alive(stage, &["x", "w"]).await;
    [first, second]
}

pub async fn an_urgent_job_stops_less_urgent_work_of_its_full_queue(stage: &Stage) {
    let [first, second] = full_queue(stage).await;
    let spec = JobSpec { tags: BTreeSet::from(["t".to_owned()]), ..queued("a", 20) };
    let equal = stage.submit(spec.clone()).await;
    assert_eq!(stage.look().await.stopped.all(), 0, "it is no more important");
    stage.cancel(equal.id).await.unwrap();
    let urgent = stage.submit(JobSpec { priority: 5, ..spec }).await;
    assert_eq!(stage.look().await.stopped.priority, 1, "one is enough");
    assert_eq!(stage.look().await.stopped.all(), 0, "the quota is on its way");
    assert_eq!(stage.status(first.id).await, Status::Running);
    assert_eq!(stage.status(second.id).await, Status::Preempting, "the one that loses least");
    stage.report(&second, ReportKind::Preempted).await.unwrap();
    // The one that stopped would fit where it was, but the quota is not for it; nor for others of its kind.
    let other = stage.submit(queued("a", 20)).await;
    for _ in 0..2 {
        assert!(stage.claim_by("x").await.is_none());
        assert_eq!(stage.look().await.stopped.all(), 0);
    }
    let runs = stage.claim_by("w").await.unwrap();
    assert_eq!(runs.id, urgent.id);
    assert_eq!(stage.look().await.stopped.all(), 0);
    assert!(stage.claim_by("x").await.is_none(), "the queue is full");
    stage.report(&runs, ReportKind::Done).await.unwrap();
    stage.look().await;
    assert_eq!(stage.claim_by("x").await.unwrap().id, second.id);
    assert_eq!(stage.status(other.id).await, Status::Pending);
}

pub async fn an_urgent_gang_stops_as_many_of_its_full_queue_as_it_needs(stage: &Stage) {
    full_queue(stage).await;
    let third = stage.submit(queued("a", 20)).await;
    let spec = JobSpec { priority: 5, tags: BTreeSet::from(["t".to_owned()]), ..queued("a", 20) };
    let pair = GangMembership { per_worker: 2, ..membership(2) };
    let gang = stage.submit_gang(spec, pair).await;
    assert_eq!(stage.look().await.stopped.priority, 2);
    for job in stage.all().await.into_iter().filter(|job| job.status() == Status::Preempting) {
        stage.report(&job, ReportKind::Preempted).await.unwrap();
        assert!(stage.claim_by("x").await.is_none());
    }
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(stage.claim_gang(gang).await.len(), 2);
    stage.look().await;
    assert!(stage.claim_by("x").await.is_none(), "the queue is full");
    assert_eq!(stage.status(third.id).await, Status::Pending);
}

pub async fn what_is_given_up_in_vain_is_free_again(stage: &Stage) {
    let [_, second] = full_queue(stage).await;
    let spec = JobSpec { priority: 5, tags: BTreeSet::from(["t".to_owned()]), ..queued("a", 20) };
    let urgent = stage.submit(spec).await;
    stage.look().await;
    stage.report(&second, ReportKind::Preempted).await.unwrap();
    assert!(stage.claim_by("x").await.is_none());
    stage.cancel(urgent.id).await.unwrap();
    stage.look().await;
    assert_eq!(stage.claim_by("x").await.unwrap().id, second.id);
}
