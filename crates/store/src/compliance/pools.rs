//! Pools of workers that each have a policy: every scenario of this topic has the pools of [`policies`].

use std::collections::BTreeSet;

use muster_domain::{JobId, JobSpec, PoolAt, ReportKind, Resources, Span, Status, Worker, WorkerId};
use muster_planner::policy::{Policies, Policy, PolicyName, Pool};

use super::Stage;
use super::band::membership;
use super::outlook::{A_WHILE, alive, running};
use super::quotas::{owning, queued, set};
use super::stage::{memory, needing};

/// In one pool nobody passes and nobody is stopped; in the other all is as usual, but levels are short and those who
/// have had more stop. Then all others.
pub fn policies() -> Policies {
    let fair = Policy { first_service: Span::from_secs(3600), preempt_by_level: true, ..Policy::default() };
    let pool = |name: &str, policy| Pool { name: name.to_owned(), tags: tags(name), policy };
    let pools = vec![pool("strict", Policy::named(PolicyName::Fifo)), pool("fair", fair)];
    Policies::new(Policy::default(), pools).unwrap_or_default()
}

const STRICT: &str = "strict";
const FAIR: &str = "fair";

/// One tag, or none.
fn tags(name: &str) -> BTreeSet<String> {
    Some(name.to_owned()).filter(|name| !name.is_empty()).into_iter().collect()
}

fn of(pool: &str, spec: JobSpec) -> JobSpec {
    JobSpec { tags: tags(pool), ..spec }
}

fn limited(memory_mb: u64, seconds: u32) -> JobSpec {
    JobSpec { timeout: Some(Span::from_secs(seconds)), ..needing(memory_mb) }
}

fn urgent(spec: JobSpec) -> JobSpec {
    JobSpec { priority: 9, ..spec }
}

async fn worker(stage: &Stage, name: &str, pool: &str, resources: Resources, slots: Option<u32>) {
    let plain = stage.register(name, resources, slots).await;
    stage.register_worker(Worker { tags: tags(pool), ..plain }).await;
}

pub async fn each_pool_has_the_order_of_its_policy(stage: &Stage) {
    for pool in [STRICT, FAIR, ""] {
        worker(stage, &format!("w-{pool}"), pool, Resources::default(), Some(3)).await;
    }
    let mut jobs: Vec<(&str, [JobId; 3])> = Vec::new();
    for pool in [STRICT, FAIR, ""] {
        let mut ids = Vec::new();
        for priority in [0, 5, 1] {
            ids.push(stage.submit(of(pool, JobSpec { priority, ..JobSpec::shell("x") })).await.id);
        }
        jobs.push((pool, ids.try_into().unwrap()));
    }
    assert_eq!(stage.why_codes(jobs[0].1[1]).await, ["nobody_asks", "ahead", "pool"]);
    let why = stage.reasons(jobs[0].1[1]).await.last().map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("pool strict") && why.contains("fifo"), "{why}");
    assert_eq!(
        stage.why_codes(jobs[1].1[1]).await,
        ["nobody_asks", "pool"],
        "others of its own pool go behind"
    );
    for (pool, [first, second, third]) in jobs {
        let expected = if pool == STRICT { [first, second, third] } else { [second, third, first] };
        for id in expected {
            assert_eq!(stage.claim_by(&format!("w-{pool}")).await.unwrap().id, id, "{pool:?}");
        }
    }
}

pub async fn what_holds_up_its_pool_holds_up_no_other(stage: &Stage) {
    for (name, pool) in [("s1", STRICT), ("s2", STRICT), ("f1", FAIR), ("f2", FAIR), ("u", "")] {
        worker(stage, name, pool, memory(100), None).await;
    }
    for (name, pool) in [("s1", STRICT), ("f1", FAIR)] {
        running(stage, name, of(pool, limited(60, 100))).await;
        stage.submit_gang(of(pool, needing(100)), membership(2)).await;
    }
    assert_eq!(stage.look().await.keeping, 4, "each pool keeps room for its own");
    // Where nobody passes not even the short one starts, be it of the pool or a guest.
    let strict = stage.submit(of(STRICT, limited(10, 50))).await;
    let guest = stage.submit(limited(10, 50)).await;
    assert!(stage.claim_by("s2").await.is_none());
    assert_eq!(stage.claim_by("u").await.unwrap().id, guest.id);
    let fair = stage.submit(of(FAIR, limited(10, 50))).await;
    let long = stage.submit(of(FAIR, limited(10, 500))).await;
    assert_eq!(stage.claim_by("f2").await.unwrap().id, fair.id);
    assert!(stage.claim_by("f2").await.is_none(), "it would delay the gang");
    assert_eq!(stage.why_codes(strict.id).await, ["kept", "ahead", "pool"]);
    assert_eq!(stage.why_codes(long.id).await, ["kept", "ahead", "pool"]);
}

pub async fn guests_go_behind_the_jobs_of_a_pool(stage: &Stage) {
    worker(stage, "s", STRICT, Resources::default(), Some(2)).await;
    worker(stage, "f", FAIR, Resources::default(), Some(2)).await;
    for (name, pool) in [("s", STRICT), ("f", FAIR)] {
        let guest = stage.submit(urgent(JobSpec::shell("guest"))).await;
        let own = stage.submit(of(pool, JobSpec::shell("own"))).await;
        assert_eq!(stage.claim_by(name).await.unwrap().id, own.id, "{pool}");
        assert_eq!(stage.claim_by(name).await.unwrap().id, guest.id, "{pool}");
    }
}

pub async fn nobody_of_a_pool_is_stopped_for_a_guest(stage: &Stage) {
    worker(stage, "s", STRICT, memory(100), None).await;
    worker(stage, "f", FAIR, memory(100), None).await;
    let in_strict = running(stage, "s", of(STRICT, needing(80))).await;
    let own = running(stage, "f", of(FAIR, needing(80))).await;
    stage.advance(A_WHILE);
    alive(stage, &["s", "f"]).await;
    let guest = stage.submit(urgent(needing(50))).await;
    let second = stage.submit(urgent(of(STRICT, needing(50)))).await;
    assert_eq!(stage.look().await.stopped.all(), 0);
    stage.cancel(second.id).await.unwrap();
    stage.report(&own, ReportKind::Done).await.unwrap();
    stage.look().await;
    let guest_runs = stage.claim_by("f").await.unwrap();
    assert_eq!(guest_runs.id, guest.id);
    stage.advance(A_WHILE);
    alive(stage, &["s", "f"]).await;
    stage.submit(of(FAIR, JobSpec { priority: 9, ..needing(80) })).await;
    assert_eq!(stage.look().await.stopped.all(), 0, "it is no more important");
    stage.submit(of(FAIR, JobSpec { priority: 10, ..needing(80) })).await;
    assert_eq!(stage.look().await.stopped.priority, 1);
    assert_eq!(stage.status(guest.id).await, Status::Preempting);
    assert_eq!(stage.status(in_strict.id).await, Status::Running);
}

pub async fn levels_and_their_stops_are_those_of_the_pool(stage: &Stage) {
    worker(stage, "f", FAIR, Resources::default(), Some(1)).await;
    worker(stage, "u", "", Resources::default(), Some(1)).await;
    let (own, other) = (
        running(stage, "f", of(FAIR, JobSpec::shell("x"))).await,
        running(stage, "u", JobSpec::shell("x")).await,
    );
    stage.advance(Span::from_secs(2 * 3600));
    alive(stage, &["f", "u"]).await;
    let guest = stage.submit(JobSpec::shell("guest")).await;
    assert_eq!(
        stage.look().await.stopped.all(),
        0,
        "levels of pools are not compared, and the usual ones are longer"
    );
    let fresh = stage.submit(of(FAIR, JobSpec::shell("fresh"))).await;
    let summary = stage.look().await;
    assert_eq!(summary.stopped.level, 1);
    let (fair, usual) = (summary.allowances.of(PoolAt(1)), summary.allowances.of(PoolAt(2)));
    assert!(fair.at_once() < u64::MAX && usual.at_once() == u64::MAX, "paid from the budget of its pool");
    assert_eq!(stage.status(own.id).await, Status::Preempting);
    assert_eq!(stage.status(other.id).await, Status::Running);
    stage.report(&own, ReportKind::Preempted).await.unwrap();
    stage.look().await;
    for expected in [fresh.id, own.id, guest.id] {
        let job = stage.claim_by("f").await.unwrap();
        assert_eq!(job.id, expected);
        stage.report(&job, ReportKind::Done).await.unwrap();
        stage.look().await;
    }
}

pub async fn what_a_pool_has_pinned_is_measured_by_its_workers(stage: &Stage) {
    let mut old = Vec::new();
    for (name, pool, slots) in [("s", STRICT, 20), ("f", FAIR, 20), ("u", "", 30)] {
        worker(stage, name, pool, Resources::default(), Some(slots)).await;
        for priority in 0..9 {
            old.push((pool, stage.submit(of(pool, JobSpec { priority, ..JobSpec::shell("old") })).await.id));
        }
    }
    stage.advance(Span::from_secs(25 * 3600));
    alive(stage, &["s", "f", "u"]).await;
    stage.look().await;
    stage.look().await;
    let mut pinned = Vec::new();
    for (pool, id) in old {
        if stage.get(id).await.pinned {
            pinned.push(pool);
        }
    }
    // A tenth of 20 in the one; where nobody is fair, nobody is pinned; the others may use all 70.
    assert_eq!(pinned, [FAIR, FAIR, "", "", "", "", "", "", ""]);
}

pub async fn an_owner_takes_back_from_another_pool_what_it_lent(stage: &Stage) {
    set(stage, owning("a", 40)).await;
    set(stage, owning("b", 40)).await;
    worker(stage, "f", FAIR, memory(100), None).await;
    let lent = running(stage, "f", of(FAIR, queued("b", 80))).await;
    stage.advance(A_WHILE);
    alive(stage, &["f"]).await;
    let owner = stage.submit(queued("a", 40)).await;
    assert_eq!(stage.look().await.stopped.quota, 1, "who owns comes before the order of pools");
    assert_eq!(stage.status(lent.id).await, Status::Preempting);
    stage.report(&lent, ReportKind::Preempted).await.unwrap();
    stage.look().await;
    assert_eq!(stage.claim_by("f").await.unwrap().id, owner.id);
    assert_eq!(stage.get(lent.id).await.worker(), None::<&WorkerId>);
}
