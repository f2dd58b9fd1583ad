//! Terminals of running jobs at this end: the line discipline of our terminal, what is typed, what comes back.

mod detach;
mod entry;
mod input;
mod output;
mod raw;
mod session;

pub(crate) use detach::DetachKeys;
pub(crate) use entry::{enter, resolve, running};
pub(crate) use raw::{has_terminal, size};
pub(crate) use session::{Left, Wish, exit_code, serve};
