//! Artifacts in memory.

use muster_domain::{Artifact, ArtifactContent, JobId, Timestamp};

use super::data::Data;
use crate::artifacts::{ArtifactFilter, ArtifactRun, ArtifactsOf, ExpireArtifacts};

/// An artifact, and whom its bytes count for.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) artifact: Artifact,
    pub(super) queue: String,
    pub(super) user: String,
}

impl Data {
    pub(super) fn insert_artifacts(&mut self, artifacts: &[Artifact], queue: &str, user: &str) {
        for artifact in artifacts {
            let of_job = self.artifacts.entry(artifact.job).or_default();
            let (queue, user) = (queue.to_owned(), user.to_owned());
            let kept = Kept { artifact: artifact.clone(), queue, user };
            of_job.insert((artifact.lease, artifact.name.clone()), kept);
        }
    }

    pub(super) fn select_artifacts(&self, filter: &ArtifactFilter) -> Vec<Artifact> {
        let fits = |artifact: &Artifact| {
            artifact.lease == filter.lease
                && filter.name.as_ref().is_none_or(|name| *name == artifact.name)
                && filter.after.as_ref().is_none_or(|after| artifact.name > *after)
        };
        let of_job = self.artifacts.get(&filter.job).into_iter().flat_map(|kept| kept.values());
        of_job.map(|kept| &kept.artifact).filter(|found| fits(found)).take(filter.limit).cloned().collect()
    }

    pub(super) fn select_artifact_runs(&self, job: JobId) -> Vec<ArtifactRun> {
        let mut runs: Vec<ArtifactRun> = Vec::new();
        for kept in self.artifacts.get(&job).into_iter().flat_map(|kept| kept.values()) {
            let Artifact { lease, attempt, .. } = kept.artifact;
            if runs.last().is_none_or(|run| run.lease != lease) {
                runs.push(ArtifactRun { lease, attempt, files: 0, bytes: 0, missing: 0 });
            }
            let Some(run) = runs.last_mut() else { continue };
            match &kept.artifact.content {
                ArtifactContent::Kept { size, .. } => {
                    run.files += 1;
                    run.bytes += size;
                }
                ArtifactContent::Missing { .. } => run.missing += 1,
                ArtifactContent::Removed { .. } => {}
            }
        }
        runs.reverse();
        runs
    }

    pub(super) fn take_old_blobs(&mut self, wanted: ExpireArtifacts, now: Timestamp) -> Vec<String> {
        let all = self.artifacts.values_mut().flat_map(|kept| kept.values_mut());
        let mut old: Vec<&mut Artifact> = all
            .map(|kept| &mut kept.artifact)
            .filter(|artifact| artifact.at < wanted.before && artifact.blob().is_some())
            .collect();
        old.sort_by_key(|artifact| artifact.at);
        let taken = old.into_iter().take(wanted.limit).filter_map(|artifact| {
            let blob = artifact.blob().map(str::to_owned);
            artifact.content = ArtifactContent::Removed { at: now };
            blob
        });
        taken.collect()
    }

    pub(super) fn sum_artifacts(&self, of: ArtifactsOf<'_>) -> u64 {
        let counts = |kept: &&Kept| match of {
            ArtifactsOf::Queue(queue) => kept.queue == queue,
            ArtifactsOf::User(user) => kept.user == user,
        };
        let all = self.artifacts.values().flat_map(|kept| kept.values());
        all.filter(counts).map(|kept| kept.artifact.size()).sum()
    }

    pub(super) fn select_known_blobs(&self, blobs: &[String]) -> Vec<String> {
        let all = self.artifacts.values().flat_map(|kept| kept.values());
        let known: std::collections::HashSet<&str> = all.filter_map(|kept| kept.artifact.blob()).collect();
        blobs
            .iter()
            .filter(|blob| known.contains(blob.as_str()) || self.names_output(blob))
            .cloned()
            .collect()
    }
}
