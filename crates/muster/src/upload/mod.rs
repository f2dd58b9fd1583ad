//! What travels with a job: a directory, or its standard input. Read here, cut into chunks, and sent as far as the scheduler
//! does not have it.
//!
//! Guarantees: what is sent is what was read, or the command fails; memory is bounded whatever the size; a second try sends only
//! what the first one did not.

mod pack;
mod send;
mod stdin;
mod walk;

pub(crate) use send::{directory, file};
pub(crate) use stdin::{implicit, named};
