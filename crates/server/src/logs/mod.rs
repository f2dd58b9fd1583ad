//! The output of jobs: append-only files below the data directory, one for each stream of each attempt.
//!
//! Guarantees: an upload that is repeated or overlaps changes nothing; a stream never grows beyond its
//! limit, and the cut is marked in it; nothing is held in memory beyond one piece.

mod files;
mod follow;
mod watchers;

pub(crate) use files::{Appended, Chunk, LogStore};
pub(crate) use follow::{Follow, Selection, follow, whole};
