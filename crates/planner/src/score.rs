//! The choice among workers that all have room.

use std::cmp::Ordering;

use muster_domain::{GpuNeed, Requirement, Resources};
use serde::{Deserialize, Serialize};

use crate::devices::Devices;
use crate::fit::WorkerView;

/// How the best of several fitting workers is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scoring {
    /// The worker that keeps the least room afterwards, so that large jobs find whole machines.
    #[default]
    BestFit,
    /// The worker with the largest free shares of CPU and memory and the least load.
    Spread,
}

/// Jobs at once that a worker without declared slots is measured against.
const ASSUMED_SLOTS: u32 = 4;

/// What two fitting workers are compared by: the smaller one is the better place.
pub(crate) type Key = [u64; 5];

/// Orders two fitting workers: `Less` means that `a` is the better place.
pub(crate) fn compare(scoring: Scoring, a: &WorkerView, b: &WorkerView) -> Ordering {
    key(scoring, a).cmp(&key(scoring, b)).then_with(|| a.id.cmp(&b.id))
}

/// What a share of a GPU would cost on this worker, before anything else is looked at: shares are kept together
/// so that whole devices stay free. Nothing for other needs.
pub(crate) fn share_cost(need: &Requirement, worker: &WorkerView) -> (bool, u64) {
    let Some(GpuNeed::Share { vram_mb }) = need.resources.gpu_need() else { return (false, 0) };
    match (&worker.devices, &worker.total) {
        (Some(devices), _) => devices.share_cost(vram_mb),
        (None, Some(total)) => (true, total.vram_mb.saturating_sub(worker.used.vram_mb)),
        (None, None) => (true, u64::MAX),
    }
}

/// The place of a worker among those that have room for the same need. The need itself takes the same from
/// all of them, so that their order is that of the room before it.
pub(crate) fn key(scoring: Scoring, worker: &WorkerView) -> Key {
    match scoring {
        Scoring::BestFit => room(worker),
        Scoring::Spread => [descending(spread(worker)), u64::from(worker.running), 0, 0, 0],
    }
}

/// What is free, scarce things first: GPUs, their memory, memory, CPU, slots.
fn room(worker: &WorkerView) -> Key {
    let total = worker.total.as_ref();
    let free = total.map(|total| total.minus(&worker.used)).unwrap_or_default();
    let slots = worker.slots.map_or(u32::MAX, |slots| slots.saturating_sub(worker.running));
    let known = worker.devices.as_ref().filter(|devices| !devices.is_unread());
    let gpus = known.map_or(free.gpus, Devices::idle_count);
    [gpus, free.vram_mb, free.memory_mb, free.cpu_millis, u64::from(slots)]
}

/// A number whose order is the reverse of `f64::total_cmp`.
const fn descending(score: f64) -> u64 {
    let bits = score.to_bits();
    let ascending = if score.is_sign_negative() { !bits } else { bits | 1 << 63 };
    !ascending
}

/// 0.4 of the free CPU share, 0.4 of the free memory share, less 0.2 of the load share.
pub(crate) fn spread(worker: &WorkerView) -> f64 {
    let nothing = Resources::default();
    let total = worker.total.as_ref().unwrap_or(&nothing);
    let share = |used: u64, total: u64| match total {
        0 => 0.0,
        total => total.saturating_sub(used) as f64 / total as f64,
    };
    let load = f64::from(worker.running) / f64::from(worker.slots.unwrap_or(ASSUMED_SLOTS).max(1));
    0.4 * share(worker.used.cpu_millis, total.cpu_millis)
        + 0.4 * share(worker.used.memory_mb, total.memory_mb)
        - 0.2 * load
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn worker(cpus: u64, memory_mb: u64, used: (u64, u64), running: u32) -> WorkerView {
        let amounts =
            |cpus: u64, memory_mb| Resources { cpu_millis: cpus * 1000, memory_mb, ..Resources::default() };
        WorkerView {
            id: None,
            total: Some(amounts(cpus, memory_mb)),
            used: amounts(used.0, used.1),
            running,
            slots: Some(4),
            tags: BTreeSet::new(),
            wants: 1,
            ..WorkerView::default()
        }
    }

    #[test]
    fn the_spread_score_matches_its_published_values() {
        let cases = [
            (worker(4, 8192, (0, 0), 0), 0.8),
            (worker(4, 8192, (1, 2048), 1), 0.55),
            (worker(4, 8192, (2, 4096), 2), 0.30),
            (worker(2, 1024, (1, 128), 1), 0.50),
            (worker(4, 8192, (4, 8192), 4), -0.2),
        ];
        for (worker, expected) in cases {
            assert!((spread(&worker) - expected).abs() < 1e-9, "{worker:?}");
        }
    }

    #[test]
    fn best_fit_takes_the_smallest_machine_and_spread_the_emptiest() {
        let (small, large) = (worker(2, 4096, (0, 0), 0), worker(16, 65536, (0, 0), 0));
        let busy = worker(16, 65536, (8, 32768), 1);
        assert_eq!(compare(Scoring::BestFit, &small, &large), Ordering::Less);
        assert_eq!(compare(Scoring::Spread, &large, &busy), Ordering::Less);
    }

    #[test]
    fn scores_are_ordered_from_high_to_low() {
        let scores = [1.0, 0.8, 0.3, 0.0, -0.0, -0.2, -1.5];
        assert!(scores.is_sorted_by(|a, b| descending(*a) < descending(*b)));
    }
}
