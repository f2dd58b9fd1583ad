//! Dependencies: released exactly once, ended with their ancestors, never forgotten.

use muster_domain::{EndReason, Phase, Rejection, ReportKind, Status};

use super::stage::Stage;

pub async fn no_dependencies_is_pending(stage: &Stage) {
    assert_eq!(stage.shell("x").await.status(), Status::Pending);
}

pub async fn dependencies_start_blocked_and_round_trip(stage: &Stage) {
    let (a, b) = (stage.shell("a").await, stage.shell("b").await);
    let child = stage.after(&[a.id, b.id]).await;
    assert_eq!(child.status(), Status::Blocked);
    assert_eq!(stage.get(child.id).await.spec.depends_on, [a.id, b.id]);
}

pub async fn claim_skips_blocked(stage: &Stage) {
    let parent = stage.shell("a").await;
    stage.after(&[parent.id]).await;
    assert_eq!(stage.claim().await.unwrap().id, parent.id);
    assert!(stage.claim().await.is_none());
}

pub async fn released_when_all_are_done(stage: &Stage) {
    stage.shell("a").await;
    stage.shell("b").await;
    let (a, b) = (stage.claim().await.unwrap(), stage.claim().await.unwrap());
    let child = stage.after(&[a.id, b.id, a.id]).await;
    stage.report(&a, ReportKind::Done).await.unwrap();
    assert_eq!(stage.status(child.id).await, Status::Blocked, "one of two is not enough");
    stage.report(&b, ReportKind::Done).await.unwrap();
    assert_eq!(stage.status(child.id).await, Status::Pending, "released by the report itself");
    assert_eq!(stage.claim().await.unwrap().id, child.id);
    assert_eq!(stage.event_names(child.id).await, ["submitted", "unblocked", "claimed"]);
}

pub async fn chain_releases_one_level_at_a_time(stage: &Stage) {
    let a = stage.shell("a").await;
    let b = stage.after(&[a.id]).await;
    let c = stage.after(&[b.id]).await;
    for expected in [a.id, b.id, c.id] {
        let job = stage.claim().await.unwrap();
        assert_eq!(job.id, expected);
        assert!(stage.claim().await.is_none(), "one level at a time");
        stage.report(&job, ReportKind::Done).await.unwrap();
    }
}

pub async fn diamond_releases_once(stage: &Stage) {
    let top = stage.shell("top").await;
    let (left, right) = (stage.after(&[top.id]).await, stage.after(&[top.id]).await);
    let bottom = stage.after(&[left.id, right.id]).await;
    let top = stage.claim().await.unwrap();
    stage.report(&top, ReportKind::Done).await.unwrap();
    for _ in 0..2 {
        let side = stage.claim().await.unwrap();
        stage.report(&side, ReportKind::Done).await.unwrap();
    }
    let unblocked = stage.event_names(bottom.id).await.iter().filter(|name| **name == "unblocked").count();
    assert_eq!(unblocked, 1);
    assert_eq!(stage.claim().await.unwrap().id, bottom.id);
}

pub async fn a_done_dependency_does_not_block(stage: &Stage) {
    let parent = stage.run_to_done().await;
    assert_eq!(stage.after(&[parent.id]).await.status(), Status::Pending);
}

pub async fn failure_ends_the_chain(stage: &Stage) {
    let a = stage.shell("a").await;
    let b = stage.after(&[a.id]).await;
    let c = stage.after(&[b.id]).await;
    stage.fail_for_good(a.id).await;
    for id in [b.id, c.id] {
        let job = stage.get(id).await;
        let reason = EndReason::DependencyFailed { ancestor: a.id };
        assert_eq!(
            job.phase,
            Phase::Failed { at: stage.now(), reason },
            "the ancestor is named, not the neighbour"
        );
        assert_eq!(job.attempts, 0);
    }
}

pub async fn cancel_ends_the_chain(stage: &Stage) {
    let a = stage.shell("a").await;
    let b = stage.after(&[a.id]).await;
    let c = stage.after(&[b.id]).await;
    let (cancelled, stopping) = stage.cancel(a.id).await.unwrap();
    assert_eq!((cancelled, stopping), (vec![a.id, b.id, c.id], vec![]));
    let reason = EndReason::DependencyCancelled { ancestor: a.id };
    assert_eq!(stage.get(c.id).await.phase, Phase::Cancelled { at: stage.now(), reason });
}

pub async fn a_failed_dependency_ends_a_new_job_at_once(stage: &Stage) {
    let parent = stage.shell("a").await;
    stage.fail_for_good(parent.id).await;
    let child = stage.after(&[parent.id]).await;
    assert_eq!(child.status(), Status::Failed);
    let grandchild = stage.after(&[child.id]).await;
    assert_eq!(grandchild.root_cause(), parent.id);
}

pub async fn one_failed_parent_is_enough(stage: &Stage) {
    let bad = stage.shell("bad").await;
    let bad_claim = stage.claim().await.unwrap();
    let good = stage.shell("good").await;
    let child = stage.after(&[bad.id, good.id]).await;
    stage.report(&bad_claim, ReportKind::Failed).await.unwrap();
    stage.cancel(bad.id).await.unwrap();
    assert_eq!(stage.status(child.id).await, Status::Cancelled);
    let good = stage.claim().await.unwrap();
    stage.report(&good, ReportKind::Done).await.unwrap();
    assert_eq!(stage.status(child.id).await, Status::Cancelled, "an ended job stays ended");
}

pub async fn unknown_dependency_is_refused(stage: &Stage) {
    let parent = stage.shell("a").await;
    let unknown = stage.new_id();
    let refused = stage.try_after(&[parent.id, unknown]).await.unwrap_err();
    assert_eq!(refused, Rejection::UnknownDependency { name: unknown.to_string() });
    assert_eq!(refused.to_string(), format!("dependency \"{unknown}\" does not exist"));
    assert_eq!(stage.all().await.len(), 1);
}
