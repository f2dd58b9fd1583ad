//! The log of the binaries: JSON lines for machines, readable lines on a terminal.
//!
//! Guarantee: a JSON line begins with `time`, `level` and `msg`; the fields of the surrounding spans (such
//! as `request_id`) and of the event follow, each with its own type.

mod json_lines;
mod setup;

pub use json_lines::JsonLines;
pub use setup::{LogFormat, LogSettings, LogTarget, LoggingError, init};
