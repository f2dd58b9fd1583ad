//! The output of jobs on its way to the scheduler.
//!
//! Guarantees: output is never in memory as a whole; a job that writes nothing costs no request; an end
//! is announced after its output has been delivered, or after a bounded time; a job that writes for ever
//! fills no disk, because what was sent and what the scheduler would drop is given back to the file system;
//! when each byte was written is known, also when it is sent much later.

mod copy_task;
mod room;
mod shipper;
mod stream;
mod ticks;
mod watch;

pub(crate) use shipper::{LogEvent, Logs, LogsConfig};
