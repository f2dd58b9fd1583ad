//! The day: jobs come by day and fewer of them by night.
//!
//! Time is bent: gaps are drawn as if every hour were alike and are then stretched or shrunk by the weight of
//! the half hours that they cover.

const SLOTS: usize = 48;
const SLOT_SECONDS: f64 = 1800.0;
/// Half past five in the morning, where the day of the model begins.
const FIRST_SLOT: usize = 11;

/// How busy each half hour of a day is; 1 on average.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    weights: [f64; SLOTS],
}

impl Cycle {
    /// Weights that follow a gamma density over the half hours of a day.
    pub(super) fn gamma(shape: f64, scale: f64) -> Self {
        // At night somebody works, too.
        let least = 0.05;
        let mut weights = [0.0; SLOTS];
        for position in 0..SLOTS {
            let x = position as f64 + 0.5;
            let density = ((shape - 1.0) * x.ln() - x / scale).exp();
            weights[(position + FIRST_SLOT) % SLOTS] = density;
        }
        let highest = weights.iter().copied().fold(0.0, f64::max);
        for weight in &mut weights {
            *weight = (*weight / highest).max(least);
        }
        let mean = weights.iter().sum::<f64>() / SLOTS as f64;
        Self { weights: weights.map(|weight| weight / mean) }
    }

    /// The time that is `gap` of evenly busy seconds after `from`.
    pub(super) fn after(&self, from: f64, gap: f64) -> f64 {
        // A whole day is worth as much as its seconds, whatever its hours weigh.
        let day = SLOT_SECONDS * SLOTS as f64;
        let mut at = from + (gap / day).floor() * day;
        let mut left = gap % day;
        loop {
            let slot = (at / SLOT_SECONDS).floor();
            let weight = self.weights[slot as usize % SLOTS];
            let room = ((slot + 1.0) * SLOT_SECONDS - at) * weight;
            if left <= room {
                return at + left / weight;
            }
            left -= room;
            at = (slot + 1.0) * SLOT_SECONDS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_length_and_its_night() {
        let cycle = Cycle::gamma(8.1737, 3.9631);
        let day = SLOT_SECONDS * SLOTS as f64;
        assert!((cycle.weights.iter().sum::<f64>() - SLOTS as f64).abs() < 1e-9);
        assert!((cycle.after(1000.0, day) - (day + 1000.0)).abs() < 1e-3);
        assert!((cycle.after(0.0, 10.0 * day) - 10.0 * day).abs() < 1e-3);
        // A minute's worth of jobs takes longer early in the morning than in the evening.
        let stretch = |hour: f64| cycle.after(hour * 3600.0, 60.0) - hour * 3600.0;
        assert!(stretch(6.5) > 4.0 * stretch(19.5), "{} {}", stretch(6.5), stretch(19.5));
    }
}
