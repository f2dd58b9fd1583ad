//! The output of jobs: files below the data directory, some for each stream of each attempt.
//!
//! What an attempt wrote moves on when it has ended, where schedulers share a blob store: small output into the database, other
//! output into the blob store. Readers find the same bytes, times and gaps here and there.
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
mod moved;
mod names;
mod objects;
mod pack;
mod ranges;
mod reader;
#[cfg(test)]
mod reader_tests;
mod start;
mod sweep;
mod times;
mod view;
mod waiting;
mod watchers;

pub(crate) use cursor::Cursor;
pub(crate) use files::{Appended, Chunk, LogStore};
pub(crate) use follow::{Follow, raw};
pub(crate) use live::live;
pub(crate) use moved::Moved;
pub(crate) use objects::Objects;
pub(crate) use pack::Packed;
pub(crate) use ranges::{Asked, Facts, Served, ask, serve};
pub(crate) use reader::{Begin, Order, Reader, Selection, Start};
pub(crate) use sweep::{Census, Held, SHARDS};
pub(crate) use times::{Tick, parse_ticks};
pub(crate) use waiting::{Due, Hold, QUIET};
