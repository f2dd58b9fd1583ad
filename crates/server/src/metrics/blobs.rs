//! What was done with the blob store.

use muster_blob::Operation;
use prometheus::{CounterVec, IntCounterVec, IntGauge, Opts, Registry, Result};

use crate::blobs::Blobs;

/// Counters that follow those of the store at each scrape.
#[derive(Debug)]
pub(crate) struct BlobMetrics {
    up: IntGauge,
    operations: IntCounterVec,
    seconds: CounterVec,
    bytes: IntCounterVec,
}

impl BlobMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let opts = |name: &str, help: &str| Opts::new(name, help);
        let metrics = Self {
            up: IntGauge::with_opts(opts(
                "muster_blob_store_up",
                "Whether the blob store was in reach last",
            ))?,
            operations: IntCounterVec::new(
                opts("muster_blob_operations_total", "Operations on the blob store"),
                &["operation", "result"],
            )?,
            seconds: CounterVec::new(
                opts("muster_blob_operation_seconds_total", "Time that operations on the blob store took"),
                &["operation"],
            )?,
            bytes: IntCounterVec::new(
                opts("muster_blob_bytes_total", "Bytes written to and read from the blob store"),
                &["direction"],
            )?,
        };
        registry.register(Box::new(metrics.up.clone()))?;
        registry.register(Box::new(metrics.operations.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.bytes.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn set(&self, blobs: &Blobs) {
        let figures = blobs.figures();
        self.up.set(i64::from(blobs.outage().is_none()));
        for operation in Operation::ALL {
            let name = operation.name();
            follow(&self.operations, &[name, "ok"], figures.done(operation));
            follow(&self.operations, &[name, "failed"], figures.failed(operation));
            let seconds = self.seconds.with_label_values(&[name]);
            seconds.inc_by((figures.took(operation).as_secs_f64() - seconds.get()).max(0.0));
        }
        follow(&self.bytes, &["written"], figures.bytes_written());
        follow(&self.bytes, &["read"], figures.bytes_read());
    }
}

fn follow(counters: &IntCounterVec, labels: &[&str], value: u64) {
    let counter = counters.with_label_values(labels);
    counter.inc_by(value.saturating_sub(counter.get()));
}
