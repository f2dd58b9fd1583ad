//! Dependency rules, and what becomes of jobs whose rules cannot be met.

use muster_domain::{
    EndReason, Ended, IfUnmet, Job, JobId, JobSpec, Phase, Reason, ReportKind, Rule, Status,
};

use super::stage::Stage;
use crate::command::{Command, NewJob};

async fn under(stage: &Stage, parents: &[JobId], rule: Rule, if_unmet: Option<IfUnmet>) -> Job {
    let job = NewJob {
        depends_on: parents.iter().map(ToString::to_string).collect(),
        rules: vec![rule; parents.len()],
        ..stage.new_job(JobSpec { if_unmet, ..JobSpec::shell("child") })
    };
    stage.try_submit(vec![job], true).await.unwrap().pop().unwrap().unwrap().job
}

/// Submits jobs that fail at their first failure.
async fn parents(stage: &Stage, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(stage.submit(JobSpec { max_attempts: 1, ..JobSpec::shell("parent") }).await.id);
    }
    ids
}

async fn end(stage: &Stage, id: JobId, ended: Ended) {
    match ended {
        Ended::Done | Ended::Failed => {
            let job = stage.claim().await.unwrap();
            assert_eq!(job.id, id, "parents are claimed in their order");
            let kind = if ended == Ended::Done { ReportKind::Done } else { ReportKind::Failed };
            stage.report(&job, kind).await.unwrap();
        }
        Ended::Cancelled | Ended::Skipped => {
            stage.cancel(id).await.unwrap();
        }
    }
}

/// Every rule with every pair of ends, against the rule in plain words.
pub async fn every_rule_with_every_pair_of_ends(stage: &Stage) {
    let ends = [Ended::Done, Ended::Failed, Ended::Cancelled];
    for rule in Rule::ALL {
        for (first, second) in ends.iter().flat_map(|first| ends.map(|second| (*first, second))) {
            let ids = parents(stage, 2).await;
            let child = under(stage, &ids, rule, None).await;
            if rule == Rule::Always {
                assert_eq!(child.status(), Status::Pending);
                stage.cancel(child.id).await.unwrap();
            }
            end(stage, ids[0], first).await;
            // A rule may be satisfied early; the child must not get in the way of the second parent.
            let early = stage.status(child.id).await == Status::Pending;
            if early {
                stage.cancel(child.id).await.unwrap();
            }
            end(stage, ids[1], second).await;
            let count = |wanted| [first, second].into_iter().filter(|end| *end == wanted).count();
            let wanted = match rule {
                Rule::AllSuccess => count(Ended::Done) == 2,
                Rule::AllDone => true,
                Rule::AllFailed => count(Ended::Failed) == 2,
                Rule::OneFailed => count(Ended::Failed) >= 1,
                Rule::OneSuccess => count(Ended::Done) >= 1,
                Rule::NoneFailed => count(Ended::Failed) == 0,
                Rule::Always => continue,
            };
            let ready = early || stage.status(child.id).await == Status::Pending;
            assert_eq!(ready, wanted, "{rule:?} {first:?} {second:?}");
            if ready && !early {
                stage.cancel(child.id).await.unwrap();
            }
        }
    }
}

pub async fn rules_of_one_job_are_judged_by_group(stage: &Stage) {
    let ids = parents(stage, 2).await;
    let job = NewJob {
        depends_on: ids.iter().map(ToString::to_string).collect(),
        rules: vec![Rule::AllSuccess, Rule::AllDone],
        ..stage.new_job(JobSpec::shell("child"))
    };
    let child = stage.try_submit(vec![job], true).await.unwrap().pop().unwrap().unwrap().job;
    assert_eq!(stage.get(child.id).await.spec.rules, [Rule::AllSuccess, Rule::AllDone]);
    end(stage, ids[0], Ended::Done).await;
    assert_eq!(stage.status(child.id).await, Status::Blocked);
    end(stage, ids[1], Ended::Failed).await;
    assert_eq!(stage.status(child.id).await, Status::Pending);
}

pub async fn what_is_not_wanted_is_skipped(stage: &Stage) {
    let ids = parents(stage, 1).await;
    let alert = under(stage, &ids, Rule::OneFailed, None).await;
    let after_alert = stage.after(&[alert.id]).await;
    let whatever = under(stage, &[alert.id], Rule::NoneFailed, None).await;
    end(stage, ids[0], Ended::Done).await;
    let alert = stage.get(alert.id).await;
    assert!(matches!(alert.phase, Phase::Cancelled { reason: EndReason::Skipped { .. }, .. }), "{alert:?}");
    assert_eq!(alert.ended(), Some(Ended::Skipped));
    assert_eq!(stage.get(after_alert.id).await.ended(), Some(Ended::Skipped), "skipping is passed on");
    assert_eq!(stage.status(whatever.id).await, Status::Pending, "nothing failed");
}

pub async fn if_unmet_decides(stage: &Stage) {
    for (policy, expected) in [
        (Some(IfUnmet::Fail), Status::Failed),
        (Some(IfUnmet::Cancel), Status::Cancelled),
        (None, Status::Failed),
    ] {
        let ids = parents(stage, 1).await;
        let child = under(stage, &ids, Rule::AllSuccess, policy).await;
        end(stage, ids[0], Ended::Failed).await;
        assert_eq!(stage.status(child.id).await, expected, "{policy:?}");
    }
    let ids = parents(stage, 2).await;
    let child = under(stage, &ids, Rule::AllSuccess, Some(IfUnmet::Run)).await;
    end(stage, ids[0], Ended::Failed).await;
    assert_eq!(stage.status(child.id).await, Status::Blocked, "the others are waited for");
    end(stage, ids[1], Ended::Done).await;
    assert_eq!(stage.status(child.id).await, Status::Pending);
}

pub async fn dependencies_that_ended_before_count(stage: &Stage) {
    let ids = parents(stage, 1).await;
    end(stage, ids[0], Ended::Failed).await;
    assert_eq!(under(stage, &ids, Rule::OneFailed, None).await.status(), Status::Pending);
    assert_eq!(under(stage, &ids, Rule::AllDone, None).await.status(), Status::Pending);
    assert_eq!(under(stage, &ids, Rule::AllSuccess, None).await.status(), Status::Failed);
    assert_eq!(under(stage, &ids, Rule::AllSuccess, Some(IfUnmet::Run)).await.status(), Status::Pending);
    let done = {
        let ids = parents(stage, 1).await;
        let held: Vec<JobId> = stage
            .all()
            .await
            .iter()
            .filter(|j| j.status() == Status::Pending && j.id != ids[0])
            .map(|j| j.id)
            .collect();
        for id in held {
            stage.cancel(id).await.unwrap();
        }
        end(stage, ids[0], Ended::Done).await;
        ids
    };
    let skipped = under(stage, &done, Rule::OneFailed, None).await;
    assert_eq!(skipped.ended(), Some(Ended::Skipped));
}

pub async fn a_retried_dependency_is_counted_anew(stage: &Stage) {
    let ids = parents(stage, 2).await;
    let waiting = under(stage, &ids, Rule::AllDone, None).await;
    let ended = under(stage, &ids, Rule::AllSuccess, None).await;
    end(stage, ids[0], Ended::Failed).await;
    assert_eq!(stage.status(ended.id).await, Status::Failed);
    stage.control(Command::Retry { job: ids[0] }).await.unwrap();
    assert_eq!(stage.status(ended.id).await, Status::Blocked);
    for id in &ids {
        end(stage, *id, Ended::Done).await;
    }
    assert_eq!(stage.status(waiting.id).await, Status::Pending);
    assert_eq!(stage.status(ended.id).await, Status::Pending);
}

pub async fn why_names_only_what_is_waited_for(stage: &Stage) {
    let ids = parents(stage, 2).await;
    let child = under(stage, &ids, Rule::AllDone, None).await;
    end(stage, ids[0], Ended::Failed).await;
    let reasons = stage.reasons(child.id).await;
    assert_eq!(reasons, [Reason::Dependency { job: ids[1], status: Status::Pending }]);
}
