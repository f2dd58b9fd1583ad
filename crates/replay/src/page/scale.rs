//! From values to places on an axis, and the marks beside it.

use crate::words::{digits, duration};

/// Marks of a logarithmic axis of seconds.
const PLACES: [f64; 9] = [1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0];
/// Distances between marks of an axis of seconds.
const STEPS: [f64; 20] = [
    1.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
    7200.0,
    14_400.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    432_000.0,
    864_000.0,
    1_728_000.0,
    2_592_000.0,
    8_640_000.0,
];

/// One axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    /// From 0 to at least `high`.
    pub(super) fn linear(high: f64, from: f64, to: f64) -> Self {
        Self { low: 0.0, high: if high > 0.0 { high } else { 1.0 }, from, to, logarithmic: false }
    }

    /// From `low`, which is more than 0, to at least `high`. What is less than `low` is drawn at its place.
    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high: high.max(low * 10.0), from, to, logarithmic: true }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Powers of ten within the axis, or round steps.
    pub(super) fn marks(&self) -> Vec<(f64, String)> {
        if self.logarithmic {
            let mut marks = Vec::new();
            let mut value = self.low;
            while value <= self.high * 1.000_001 {
                marks.push((value, self.at_least(value, digits(value))));
                value *= 10.0;
            }
            return marks;
        }
        let step = round_step((self.high - self.low) / 5.0);
        steps(step, self.high).map(|value| (value, digits(value))).collect()
    }

    /// What is less than the lowest mark of a logarithmic axis is drawn there.
    fn at_least(&self, value: f64, text: String) -> String {
        if value > self.low { text } else { format!("≤ {text}") }
    }

    /// The same for an axis of seconds.
    pub(super) fn time_marks(&self) -> Vec<(f64, String)> {
        if self.logarithmic {
            let within = PLACES.into_iter().filter(|place| (self.low..=self.high).contains(place));
            return within.map(|place| (place, self.at_least(place, duration_mark(place)))).collect();
        }
        let wanted = (self.high - self.low) / 8.0;
        let step = STEPS.into_iter().find(|step| *step >= wanted).unwrap_or_else(|| round_step(wanted));
        steps(step, self.high).map(|value| (value, time_mark(value, step))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least as much as wanted.
fn round_step(wanted: f64) -> f64 {
    if wanted.is_nan() || wanted <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(wanted.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= wanted * 0.999);
    factor.unwrap_or(10.0) * power
}

fn steps(step: f64, high: f64) -> impl Iterator<Item = f64> {
    let count = (high / step * 1.000_001).floor().clamp(0.0, 1000.0) as u32;
    (0..=count).map(move |index| f64::from(index) * step)
}

fn time_mark(seconds: f64, step: f64) -> String {
    if seconds == 0.0 {
        return "0".into();
    }
    match step {
        step if step >= 86_400.0 => format!("{} d", digits(seconds / 86_400.0)),
        step if step >= 3600.0 => format!("{} h", digits(seconds / 3600.0)),
        step if step >= 60.0 => format!("{} min", digits(seconds / 60.0)),
        _ => format!("{} s", digits(seconds)),
    }
}

fn duration_mark(seconds: f64) -> String {
    match seconds {
        60.0 => "1 min".into(),
        3600.0 => "1 h".into(),
        86_400.0 => "1 d".into(),
        other => duration(other),
    }
}
