//! Work that does not fit: room is kept for what goes first, and what is less important makes room.

use muster_domain::{EventKind, Job, JobSpec, ReportKind, Span, Status, Unit};

use super::Stage;
use super::band::membership;
use super::stage::{memory, needing};
use crate::store::StoreExt as _;

/// Long enough to be stopped for others.
pub const A_WHILE: Span = Span::from_secs(61);

fn limited(memory_mb: u64, seconds: u32) -> JobSpec {
    JobSpec { timeout: Some(Span::from_secs(seconds)), ..needing(memory_mb) }
}

pub async fn alive(stage: &Stage, workers: &[&str]) {
    for name in workers {
        let worker = muster_domain::WorkerId::new(*name);
        stage.one(crate::command::Command::WorkerHeartbeat { worker, ports: None }).await.unwrap();
    }
}

pub async fn small_jobs_do_not_starve_a_gang(stage: &Stage) {
    for name in ["a", "b"] {
        stage.register(name, memory(100), None).await;
    }
    stage.submit(limited(60, 100)).await;
    let first = stage.claim_by("a").await.unwrap();
    let gang = stage.submit_gang(needing(100), membership(2)).await;
    assert_eq!(stage.look().await.keeping, 2);
    // One that would still be there when the gang starts waits, and is told why; a short one passes.
    let long = stage.submit(limited(10, 300)).await;
    let endless = stage.submit(needing(10)).await;
    let short = stage.submit(limited(10, 50)).await;
    assert_eq!(stage.claim_by("b").await.unwrap().id, short.id);
    assert!(stage.claim_by("a").await.is_none() && stage.claim_by("b").await.is_none());
    assert_eq!(stage.why_codes(long.id).await, ["kept", "ahead"]);
    assert_eq!(stage.why_codes(stage.tasks(gang).await[0].id).await, ["gang_room", "foreseen"]);
    let more = stage.submit(JobSpec { priority: 1, ..needing(10) }).await;
    assert_eq!(stage.claim_by("b").await.unwrap().id, more.id, "what goes first is not kept out");
    for job in [first, stage.get(short.id).await, stage.get(more.id).await] {
        stage.report(&job, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.look().await.placed, 1);
    stage.claim_gang(gang).await;
    assert_eq!(stage.look().await.keeping, 0, "nobody is kept out any more");
    assert_eq!(stage.status(endless.id).await, Status::Pending);
}

pub async fn what_leaves_the_room_may_enter_until_it_is_used_up(stage: &Stage) {
    stage.register("a", memory(100), None).await;
    stage.submit(limited(60, 100)).await;
    stage.claim_by("a").await.unwrap();
    stage.submit_gang(needing(80), membership(1)).await;
    assert_eq!(stage.look().await.keeping, 1);
    // 100 less the 80 that are kept leaves 20 for those who stay.
    for _ in 0..3 {
        stage.submit(needing(10)).await;
    }
    assert!(stage.claim_by("a").await.is_some() && stage.claim_by("a").await.is_some());
    assert!(stage.claim_by("a").await.is_none(), "30 would leave too little");
}

pub async fn a_gang_uses_up_what_is_spare_beside_kept_room(stage: &Stage) {
    stage.register("a", memory(100), None).await;
    stage.submit(limited(60, 100)).await;
    stage.claim_by("a").await.unwrap();
    let first = stage.submit_gang(needing(80), membership(1)).await;
    assert_eq!(stage.look().await.keeping, 1);
    stage.submit_gang(needing(15), membership(1)).await;
    assert_eq!(stage.plan().await.placed, 1, "20 are spare");
    let kept = || async { stage.store.workers().await.unwrap()[0].worker.kept.clone() };
    assert_eq!(kept().await.map(|room| room.spare.memory_mb), Some(5));
    let later = stage.submit(needing(10)).await;
    stage.claim_as(Some("a"), 9).await;
    assert_eq!(stage.status(later.id).await, Status::Pending, "5 are left, although 25 are free");
    // The one that it is kept for needs it no more once it is placed.
    for job in stage.all().await.iter().filter(|job| job.status() == Status::Running) {
        stage.report(job, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.plan().await.placed, 1);
    assert_eq!(kept().await, None);
    stage.claim_gang(first).await;
    assert_eq!(stage.claim_by("a").await.unwrap().id, later.id);
}

pub async fn a_gang_without_foreseeable_start_is_passed_for_a_while(stage: &Stage) {
    stage.register("a", memory(100), None).await;
    let large = running(stage, "a", needing(60)).await;
    stage.submit_gang(needing(100), membership(1)).await;
    assert_eq!(stage.look().await.keeping, 0);
    let small = running(stage, "a", needing(10)).await;
    stage.advance(Span::from_secs(600));
    alive(stage, &["a"]).await;
    // What runs is as old as the gang: its worker would be idle for about as long again.
    assert_eq!(stage.look().await.keeping, 0);
    for old in [&large, &small] {
        running(stage, "a", needing(15)).await;
        stage.report(old, ReportKind::Done).await.unwrap();
    }
    assert_eq!(stage.look().await.keeping, 1);
    stage.submit(needing(10)).await;
    assert!(stage.claim_by("a").await.is_none());
}

/// A job that runs on a worker which asks for it.
pub async fn running(stage: &Stage, worker: &str, spec: JobSpec) -> Job {
    let id = stage.submit(spec).await.id;
    let job = stage.claim_by(worker).await.unwrap();
    assert_eq!(job.id, id);
    job
}

pub async fn a_single_makes_room_for_a_more_important_gang(stage: &Stage) {
    for name in ["a", "b", "c"] {
        stage.register(name, memory(100), None).await;
    }
    let low = running(stage, "a", needing(80)).await;
    let lower = running(stage, "b", JobSpec { priority: -1, ..needing(80) }).await;
    let equal = running(stage, "c", JobSpec { priority: 5, ..needing(80) }).await;
    stage.advance(A_WHILE);
    alive(stage, &["a", "b", "c"]).await;
    let urgent = JobSpec { priority: 5, ..needing(100) };
    let gang = stage.submit_gang(urgent, membership(2)).await;
    assert_eq!(stage.look().await.stopped.all(), 2);
    assert_eq!(stage.look().await.stopped.all(), 0, "the room is on its way");
    for job in [&low, &lower] {
        assert_eq!(stage.status(job.id).await, Status::Preempting);
        assert_eq!(stage.why_codes(job.id).await, ["stopping"]);
        let why = stage.store_reason(job.id).await;
        assert!(why.contains(&gang.to_string()) && why.contains("priority 5"), "{why}");
    }
    assert_eq!(stage.status(equal.id).await, Status::Running);
    let tasks = stage.tasks(gang).await;
    let made = stage.events_of(tasks[0].id).await.into_iter().find_map(|event| match event.kind {
        EventKind::RoomMade { by } => Some(by),
        _ => None,
    });
    assert_eq!(made, Some(vec![Unit::Job(lower.id), Unit::Job(low.id)]));
    // Nobody else gets the room, not even when it comes free.
    stage.submit(JobSpec { priority: 4, ..needing(10) }).await;
    for job in [&low, &lower] {
        stage.report(job, ReportKind::Preempted).await.unwrap();
    }
    assert!(stage.claim_by("a").await.is_none());
    assert_eq!(stage.look().await.placed, 1);
    stage.claim_gang(gang).await;
    for job in [low, lower] {
        let job = stage.get(job.id).await;
        assert_eq!((job.status(), job.attempts), (Status::Pending, 0), "it pays nothing");
    }
}

pub async fn a_gang_makes_room_for_a_more_important_single(stage: &Stage) {
    stage.crew(2).await;
    let gang = stage.gang(2).await;
    stage.start_gang(gang).await;
    let urgent = stage.submit(JobSpec { priority: 1, ..JobSpec::shell("urgent") }).await;
    assert_eq!(stage.look().await.stopped.all(), 0, "it has hardly begun");
    stage.advance(A_WHILE);
    stage.crew_alive(2).await;
    assert_eq!(stage.look().await.stopped.all(), 1);
    assert_eq!(stage.statuses(gang).await, [Status::Preempting; 2]);
    assert_eq!(stage.event_names(urgent.id).await, ["submitted", "room_made"]);
    stage.finish_drain(gang).await;
    assert_eq!(stage.statuses(gang).await, [Status::Blocked; 2]);
    for _ in 0..3 {
        assert_eq!(stage.look().await.placed, 0, "one worker is kept for the single until it starts");
    }
    let claimed = stage.claim_by("w0").await.or(stage.claim_by("w1").await).unwrap();
    assert_eq!(claimed.id, urgent.id);
    stage.report(&claimed, ReportKind::Done).await.unwrap();
    assert_eq!(stage.look().await.placed, 1);
    assert_eq!(stage.attempts(gang).await, [0; 2]);
}

pub async fn nobody_stops_when_it_would_not_help(stage: &Stage) {
    stage.register("a", memory(100), None).await;
    stage.register("b", memory(100), None).await;
    let low = running(stage, "a", needing(100)).await;
    let equal = running(stage, "b", JobSpec { priority: 5, ..needing(100) }).await;
    stage.advance(A_WHILE);
    alive(stage, &["a", "b"]).await;
    stage.submit_gang(JobSpec { priority: 5, ..needing(100) }, membership(2)).await;
    stage.submit(JobSpec { priority: 9, ..needing(101) }).await;
    assert_eq!(stage.look().await.stopped.all(), 0);
    for job in [low, equal] {
        assert_eq!(stage.status(job.id).await, Status::Running);
    }
}
