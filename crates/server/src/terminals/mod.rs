//! Terminals in running jobs: brings a client and the worker of a job together and passes bytes between them.
//!
//! Guarantees: a session has one client and one worker, which knows the secret of the session; its bytes are not read here,
//! and at most a small buffer of them is held in each direction; a session that nobody joins in time, or whose client or
//! worker goes, ends. Nothing of a session outlives the scheduler that its client is connected to (ADR 56).

mod pass;
mod sessions;

pub(crate) use pass::{Ends, pass};
pub(crate) use sessions::{PATIENCE, Terminals, scheduler_of};
