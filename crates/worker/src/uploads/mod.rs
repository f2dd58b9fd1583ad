//! Uploads on a machine that runs jobs: chunks are kept for the next attempt, and files are put together from them.

mod cache;
mod placing;
mod unpack;

pub(crate) use cache::ChunkCache;
pub(crate) use placing::{Place, Placing, open_to_all};
pub(crate) use unpack::{Target, Unpacker};
