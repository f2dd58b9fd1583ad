//! The live view in the terminal, for `muster watch` and `muster top`.
//!
//! `model` holds what is known and decides what a key or an answer changes; `input` turns keys into
//! actions; `view` draws the model; `feed` asks the scheduler; `terminal` borrows the screen. Only the
//! last two and `session`, which ties them together, touch the world.
//!
//! Guarantee: the scheduler is read in pages of a fixed size, however many jobs there are; the terminal
//! is given back as it was, whichever way the program ends.

mod acting;
mod feed;
mod filter;
mod input;
mod logs;
mod model;
#[cfg(test)]
mod model_tests;
mod output;
mod panes;
mod session;
mod snapshot;
mod terminal;
mod view;

pub(crate) use filter::Filter;
pub(crate) use model::{Arrangement, Order};
pub(crate) use session::{Session, run};
pub(crate) use snapshot::{Snapshot, Wanted, read};
pub(crate) use view::short;
