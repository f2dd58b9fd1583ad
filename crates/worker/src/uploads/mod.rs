//! Uploads on a machine that runs jobs: chunks are kept for the next attempt, and files are put together from them.

mod cache;
mod unpack;

pub(crate) use cache::ChunkCache;
pub(crate) use unpack::{Target, Unpacker};
