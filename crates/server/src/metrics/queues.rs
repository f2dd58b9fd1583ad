//! Numbers about queues that share: what each has, uses, borrows and lends, and its share.
//!
//! Guarantee: operators make these queues, not jobs, and no more than a fixed number of them is shown, so that
//! nobody can make a scrape grow without end.

use muster_domain::{Amounts, Dimension};
use muster_store::QueueStanding;
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts, Registry, Result};

use super::catalogue::register;

/// The most queues that are shown, by name.
const SHOWN: usize = 200;

/// Gauges that are read from the store.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    queues: IntGauge,
    used: GaugeVec,
    nominal: GaugeVec,
    borrowed: GaugeVec,
    lent: GaugeVec,
    share: GaugeVec,
    running: IntGaugeVec,
}

impl QueueMetrics {
    pub(super) fn new(r: &Registry) -> Result<Self> {
        let amounts = |name: &str, help: &str| {
            register(r, GaugeVec::new(Opts::new(name, help), &["queue", "resource"])?)
        };
        Ok(Self {
            queues: register(r, IntGauge::new("muster_queues", "Queues that were set.")?)?,
            used: amounts("muster_queue_usage", "What the jobs of a queue and of those below it hold.")?,
            nominal: amounts("muster_queue_nominal", "What is a queue's own.")?,
            borrowed: amounts("muster_queue_borrowed", "What a queue uses beyond its own.")?,
            lent: amounts("muster_queue_lent", "What others use of a queue's own.")?,
            share: register(
                r,
                GaugeVec::new(
                    Opts::new("muster_queue_share", "The weighted dominant share of a queue; 1 is all."),
                    &["queue"],
                )?,
            )?,
            running: register(
                r,
                IntGaugeVec::new(
                    Opts::new(
                        "muster_queue_running",
                        "Jobs of a queue and of those below it that take room.",
                    ),
                    &["queue"],
                )?,
            )?,
        })
    }

    pub(super) fn set(&self, standings: &[QueueStanding]) {
        for gauges in [&self.used, &self.nominal, &self.borrowed, &self.lent, &self.share] {
            gauges.reset();
        }
        self.running.reset();
        self.queues.set(standings.len() as i64);
        let sharing = standings.iter().filter(|standing| standing.queue.tree.is_some());
        for standing in sharing.take(SHOWN) {
            let name = standing.queue.name.as_str();
            set(&self.used, name, &standing.used_below);
            set(&self.borrowed, name, &standing.borrowed);
            set(&self.lent, name, &standing.lent);
            if let Some(nominal) = &standing.queue.terms.nominal {
                set(&self.nominal, name, nominal);
            }
            self.share.with_label_values(&[name]).set(standing.share as f64 / 1e9);
            self.running.with_label_values(&[name]).set(standing.running_below as i64);
        }
    }
}

fn set(gauges: &GaugeVec, queue: &str, amounts: &Amounts) {
    for (dimension, amount) in amounts.iter() {
        let amount = if *dimension == Dimension::CpuMillis { amount as f64 / 1e3 } else { amount as f64 };
        gauges.with_label_values(&[queue, &dimension.to_string()]).set(amount);
    }
}
