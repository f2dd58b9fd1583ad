//! Every single measurement of a run of this program.

use serde::Serialize;

use crate::metric::Metric;
use crate::noise::Noise;
use crate::settings::{StoreKind, Workload};
use crate::stats::Spread;

/// One number, with what the machine did meanwhile.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Sample {
    pub(crate) store: StoreKind,
    pub(crate) metric: Metric,
    pub(crate) run: u32,
    pub(crate) value: f64,
    pub(crate) noise: Noise,
    pub(crate) noisy: bool,
}

/// All samples, and what went wrong or is missing.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Record {
    pub(crate) samples: Vec<Sample>,
    /// Workloads that could not be measured, and why.
    pub(crate) failures: Vec<String>,
    /// Peers that are not installed here.
    pub(crate) absent: Vec<&'static str>,
}

/// The samples of one metric on one store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) metric: Metric,
    pub(crate) spread: Spread,
    pub(crate) runs: usize,
    pub(crate) noisy: usize,
}

impl Record {
    /// The metrics of a store by workload, and within it in the order in which they are declared.
    pub(crate) fn summaries(&self, store: StoreKind) -> Vec<Summary> {
        let mut metrics: Vec<Metric> = self.of(store).map(|sample| sample.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics.sort_by_key(|metric| metric.label().0);
        metrics.into_iter().filter_map(|metric| self.summary(store, metric)).collect()
    }

    fn of(&self, store: StoreKind) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.store == store)
    }

    /// Whether anything that these workloads gave on the store was measured while the machine was busy with something else.
    pub(crate) fn is_noisy(&self, store: StoreKind, workloads: &[Workload]) -> bool {
        let among = |metric: Metric| workloads.iter().any(|workload| workload.letter() == metric.label().0);
        self.of(store).any(|sample| sample.noisy && among(sample.metric))
    }

    pub(crate) fn summary(&self, store: StoreKind, metric: Metric) -> Option<Summary> {
        let samples: Vec<&Sample> = self.of(store).filter(|sample| sample.metric == metric).collect();
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let noisy = samples.iter().filter(|sample| sample.noisy).count();
        Some(Summary { metric, spread: Spread::of(&values)?, runs: samples.len(), noisy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up_by_store_and_metric() {
        let sample = |store, metric, value, noisy| Sample {
            store,
            metric,
            run: 1,
            value,
            noise: Noise::default(),
            noisy,
        };
        let samples = vec![
            sample(StoreKind::Sqlite, Metric::NoopRate, 3.0, false),
            sample(StoreKind::Sqlite, Metric::BatchRate, 1.0, true),
            sample(StoreKind::Sqlite, Metric::BatchRate, 2.0, false),
            sample(StoreKind::Memory, Metric::BatchRate, 9.0, false),
        ];
        let record = Record { samples, ..Record::default() };
        let summaries = record.summaries(StoreKind::Sqlite);
        assert_eq!(summaries.len(), 2);
        assert_eq!(summaries[0].metric, Metric::BatchRate);
        assert!((summaries[0].spread.high - 2.0).abs() < 1e-9);
        assert_eq!((summaries[0].runs, summaries[0].noisy), (2, 1));
    }
}
