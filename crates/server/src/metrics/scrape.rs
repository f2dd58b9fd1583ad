//! One scrape: gauges are read from the store, then everything is written as text.

use std::time::Duration;

use muster_domain::{Resources, WorkerStatus};
use muster_store::{Counts, Query, Reply, Store, StoreError, StoreExt, WorkerUsage};
use prometheus::{Encoder, TextEncoder};

use super::catalogue::Metrics;

impl Metrics {
    /// The text of all metrics. When the store does not answer in time its gauges are left out, so that
    /// nobody takes an old number for a new one.
    pub(crate) async fn scrape(&self, store: &dyn Store, patience: Duration) -> Vec<u8> {
        let read = async {
            let (counts, workers) = (store.counts().await?, store.workers().await?);
            let (hooks, last_event) = (store.webhooks(true).await?, store.last_event().await?);
            let standings = match store.read(Query::Standings).await? {
                Reply::Standings(standings) => standings,
                _ => Vec::new(),
            };
            Ok::<_, StoreError>((counts, workers, hooks, last_event, standings))
        };
        let mut families = match tokio::time::timeout(patience, read).await {
            Ok(Ok((counts, workers, hooks, last_event, standings))) => {
                self.store_up.set(1.0);
                self.set_counts(&counts);
                self.set_workers(&workers);
                self.webhooks.set(&hooks, last_event);
                self.queues.set(&standings);
                self.store_registry.gather()
            }
            Ok(Err(error)) => {
                self.store_error();
                self.store_up.set(0.0);
                tracing::warn!(%error, "the store did not answer the scrape");
                Vec::new()
            }
            Err(_) => {
                self.store_up.set(0.0);
                tracing::warn!("the store did not answer the scrape in time");
                Vec::new()
            }
        };
        families.extend(self.registry.gather());
        let mut text = Vec::with_capacity(16 * 1024);
        if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
            tracing::error!(%error, "metrics could not be written");
        }
        text
    }

    fn set_counts(&self, counts: &Counts) {
        for (status, gauge) in &self.gauges.jobs {
            gauge.set(counts.jobs.get(status).copied().unwrap_or(0) as i64);
        }
        self.gauges.queue_depth.reset();
        for (queue, depth) in &counts.pending_by_queue {
            self.gauges.queue_depth.with_label_values(&[queue]).set(*depth as i64);
        }
    }

    fn set_workers(&self, workers: &[WorkerUsage]) {
        let (mut total, mut used) = (Resources::default(), Resources::default());
        let (mut active, mut offline) = (0, 0);
        for usage in workers {
            match usage.worker.status {
                WorkerStatus::Active => {
                    active += 1;
                    total.add(&usage.worker.resources);
                    used.add(&usage.used);
                }
                WorkerStatus::Offline => offline += 1,
            }
        }
        self.gauges.workers.with_label_values(&["active"]).set(active);
        self.gauges.workers.with_label_values(&["offline"]).set(offline);
        set_amounts(&self.gauges.capacity_total, &total);
        set_amounts(&self.gauges.capacity_used, &used);
    }
}

fn set_amounts(gauges: &prometheus::GaugeVec, amounts: &Resources) {
    gauges.reset();
    let fixed = [
        ("cpus", amounts.cpu_millis as f64 / 1e3),
        ("memory_mb", amounts.memory_mb as f64),
        ("vram_mb", amounts.vram_mb as f64),
        ("gpus", amounts.gpus as f64),
    ];
    for (name, amount) in fixed {
        gauges.with_label_values(&[name]).set(amount);
    }
    for (name, amount) in &amounts.counters {
        gauges.with_label_values(&[name]).set(*amount as f64);
    }
}
