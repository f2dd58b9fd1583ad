//! Traces as text: what is read from files of others, and what is written for them.
//!
//! Guarantees: a mistake is an error that names its line, never a panic; jobs come out in the order of their
//! submission, and in the order of the file where that is the same.

mod amounts;
mod csv;
mod error;
mod fields;
mod names;
mod plan;
mod plan_file;
mod swf;
#[cfg(test)]
mod tests;
mod write;

pub use error::TraceError;
pub(crate) use fields::quoted;
pub use plan::Plan;
pub use write::write_csv;

use crate::settings::Cluster;
use crate::workload::Workload;

/// The ways in which a workload can be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table with a line of titles.
    Csv,
    /// The Standard Workload Format.
    Swf,
    /// A description of queues and of the jobs that come into them.
    Plan,
}

/// A workload with what else its file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    pub workload: Workload,
    /// One for each job; empty when the file names none.
    pub names: Vec<String>,
    /// Where the jobs ran, when the file says it.
    pub cluster: Option<Cluster>,
    /// Lines that describe no job that ever ran.
    pub skipped: u64,
}

impl Trace {
    /// A workload that nobody has named.
    pub fn of(workload: Workload) -> Self {
        Self { workload, ..Self::default() }
    }
}

/// How a text is written, by what it begins with.
pub fn recognise(text: &str) -> Format {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.find(|line| !line.starts_with('#')) else { return Format::Csv };
    if first.starts_with(';') {
        return Format::Swf;
    }
    if first.starts_with('[') || (first.contains('=') && !first.contains(',')) {
        return Format::Plan;
    }
    let words = first.split_whitespace();
    if !first.contains(',')
        && words.clone().count() > 1
        && words.clone().all(|word| word.parse::<f64>().is_ok())
    {
        return Format::Swf;
    }
    Format::Csv
}

/// Reads a trace in whichever way it is written; `seed` is for plans that leave something to chance.
pub fn read(text: &str, seed: u64) -> Result<Trace, TraceError> {
    match recognise(text) {
        Format::Csv => csv::read(text),
        Format::Swf => swf::read(text),
        Format::Plan => Ok(Plan::parse(text)?.trace(seed)),
    }
}
