//! The output of jobs on its way to the scheduler.
//!
//! Guarantees: output is never in memory as a whole; a job that writes nothing costs no request; an end
//! is announced after its output has been delivered, or after a bounded time; a job that writes for ever
//! fills no disk, because what lies beyond the scheduler's limit is given back to the file system.

mod shipper;
mod stream;
mod watch;

pub(crate) use shipper::{LogEvent, Logs, LogsConfig};
