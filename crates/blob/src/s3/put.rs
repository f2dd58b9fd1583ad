//! Content into a bucket: whole when it is small, in parts otherwise.
//!
//! Guarantee: no more than [`AHEAD`] + 1 parts are in memory; what fails leaves neither object nor parts.

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{Fuse, FuturesOrdered};
use http::header::ETAG;
use http::{HeaderMap, Method};
use rusty_s3::S3Action as _;

use super::bucket::{AT_ONCE, Bucket, MOST_PARTS};
use super::wire::Call;
use crate::digest::Tally;
use crate::direct::SentPart;
use crate::error::BlobError;
use crate::key::BlobKey;
use crate::store::{Content, Expected, Stored};

/// Parts that are sent while the next one is collected.
const AHEAD: usize = 2;
/// Most objects are small.
const FIRST: usize = 64 * 1024;

/// Content cut into parts.
struct Parts<'a> {
    /// Asked again after its end, when the last part is being sent.
    content: Fuse<Content<'a>>,
    rest: BytesMut,
    size: usize,
    tally: Tally,
    expected: Expected,
}

impl Parts<'_> {
    /// The next part; shorter than the others, or empty, at the end.
    async fn next(&mut self) -> Result<Bytes, BlobError> {
        while self.rest.len() < self.size {
            let Some(piece) = self.content.next().await else { break };
            let piece = piece.map_err(BlobError::Source)?;
            self.tally.add(&piece);
            self.expected.check_so_far(self.tally.size())?;
            self.rest.extend_from_slice(&piece);
        }
        Ok(self.rest.split_to(self.rest.len().min(self.size)).freeze())
    }
}

impl Bucket {
    pub(crate) async fn put(
        &self,
        key: &BlobKey,
        content: Content<'_>,
        expected: Expected,
    ) -> Result<Stored, BlobError> {
        let part_size = expected.size.and_then(|size| self.part_size(size));
        let size = part_size.and_then(|size| usize::try_from(size).ok()).unwrap_or(self.part_size);
        let mut parts = Parts {
            content: content.fuse(),
            rest: BytesMut::with_capacity(FIRST.min(size)),
            size,
            tally: Tally::default(),
            expected,
        };
        let first = parts.next().await?;
        if first.len() < size {
            let (size, sha256) = parts.tally.finish();
            expected.check(size, sha256)?;
            self.put_whole(key, first).await?;
            return Ok(Stored { size, sha256 });
        }
        let upload = Abandoned { bucket: self, key, id: self.begin_upload(key).await? };
        match self.put_parts(&upload, first, parts).await {
            Ok(stored) => Ok(stored),
            Err(error) => {
                upload.abort().await;
                Err(error)
            }
        }
    }

    async fn put_whole(&self, key: &BlobKey, body: Bytes) -> Result<(), BlobError> {
        const OPERATION: &str = "keep an object";
        let name = self.name(key);
        let url = || self.inner.put_object(Some(&self.credentials), &name).sign(AT_ONCE).into();
        let call = Call { operation: OPERATION, method: Method::PUT, url: &url, headers: Vec::new(), body };
        let answer = self.wire.ask(&call).await?;
        self.good(OPERATION, answer).map(drop)
    }

    async fn put_parts(
        &self,
        upload: &Abandoned<'_>,
        first: Bytes,
        mut parts: Parts<'_>,
    ) -> Result<Stored, BlobError> {
        let mut under_way = FuturesOrdered::new();
        let mut sent = Vec::new();
        let mut next = first;
        let mut number = 0;
        while !next.is_empty() {
            if number == MOST_PARTS {
                let limit = parts.size as u64 * u64::from(MOST_PARTS);
                return Err(BlobError::TooLarge { limit, parts: MOST_PARTS });
            }
            number += 1;
            under_way.push_back(self.put_part(upload, number, next));
            if under_way.len() >= AHEAD {
                sent.extend(under_way.next().await.transpose()?);
            }
            next = collect_meanwhile(&mut parts, &mut under_way, &mut sent).await?;
        }
        while let Some(part) = under_way.next().await {
            sent.push(part?);
        }
        let expected = parts.expected;
        let (size, sha256) = parts.tally.finish();
        expected.check(size, sha256)?;
        self.complete_upload(upload.key, &upload.id, &sent, size).await?;
        Ok(Stored { size, sha256 })
    }

    async fn put_part(
        &self,
        upload: &Abandoned<'_>,
        number: u16,
        body: Bytes,
    ) -> Result<SentPart, BlobError> {
        const OPERATION: &str = "keep a part of an object";
        let name = self.name(upload.key);
        let credentials = Some(&self.credentials);
        let url = || self.inner.upload_part(credentials, &name, number, &upload.id).sign(AT_ONCE).into();
        let call = Call { operation: OPERATION, method: Method::PUT, url: &url, headers: Vec::new(), body };
        let answer = self.wire.ask(&call).await?;
        let answer = self.good(OPERATION, answer)?;
        let etag = etag(&answer.headers);
        etag.map(|etag| SentPart { etag, sha256: None })
            .ok_or_else(|| BlobError::Unreadable { operation: OPERATION, reason: "no ETag".to_owned() })
    }
}

/// Collects the next part while those before it are sent.
async fn collect_meanwhile<F>(
    parts: &mut Parts<'_>,
    under_way: &mut FuturesOrdered<F>,
    sent: &mut Vec<SentPart>,
) -> Result<Bytes, BlobError>
where
    F: Future<Output = Result<SentPart, BlobError>>,
{
    let next = parts.next();
    tokio::pin!(next);
    loop {
        tokio::select! {
            // Those under way are asked first: a source that always has more must not keep them from being sent.
            biased;
            Some(part) = under_way.next() => sent.push(part?),
            part = &mut next => return part,
        }
    }
}

fn etag(headers: &HeaderMap) -> Option<String> {
    headers.get(ETAG)?.to_str().ok().map(str::to_owned)
}

/// An upload in parts that is under way.
struct Abandoned<'a> {
    bucket: &'a Bucket,
    key: &'a BlobKey,
    id: String,
}

impl Abandoned<'_> {
    /// What cannot be aborted now is swept later.
    async fn abort(&self) {
        if let Err(error) = self.bucket.abort_upload(self.key, &self.id).await {
            tracing::warn!(%error, key = %self.key, "an upload that failed could not be aborted; it is swept later");
        }
    }
}
