//! Objects in a bucket of S3. Requests are signed by `rusty-s3`, and sent over our own connections.
//!
//! Guarantee: an object appears when it is complete: small ones in one request, large ones by the completion of an upload
//! in parts, which is aborted when it fails.

mod answers;
mod bucket;
mod direct;
mod paced;
mod put;
mod reading;
mod wire;

pub(crate) use bucket::Bucket;
