//! Moved output in memory.

use muster_domain::JobId;

use super::data::Data;
use crate::error::StoreError;
use crate::output::{ExpireOutput, ExpiredOutput, MovedOutput, OutputContent, OutputTx};

impl OutputTx for Data {
    async fn outputs(&mut self, jobs: &[JobId]) -> Result<Vec<MovedOutput>, StoreError> {
        let of = |job: &JobId| self.outputs.get(job).into_iter().flat_map(|runs| runs.values()).cloned();
        Ok(jobs.iter().flat_map(of).collect())
    }

    async fn put_outputs(&mut self, outputs: &[MovedOutput]) -> Result<(), StoreError> {
        for output in outputs {
            self.outputs.entry(output.job).or_default().insert(output.lease, output.clone());
        }
        Ok(())
    }

    async fn expire_outputs(&mut self, wanted: ExpireOutput) -> Result<Vec<ExpiredOutput>, StoreError> {
        let jobs = &self.jobs;
        let ended = |job: &JobId| jobs.get(job).filter(|job| job.is_terminal()).map(|job| job.seq);
        let in_question =
            |output: &MovedOutput| output.kept > 0 && wanted.before.is_none_or(|at| output.grown_at < at);
        let mut old: Vec<(&MovedOutput, u64)> = self
            .outputs
            .values()
            .flat_map(|runs| runs.values())
            .filter(|output| in_question(output))
            .filter_map(|output| Some((output, ended(&output.job)?)))
            .collect();
        old.sort_by_key(|(output, _)| output.grown_at);
        let told = |(output, seq): (&MovedOutput, u64)| ExpiredOutput {
            seq,
            lease: output.lease,
            bytes: output.kept,
            blob: output.blob().map(str::to_owned),
        };
        let gone = wanted.enough(old.into_iter().take(wanted.limit).map(told).collect());
        for one in &gone {
            let runs = self.by_seq.get(&one.seq).and_then(|job| self.outputs.get_mut(job));
            if let Some(output) = runs.and_then(|runs| runs.get_mut(&one.lease)) {
                (output.kept, output.content) = (0, OutputContent::Removed);
            }
        }
        Ok(gone)
    }

    async fn output_bytes(&mut self) -> Result<u64, StoreError> {
        Ok(self.outputs.values().flat_map(|runs| runs.values()).map(|output| output.kept).sum())
    }
}

impl Data {
    pub(super) fn names_output(&self, blob: &str) -> bool {
        self.outputs.values().flat_map(|runs| runs.values()).any(|output| output.blob() == Some(blob))
    }
}
