//! The output of jobs: files below the data directory, some for each stream of each attempt.
//!
//! Guarantees: an upload that is repeated or overlaps changes nothing; a stream keeps its beginning and its
//! end within its limit, and what is missing between them is said to every reader; reading and writing happen
//! on threads of their own behind bounded queues; nothing is held in memory beyond a few pieces.

mod admission;
mod batch;
mod cursor;
mod files;
#[cfg(test)]
mod files_tests;
mod follow;
mod lanes;
mod layout;
mod live;
mod names;
mod ranges;
mod reader;
#[cfg(test)]
mod reader_tests;
mod start;
mod sweep;
mod times;
mod watchers;

pub(crate) use cursor::Cursor;
pub(crate) use files::{Appended, Chunk, LogStore};
pub(crate) use follow::{Follow, raw};
pub(crate) use live::live;
pub(crate) use ranges::{Asked, Facts, Served, ask, serve};
pub(crate) use reader::{Begin, Order, Reader, Selection, Start};
pub(crate) use sweep::{Census, Held, SHARDS};
pub(crate) use times::{Tick, parse_ticks};
