//! Points in time and spans, in whole microseconds. The clock itself lives at the edge.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The span since `earlier`; zero when `earlier` is later, so that a clock that jumps back hurts nobody.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;

    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// A length of time that is never negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(i64);

impl Span {
    pub const ZERO: Self = Self(0);

    pub const fn from_secs(secs: u32) -> Self {
        Self(secs as i64 * 1_000_000)
    }

    pub const fn from_millis(millis: u32) -> Self {
        Self(millis as i64 * 1_000)
    }

    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros > i64::MAX as u64 { i64::MAX } else { micros as i64 })
    }

    pub const fn as_micros(self) -> u64 {
        self.0 as u64
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<std::time::Duration> for Span {
    fn from(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}
