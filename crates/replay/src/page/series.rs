//! The state of the cluster over time, in as many steps as a picture can show.

use crate::outcome::Sample;

/// Steps of a picture.
pub(super) const STEPS: usize = 480;

/// The mean of a value in each of [`STEPS`] equal parts of the time from 0 to `end`, in seconds. A sample holds
/// until the next; `None` before the first and after the last.
pub(super) fn means(samples: &[Sample], end: f64, value: impl Fn(&Sample) -> f64) -> Vec<Option<f64>> {
    let width = end / STEPS as f64;
    let mut sums = vec![(0.0, 0.0); STEPS];
    for (index, sample) in samples.iter().enumerate() {
        let from = sample.at.as_micros() as f64 / 1e6;
        let Some(next) = samples.get(index + 1) else { break };
        let to = next.at.as_micros() as f64 / 1e6;
        spread(&mut sums, width, (from, to), value(sample));
    }
    sums.into_iter().map(|(sum, time)| (time > 0.0).then(|| sum / time)).collect()
}

/// Adds a value that holds for a time to all steps that the time covers.
fn spread(sums: &mut [(f64, f64)], width: f64, (from, to): (f64, f64), value: f64) {
    if width.is_nan() || width <= 0.0 || to <= from {
        return;
    }
    let first = ((from / width).floor().max(0.0) as usize).min(sums.len());
    for (step, sum) in sums.iter_mut().enumerate().skip(first) {
        let (low, high) = (step as f64 * width, (step + 1) as f64 * width);
        if low >= to {
            break;
        }
        let covered = (to.min(high) - from.max(low)).max(0.0);
        sum.0 += covered * value;
        sum.1 += covered;
    }
}

/// The pieces of a curve that hang together, each as steps with their values.
pub(super) fn pieces(means: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut pieces: Vec<Vec<(usize, f64)>> = vec![Vec::new()];
    for (step, mean) in means.iter().enumerate() {
        match (mean, pieces.last_mut()) {
            (Some(mean), Some(piece)) => piece.push((step, *mean)),
            (None, Some(piece)) if !piece.is_empty() => pieces.push(Vec::new()),
            _ => {}
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}
