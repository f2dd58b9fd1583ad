//! Artifacts: taken in from whoever holds the lease of the attempt, within the bounds.
//!
//! Guarantee: what is listed was complete before; of what is refused nothing is kept.

use std::collections::HashMap;

use muster_domain::{Artifact, Job, Rejection, speaks_for};

use super::work::Work;
use super::{Answers, pick};
use crate::artifacts::{ArtifactFilter, ArtifactsOf, KeepArtifacts};
use crate::command::{Answer, Command, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let wanted = pick(commands, |command| match command {
        Command::KeepArtifacts(wanted) => Some(wanted),
        _ => None,
    });
    for (position, command) in wanted {
        let answer = keep(work, command).await?;
        answers.put(position, answer);
    }
    let expired = pick(commands, |command| match command {
        Command::ExpireArtifacts(wanted) => Some(wanted),
        _ => None,
    });
    for (position, wanted) in expired {
        let blobs = work.tx.expire_artifacts(*wanted, work.now).await?;
        answers.put(position, Ok(Outcome::ArtifactsExpired { blobs }));
    }
    Ok(())
}

async fn keep<T: Tx>(work: &mut Work<'_, T>, wanted: &KeepArtifacts) -> Result<Answer, StoreError> {
    let job = match work.job(wanted.job).and_then(|job| speaks_for(job, &wanted.caller).map(|()| job)) {
        Ok(job) => job.clone(),
        Err(rejection) => return Ok(Err(rejection)),
    };
    let before = earlier(work, &job, wanted).await?;
    let artifact = |(name, content): &(String, _)| Artifact {
        job: job.id,
        lease: job.lease,
        attempt: job.attempts,
        name: name.clone(),
        at: work.now,
        content: Clone::clone(content),
    };
    let artifacts: Vec<Artifact> = wanted.artifacts.iter().map(artifact).collect();
    let added = artifacts.iter().map(Artifact::size).sum::<u64>();
    let freed = before.values().map(Artifact::size).sum::<u64>();
    let kept = |one: &&Artifact| one.blob().is_some();
    let (kept_now, kept_before) =
        (artifacts.iter().filter(kept).count(), before.values().filter(kept).count());
    let (missing_now, missing_before) = (artifacts.len() - kept_now, before.len() - kept_before);
    let growth = Growth {
        files: kept_now.saturating_sub(kept_before) as u64,
        missing: missing_now.saturating_sub(missing_before) as u64,
        added,
        freed,
    };
    if let Some(rejection) = over_bounds(work, &job, wanted, growth).await? {
        return Ok(Err(rejection));
    }
    let (queue, user) = (queue_of(&job).to_owned(), user_of(&job).to_owned());
    work.tx.put_artifacts(&artifacts, &queue, &user).await?;
    let kept = |blob: &str| artifacts.iter().any(|artifact| artifact.blob() == Some(blob));
    let replaced = before.values().filter_map(Artifact::blob).filter(|blob| !kept(blob));
    Ok(Ok(Outcome::ArtifactsKept { replaced: replaced.map(str::to_owned).collect() }))
}

/// What is there under the same names.
async fn earlier<T: Tx>(
    work: &mut Work<'_, T>,
    job: &Job,
    wanted: &KeepArtifacts,
) -> Result<HashMap<String, Artifact>, StoreError> {
    let mut found = HashMap::new();
    for (name, _) in &wanted.artifacts {
        let filter =
            ArtifactFilter { name: Some(name.clone()), limit: 1, ..ArtifactFilter::of(job.id, job.lease) };
        found.extend(work.tx.artifacts(&filter).await?.into_iter().map(|found| (found.name.clone(), found)));
    }
    Ok(found)
}

/// What a request adds to the artifacts of an attempt.
struct Growth {
    /// By how many there are more files that are kept.
    files: u64,
    /// The same of those that are missing.
    missing: u64,
    /// Bytes that come, and bytes that are replaced.
    added: u64,
    freed: u64,
}

async fn over_bounds<T: Tx>(
    work: &mut Work<'_, T>,
    job: &Job,
    wanted: &KeepArtifacts,
    growth: Growth,
) -> Result<Option<Rejection>, StoreError> {
    let Growth { added, freed, .. } = growth;
    let bounds = wanted.bounds;
    if bounds.files.is_some() || bounds.job.is_some() {
        let runs = work.tx.artifact_runs(job.id).await?;
        let there = runs.iter().find(|run| run.lease == job.lease);
        let (files, missing) = there.map_or((0, 0), |run| (run.files, run.missing));
        // What is missing has places of its own: it is told also when as many files are kept as may be.
        let is_over = |limit: &u64| {
            growth.files > 0 && files + growth.files > *limit
                || growth.missing > 0 && missing + growth.missing > *limit
        };
        if let Some(limit) = bounds.files.filter(is_over) {
            return Ok(Some(Rejection::TooManyArtifacts { limit }));
        }
        let used = runs.iter().map(|run| run.bytes).sum();
        if let Some(limit) = exceeded(bounds.job, used, added, freed) {
            return Ok(Some(over("the job".to_owned(), used, added, limit)));
        }
    }
    let scopes = [
        (bounds.queue, ArtifactsOf::Queue(queue_of(job)), format!("queue {}", queue_of(job))),
        (bounds.user, ArtifactsOf::User(user_of(job)), format!("user {}", user_of(job))),
    ];
    for (bound, of, who) in scopes {
        if bound.is_none() {
            continue;
        }
        let used = work.tx.artifact_bytes(of).await?;
        if let Some(limit) = exceeded(bound, used, added, freed) {
            return Ok(Some(over(who, used, added, limit)));
        }
    }
    Ok(None)
}

fn exceeded(bound: Option<u64>, used: u64, added: u64, freed: u64) -> Option<u64> {
    bound.filter(|limit| added > freed && used.saturating_add(added - freed) > *limit)
}

fn over(who: String, used: u64, wanted: u64, limit: u64) -> Rejection {
    Rejection::ArtifactsFull { who, used, wanted, limit }
}

fn queue_of(job: &Job) -> &str {
    job.spec.queue.as_ref().map_or("default", muster_domain::QueueName::as_str)
}

fn user_of(job: &Job) -> &str {
    job.spec.user.as_deref().unwrap_or_default()
}
