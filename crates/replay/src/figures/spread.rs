//! Many values in four numbers.

use serde::Serialize;

/// Mean, median, the value that 95 of 100 do not exceed, and the largest. Zero when there are no values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub median: f64,
    pub p95: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        if sorted.is_empty() {
            return Self::default();
        }
        // Summed in the order of the jobs, as others do who print many digits of a mean.
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        sorted.sort_by(f64::total_cmp);
        Self { mean, median: rank(&sorted, 0.5), p95: rank(&sorted, 0.95), max: rank(&sorted, 1.0) }
    }
}

/// The smallest value that at least this share of all does not exceed.
pub(crate) fn rank(sorted: &[f64], share: f64) -> f64 {
    let position = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(position.saturating_sub(1)).copied().unwrap_or_default()
}
