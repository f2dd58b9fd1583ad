//! Uploads: how a stream of files is cut into chunks, what a manifest may say, and how chunks travel together.
//!
//! Used by the command line, which cuts and sends, by the scheduler, which checks and keeps, and by workers, which put the
//! files together again. Nothing here reads a file or a socket.
//!
//! Guarantees: equal bytes give equal chunks, wherever they lie in a stream; a manifest that [`check`] has accepted
//! names no place outside of the directory that it is unpacked into.

mod check;
mod cutter;
mod digest;
mod error;
mod frames;
mod plan;

pub use check::{Limits, Totals, check, check_link, check_path};
pub use cutter::{Cutter, LONGEST_CHUNK};
pub use digest::{Digest, Hasher, manifest_id};
pub use error::UploadError;
pub use frames::{FRAME_HEAD, FrameReader, encode_frame};
pub use plan::{Piece, Pieces};
