//! The distributions that the models are made of.

use super::random::Random;

/// Normal with mean 0 and deviation 1, by the polar method.
pub(super) fn normal(random: &mut Random) -> f64 {
    loop {
        let (x, y) = (random.between(-1.0, 1.0), random.between(-1.0, 1.0));
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Gamma with this shape and scale, by the method of Marsaglia and Tsang.
pub(super) fn gamma(random: &mut Random, shape: f64, scale: f64) -> f64 {
    if shape < 1.0 {
        let smaller = random.positive().powf(1.0 / shape);
        return gamma(random, shape + 1.0, scale) * smaller;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && random.positive().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v * scale;
        }
    }
}
