//! Objects that others send to the store by themselves: links for them, and the check of what came.
//!
//! Guarantee: a link takes one content only, since its SHA-256 is signed with it; what is completed is there, with its
//! length and, where S3 says it, its SHA-256.

use std::time::Duration;

use crate::digest::Sha256;
use crate::error::BlobError;
use crate::figures::Operation;
use crate::key::BlobKey;
use crate::store::BlobStore;

/// Where something is sent, with the headers that have to come along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
}

/// A part that has arrived of an upload that is not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartThere {
    pub number: u16,
    pub etag: String,
    pub size: u64,
}

/// A part as the completion of its object names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPart {
    pub etag: String,
    /// Said of parts that were sent with it.
    pub sha256: Option<Sha256>,
}

impl BlobStore {
    /// Whether the store refuses content that has not the SHA-256 that was announced; `false` for a directory.
    pub async fn checks_content(&self) -> Result<bool, BlobError> {
        match self.bucket() {
            Some(bucket) => self.timed(Operation::Put, bucket.checks_content()).await,
            None => Ok(false),
        }
    }

    /// A link with which anybody writes this content, whole, until it expires; `None` where links do not lead to the store.
    pub fn put_link(&self, key: &BlobKey, sha256: Sha256, expires: Duration) -> Option<Link> {
        self.bucket().map(|bucket| bucket.put_link(key, sha256, expires))
    }

    /// A link for a part, numbered from 1, of an upload that was begun.
    pub fn part_link(
        &self,
        (key, upload): (&BlobKey, &str),
        number: u16,
        sha256: Sha256,
        expires: Duration,
    ) -> Option<Link> {
        self.bucket().map(|bucket| bucket.part_link((key, upload), number, sha256, expires))
    }

    /// Bytes of each part, but the last, of an object of this size; `None` when it is sent whole.
    pub fn part_size(&self, size: u64) -> Option<u64> {
        self.bucket().and_then(|bucket| bucket.part_size(size))
    }

    /// The upload of this key that is under way, or a new one; with the parts that are there. `None` for a directory.
    pub async fn take_up(&self, key: &BlobKey) -> Result<Option<(String, Vec<PartThere>)>, BlobError> {
        match self.bucket() {
            Some(bucket) => self.timed(Operation::Put, bucket.take_up(key)).await.map(Some),
            None => Ok(None),
        }
    }

    /// Makes the object of its parts. Repeating a completion that went well goes well when the object has this size.
    pub async fn complete(
        &self,
        (key, upload): (&BlobKey, &str),
        parts: &[SentPart],
        size: u64,
    ) -> Result<(), BlobError> {
        match self.bucket() {
            Some(bucket) => {
                self.timed(Operation::Put, bucket.complete_upload(key, upload, parts, size)).await
            }
            None => Ok(()),
        }
    }

    /// Makes sure that the object is there as it was announced: with `parts` the digests of its parts, else that of the
    /// whole.
    pub async fn check(
        &self,
        key: &BlobKey,
        size: u64,
        sha256: Sha256,
        parts: &[Sha256],
    ) -> Result<(), BlobError> {
        match self.bucket() {
            Some(bucket) => self.timed(Operation::Get, bucket.check(key, size, sha256, parts)).await,
            None => Ok(()),
        }
    }

    /// Forgets an upload in parts, and the parts.
    pub async fn abort_upload(&self, key: &BlobKey, upload: &str) -> Result<(), BlobError> {
        match self.bucket() {
            Some(bucket) => self.timed(Operation::Delete, bucket.abort_upload(key, upload)).await,
            None => Ok(()),
        }
    }
}
