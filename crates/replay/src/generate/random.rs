//! Numbers that look random and follow from a seed, the same on every machine.
//!
//! The generator is `SplitMix64`: small, fast, and good enough for workloads; nothing secret hangs on it.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least 0 and less than 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// More than 0 and at most 1, for logarithms.
    pub(crate) fn positive(&mut self) -> f64 {
        1.0 - self.unit()
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// With mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.positive().ln()
    }

    /// A position in a list of weights.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (position, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return position;
            }
        }
        weights.len().saturating_sub(1)
    }
}
