//! Where large results lie: a directory of this machine or an S3 bucket, behind one interface.
//!
//! Guarantees: an object is not there before it is complete, has its length and its SHA-256; memory is bounded
//! whatever the size of an object; every refusal says what was done, to which object, and what to do about it.
//!
//! Keys are made by us and never by callers, and each is written once: [`BlobKey`] takes nothing that a file
//! system or a URL could read in another way.

#[cfg(test)]
mod compliance_tests;
mod digest;
mod direct;
mod directory;
mod error;
mod figures;
mod key;
mod s3;
mod settings;
mod store;

pub use digest::{InvalidSha256, Sha256};
pub use direct::{Link, PartThere, SentPart};
pub use error::{BlobError, BoxError};
pub use figures::{Figures, Operation};
pub use key::{BlobKey, InvalidKey};
pub use settings::{BlobSettings, InvalidBlobSettings, PART_SIZE, Place, S3Credentials, S3Settings};
pub use store::{BlobStore, ByteRange, Content, Expected, Listed, Listing, Presigned, Reader, Stored};
