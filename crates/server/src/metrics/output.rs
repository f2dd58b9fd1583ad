//! What moves of finished output.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry, Result};

use crate::moves::To;

#[derive(Debug)]
pub(crate) struct OutputMetrics {
    runs: IntCounterVec,
    bytes: IntCounterVec,
    failures: IntCounter,
    waiting: IntGauge,
}

impl OutputMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let metrics = Self {
            runs: IntCounterVec::new(
                Opts::new("muster_output_moved_total", "Attempts whose output has moved, by its new place"),
                &["place"],
            )?,
            bytes: IntCounterVec::new(
                Opts::new(
                    "muster_output_moved_bytes_total",
                    "Bytes of output that have moved, by their new place",
                ),
                &["place"],
            )?,
            failures: IntCounter::new(
                "muster_output_move_failures_total",
                "Moves of finished output that failed and are tried again",
            )?,
            waiting: IntGauge::new(
                "muster_output_waiting_jobs",
                "Jobs whose finished output is still in files of this scheduler although it was to move",
            )?,
        };
        registry.register(Box::new(metrics.runs.clone()))?;
        registry.register(Box::new(metrics.bytes.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        for to in To::ALL {
            metrics.moved_so_many(to, 0, 0);
        }
        Ok(metrics)
    }

    fn moved_so_many(&self, to: To, runs: u64, bytes: u64) {
        self.runs.with_label_values(&[to.name()]).inc_by(runs);
        self.bytes.with_label_values(&[to.name()]).inc_by(bytes);
    }

    pub(crate) fn moved(&self, to: To, bytes: u64) {
        self.moved_so_many(to, 1, bytes);
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    pub(crate) fn waiting(&self, jobs: usize) {
        self.waiting.set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }
}
