//! Uploads in the blob store: where they lie, and how they come in and go out.
//!
//! A space holds the uploads of one user, or of everyone where nobody has an account. A chunk is known only in the space of
//! those who sent it: whoever knows the digest of another user's file cannot get the file by it, nor find out that it is there.
//!
//! Guarantees: a chunk has its digest before it is kept; what is in memory at a time is bounded over all requests.

mod keeping;
mod limits;
mod place;

pub(crate) use keeping::{absent, failed, keep_chunk, keep_text, keep_whole, manifest, stream};
pub(crate) use limits::Places;
pub use limits::UploadConfig;
pub(crate) use place::{digest_of, prefix, space_of, upload_of};
