//! Numbers of a trace: times in seconds, counts, amounts.
//!
//! Guarantee: what comes out is small enough that sums of many stay within the range of their type.

use muster_domain::{Span, Timestamp};

use super::error::TraceError;

/// About three hundred years: more is a mistake in the file.
const MOST_SECONDS: f64 = 1e10;
/// More of anything than a cluster has.
const MOST: u64 = 1_000_000_000_000;

/// One value and where it stands, for what is said when it is wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) line: usize,
    pub(super) column: &'a str,
    pub(super) text: &'a str,
}

impl Value<'_> {
    fn wrong(&self, wanted: &'static str) -> TraceError {
        TraceError::Value {
            line: self.line,
            column: self.column.to_owned(),
            value: self.text.chars().take(60).collect(),
            wanted,
        }
    }

    fn micros(&self) -> Result<u64, TraceError> {
        let wanted = "a number of seconds that is not negative, such as 97225 or 0.5";
        let seconds: f64 = self.text.parse().map_err(|_| self.wrong(wanted))?;
        if !(0.0..=MOST_SECONDS).contains(&seconds) {
            return Err(self.wrong(wanted));
        }
        Ok((seconds * 1e6).round() as u64)
    }

    pub(super) fn time(&self) -> Result<Timestamp, TraceError> {
        Ok(Timestamp::from_micros(self.micros()?.cast_signed()))
    }

    pub(super) fn span(&self) -> Result<Span, TraceError> {
        Ok(Span::from_micros(self.micros()?))
    }

    /// A time limit; nothing, zero and less than zero mean that there was none.
    pub(super) fn limit(&self) -> Result<Option<Span>, TraceError> {
        if self.text.is_empty() || self.text.parse::<f64>().is_ok_and(|seconds| seconds <= 0.0) {
            return Ok(None);
        }
        self.span().map(Some)
    }

    pub(super) fn tasks(&self) -> Result<u32, TraceError> {
        let tasks = self.text.parse().ok().filter(|tasks| *tasks > 0);
        tasks.ok_or_else(|| self.wrong("a whole number from 1 on"))
    }

    pub(super) fn count(&self) -> Result<u64, TraceError> {
        if self.text.is_empty() {
            return Ok(0);
        }
        let count = self.text.parse().ok().filter(|count| *count <= MOST);
        count.ok_or_else(|| self.wrong("a whole number that is not negative"))
    }

    /// Processors in thousandths.
    pub(super) fn cpu_millis(&self) -> Result<u64, TraceError> {
        if self.text.is_empty() {
            return Ok(0);
        }
        let cpus = self.text.parse::<f64>().ok().filter(|cpus| (0.0..=1e9).contains(cpus));
        cpus.map(|cpus| (cpus * 1e3).round() as u64)
            .ok_or_else(|| self.wrong("a number of processors, such as 2 or 0.5"))
    }

    pub(super) fn priority(&self) -> Result<i32, TraceError> {
        if self.text.is_empty() {
            return Ok(0);
        }
        self.text.parse().map_err(|_| self.wrong("a whole number; higher is more important"))
    }

    pub(super) fn yes(&self) -> Result<bool, TraceError> {
        match self.text {
            "" | "1" | "true" | "yes" => Ok(true),
            "0" | "false" | "no" => Ok(false),
            _ => Err(self.wrong("true or false")),
        }
    }
}
