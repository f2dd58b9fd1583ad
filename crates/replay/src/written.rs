//! Amounts in files: durations and memory as people write them, or plain numbers.

use muster_document::amounts;
use muster_domain::Span;
use serde::Deserialize;

/// A value that may be a number or a text with a unit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Written {
    Number(f64),
    Text(String),
}

impl Written {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// A length of time; `what` names the value in the message.
    pub(crate) fn span(&self, what: &str) -> Result<Span, String> {
        let text = self.text();
        amounts::duration(&text)
            .map(Span::from)
            .ok_or_else(|| format!("{what} is {text:?}; write a duration such as 200ms, 90s or 1h30m"))
    }

    pub(crate) fn memory_mb(&self, what: &str) -> Result<u64, String> {
        let text = self.text();
        amounts::memory_mb(&text)
            .ok_or_else(|| format!("{what} is {text:?}; write an amount of memory such as 512M or 64G"))
    }
}

/// Processors in thousandths.
pub(crate) fn cpu_millis(cpus: f64, what: &str) -> Result<u64, String> {
    if (0.0..=1e9).contains(&cpus) {
        return Ok((cpus * 1e3).round() as u64);
    }
    Err(format!("{what} is {cpus}; write a number of processors such as 2 or 0.5"))
}
