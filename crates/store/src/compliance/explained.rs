//! What is said about work that waits: classes of workers, the line, estimates, and changes that would help.

use muster_domain::{
    Device, JobSpec, Overview, QueueName, Reason, Resources, Span, Status, SuggestedChange as Change, Unit,
};

use super::band::membership;
use super::health::black_hole;
use super::quotas::{amount, owning};
use super::stage::{Stage, memory, needing};
use crate::command::{Command, QueueSettings, TermsChange};
use crate::store::StoreExt as _;

fn devices(count: u32) -> Vec<Device> {
    (0..count).map(|index| Device { index, vram_mb: 80_000, ..Device::default() }).collect()
}

fn gpus(gpus: u64) -> JobSpec {
    let resources = Resources { gpus, ..Resources::default() };
    JobSpec { resources: Some(resources), ..JobSpec::shell("train") }
}

fn queued(queue: &str, memory_mb: u64) -> JobSpec {
    JobSpec { queue: Some(QueueName::new(queue)), ..needing(memory_mb) }
}

async fn set(stage: &Stage, settings: QueueSettings) {
    stage.one(Command::PutQueue(settings)).await.unwrap();
}

pub async fn classes_say_who_holds_which_workers_and_until_when(stage: &Stage) {
    for name in ["a", "b"] {
        stage.register_with_gpus(name, devices(8), &[]).await;
    }
    stage.register_with_gpus("c", devices(4), &[]).await;
    let owner = JobSpec { user: Some("ann".to_owned()), timeout: Some(Span::from_secs(600)), ..gpus(8) };
    let gang = stage.submit_gang(owner, membership(2)).await;
    stage.start_gang(gang).await;
    let ends = stage.now() + Span::from_secs(600);
    stage.advance(Span::from_secs(60));
    let waiting = stage.submit(gpus(8)).await;
    let why = stage.why(waiting.id).await;
    let large = &why.classes[0];
    assert_eq!((large.workers, large.busy, large.has.gpus), (2, 2, 8), "{why:?}");
    assert_eq!(large.free_at, Some(ends));
    let holder = &large.holders[0];
    assert_eq!((holder.unit, holder.workers, holder.ends), (Unit::Gang(gang), 2, Some(ends)));
    assert_eq!(holder.user.as_deref(), Some("ann"));
    let small = why.classes.iter().find(|class| class.has.gpus == 4).unwrap();
    assert_eq!((small.workers, small.lacks[0].needed, small.lacks[0].available), (1, 8, 4));
    assert_eq!(why.start.map(|start| (start.at, start.kept)), Some((ends, false)));
    let less = why.suggestions.iter().find_map(|one| match &one.change {
        Change::Less { to, .. } => Some((*to, one.workers[0].as_str())),
        _ => None,
    });
    assert_eq!(less, Some((4, "c")));
    stage.submit(gpus(4)).await;
    assert!(stage.claim_by("c").await.is_some(), "what is suggested works");
}

pub async fn a_change_that_is_suggested_lets_the_job_start(stage: &Stage) {
    stage.register("w", memory(1000), None).await;
    set(stage, owning("a", 20)).await;
    set(stage, owning("b", 0)).await;
    let first = stage.submit(queued("a", 20)).await;
    assert_eq!(stage.claim_by("w").await.unwrap().id, first.id);
    let second = stage.submit(queued("a", 15)).await;
    assert_eq!(stage.why_codes(second.id).await, ["quota"], "nobody need ask for it");
    let why = stage.why(second.id).await;
    let Change::MoreQuota { queue, borrow: false, amounts } = &why.suggestions[0].change else {
        panic!("{why:?}");
    };
    assert_eq!((queue.as_str(), amounts[0].1, amounts[0].2), ("a", 20, 35));
    let terms = TermsChange { nominal: amount(34), ..TermsChange::default() };
    set(stage, QueueSettings { terms, ..QueueSettings::new(QueueName::new("a")) }).await;
    assert!(stage.claim_by("w").await.is_none(), "one less is too little");
    let terms = TermsChange { nominal: amount(35), ..TermsChange::default() };
    set(stage, QueueSettings { terms, ..QueueSettings::new(QueueName::new("a")) }).await;
    assert_eq!(stage.claim_by("w").await.unwrap().id, second.id);
    set(stage, QueueSettings { paused: Some(true), ..QueueSettings::new(QueueName::new("b")) }).await;
    let paused = stage.submit(queued("b", 0)).await;
    assert_eq!(stage.why_codes(paused.id).await, ["queue_paused"]);
    assert_eq!(stage.why(paused.id).await.suggestions[0].change.code(), "resume_queue");
    set(stage, QueueSettings { paused: Some(false), ..QueueSettings::new(QueueName::new("b")) }).await;
    assert_eq!(stage.claim_by("w").await.unwrap().id, paused.id);
}

pub async fn a_time_limit_that_passes_kept_room_is_suggested(stage: &Stage) {
    stage.register("a", memory(100), None).await;
    stage.register("b", memory(100), None).await;
    let first = JobSpec { timeout: Some(Span::from_secs(1_800)), ..needing(60) };
    stage.submit(first).await;
    stage.claim_by("a").await.unwrap();
    let gang = stage.submit_gang(needing(100), membership(2)).await;
    assert_eq!(stage.look().await.keeping, 2);
    let long = stage.submit(needing(10)).await;
    let why = stage.why(long.id).await;
    let limit = why.suggestions.iter().find_map(|one| match &one.change {
        Change::TimeLimit { limit, unit, .. } => Some((*limit, *unit)),
        _ => None,
    });
    assert_eq!(limit, Some((Span::from_secs(1_800), Unit::Gang(gang))), "{why:?}");
    let short = stage.submit(JobSpec { timeout: Some(Span::from_secs(1_800)), ..needing(10) }).await;
    assert_eq!(stage.claim_by("b").await.unwrap().id, short.id);
    assert_eq!(stage.status(long.id).await, Status::Pending);
}

pub async fn who_goes_first_is_counted_in_its_queue_where_queues_take_turns(stage: &Stage) {
    let ahead = |reasons: Vec<Reason>| {
        reasons.into_iter().find_map(|reason| match reason {
            Reason::Ahead { jobs, gangs, queue } => Some((jobs, gangs, queue)),
            _ => None,
        })
    };
    for _ in 0..3 {
        stage.submit(needing(1)).await;
    }
    stage.submit_gang(needing(1), membership(2)).await;
    let plain = stage.submit(needing(2)).await;
    assert_eq!(ahead(stage.reasons(plain.id).await), Some((3, 1, None)));
    set(stage, owning("a", 40)).await;
    set(stage, owning("b", 40)).await;
    stage.submit(queued("b", 1)).await;
    for _ in 0..2 {
        stage.submit(queued("a", 1)).await;
    }
    stage.submit_gang(queued("a", 1), membership(2)).await;
    stage.submit_gang(queued("b", 1), membership(2)).await;
    let last = stage.submit(queued("a", 2)).await;
    assert_eq!(ahead(stage.reasons(last.id).await), Some((2, 1, Some(QueueName::new("a")))));
    let urgent = stage.submit(JobSpec { priority: 5, ..queued("a", 2) }).await;
    assert_eq!(ahead(stage.reasons(urgent.id).await), None);
}

pub async fn a_worker_in_quarantine_is_named_only_where_it_could_help(stage: &Stage) {
    black_hole(stage).await;
    // Its health outlives a registration.
    stage.register("bad", memory(100), None).await;
    let waiting = stage.submit(needing(50)).await;
    assert_eq!(stage.why_codes(waiting.id).await[0], "quarantine");
    let why = stage.why(waiting.id).await;
    assert_eq!(why.suggestions[0].change.code(), "release_worker", "{why:?}");
    let large = stage.submit(needing(500)).await;
    assert_eq!(stage.why_codes(large.id).await[0], "impossible");
}

pub async fn the_whole_cluster_says_what_waits_for_what_and_what_is_idle(stage: &Stage) {
    let overview = async || stage.store.overview(stage.now()).await.unwrap();
    for (name, count) in [("a", 8), ("b", 8), ("c", 4)] {
        stage.register_with_gpus(name, devices(count), &[]).await;
    }
    let codes = |found: &Overview| -> Vec<(&str, u32, u64)> {
        let idle = found.idle.iter().filter(|room| room.free.gpus > 0);
        idle.map(|room| (room.why.code(), room.workers, room.free.gpus)).collect()
    };
    assert_eq!(codes(&overview().await), [("nobody_waits", 3, 20)]);
    stage.submit(JobSpec { timeout: Some(Span::from_secs(600)), ..gpus(6) }).await;
    stage.claim_by("a").await.unwrap();
    let gang = stage.submit_gang(gpus(8), membership(2)).await;
    assert_eq!(stage.look().await.keeping, 2);
    for _ in 0..50 {
        stage.submit(gpus(4)).await;
    }
    let held = stage.submit(gpus(4)).await;
    stage.control(Command::Hold { job: held.id, message: None }).await.unwrap();
    stage.after(&[held.id]).await;
    let found = overview().await;
    assert_eq!(codes(&found), [("kept", 2, 10), ("not_asked", 1, 4)], "{found:?}");
    let counts: Vec<(&str, u64, u64)> =
        found.waiting.iter().map(|cause| (cause.code, cause.jobs, cause.gangs)).collect();
    assert_eq!(counts, [("nobody_asks", 50, 0), ("gang_room", 0, 1), ("held", 1, 0), ("dependency", 1, 0)]);
    assert_eq!(found.line.len(), 2, "those of one kind are one line");
    assert_eq!(
        (found.line[0].unit, found.line[0].start.map(|start| start.kept)),
        (Unit::Gang(gang), Some(true))
    );
    assert_eq!((found.kept[0].unit, found.kept[0].workers), (Unit::Gang(gang), 2));
    assert_eq!(stage.claim_as(Some("c"), 9).await.len(), 1);
    let found = overview().await;
    assert_eq!((found.total.gpus, found.free.gpus, found.stranded.gpus), (20, 10, 2));
    assert_eq!(found.pools.iter().map(|pool| pool.workers).sum::<u32>(), 4, "with the model of the others");
}
