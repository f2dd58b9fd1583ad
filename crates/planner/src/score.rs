//! The choice among workers that all have room.

use std::cmp::Ordering;

use muster_domain::{Requirement, Resources};
use serde::{Deserialize, Serialize};

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

/// Orders two fitting workers: `Less` means that `a` is the better place.
pub(crate) fn compare(scoring: Scoring, need: &Requirement, a: &WorkerView, b: &WorkerView) -> Ordering {
    let by_score = match scoring {
        Scoring::BestFit => room_after(need, a).cmp(&room_after(need, b)),
        Scoring::Spread => spread(b).total_cmp(&spread(a)).then(a.running.cmp(&b.running)),
    };
    by_score.then_with(|| a.id.cmp(&b.id))
}

/// What would be left, scarce things first: GPUs, their memory, memory, CPU, slots.
fn room_after(need: &Requirement, worker: &WorkerView) -> (u64, u64, u64, u64, u32) {
    let total = worker.total.as_ref();
    let free = total.map(|total| total.minus(&worker.used)).unwrap_or_default();
    let left = free.minus(&need.resources);
    let slots = worker.slots.map_or(u32::MAX, |slots| slots.saturating_sub(worker.running));
    (left.gpus, left.vram_mb, left.memory_mb, left.cpu_millis, slots)
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
        let need = Requirement {
            resources: Resources { memory_mb: 1024, ..Resources::default() },
            ..Requirement::default()
        };
        assert_eq!(compare(Scoring::BestFit, &need, &small, &large), Ordering::Less);
        assert_eq!(compare(Scoring::Spread, &need, &large, &busy), Ordering::Less);
    }
}
