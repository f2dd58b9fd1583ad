//! Content out of a bucket, taken up again where it broke off.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, RANGE};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rusty_s3::S3Action as _;

use super::bucket::{AT_ONCE, Bucket};
use super::wire::{Call, SILENCE};
use crate::error::BlobError;
use crate::key::BlobKey;
use crate::store::{ByteRange, Reader};

const OPERATION: &str = "read an object";
/// How often in a row it may break off without a byte having come.
const TRIES: u32 = 5;

/// A body that is being read.
struct Open {
    bucket: Arc<Bucket>,
    key: BlobKey,
    body: Incoming,
    /// The next byte, and the one behind the last.
    at: u64,
    end: u64,
    broken: u32,
}

impl Bucket {
    pub(crate) async fn get(self: &Arc<Self>, key: &BlobKey, range: ByteRange) -> Result<Reader, BlobError> {
        if range.end.is_some_and(|end| end <= range.start) {
            let size = self.size(key).await?.ok_or_else(|| BlobError::NotFound { key: key.clone() })?;
            return Ok(Reader { size, body: futures::stream::empty().boxed() });
        }
        let (size, body) = self.open_at(key, range).await?;
        let Some(body) = body else {
            return Ok(Reader { size, body: futures::stream::empty().boxed() });
        };
        let end = range.end.unwrap_or(size).min(size);
        let open = Open { bucket: Arc::clone(self), key: key.clone(), body, at: range.start, end, broken: 0 };
        let pieces = futures::stream::unfold(Some(open), |open| async move {
            let mut open = open?;
            match open.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(open))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Reader { size, body: pieces.boxed() })
    }

    /// The size of the whole object, and its bytes from there on; none behind the end.
    async fn open_at(&self, key: &BlobKey, range: ByteRange) -> Result<(u64, Option<Incoming>), BlobError> {
        let name = self.name(key);
        let url = || self.inner.get_object(Some(&self.credentials), &name).sign(AT_ONCE).into();
        let headers = match (range.start, range.end) {
            (0, None) => Vec::new(),
            (start, None) => vec![(RANGE, format!("bytes={start}-"))],
            (start, Some(end)) => vec![(RANGE, format!("bytes={start}-{}", end - 1))],
        };
        let ranged = !headers.is_empty();
        let call = Call { operation: OPERATION, method: Method::GET, url: &url, headers, body: Bytes::new() };
        let response = self.wire.open(&call).await?;
        let unreadable =
            |reason: &str| BlobError::Unreadable { operation: OPERATION, reason: reason.to_owned() };
        match response.status() {
            StatusCode::NOT_FOUND => Err(BlobError::NotFound { key: key.clone() }),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let size = self.size(key).await?.ok_or_else(|| BlobError::NotFound { key: key.clone() })?;
                Ok((size, None))
            }
            StatusCode::PARTIAL_CONTENT => {
                let size = whole_size(response.headers()).ok_or_else(|| unreadable("no range"))?;
                Ok((size, Some(response.into_body())))
            }
            _ if ranged && range.start > 0 => Err(unreadable("all bytes instead of a range")),
            _ => {
                let size = length(response.headers()).ok_or_else(|| unreadable("no length"))?;
                Ok((size, Some(response.into_body())))
            }
        }
    }
}

impl Open {
    async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        while self.at < self.end {
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            match frame.unwrap_or_else(|_| None) {
                Some(Ok(frame)) => {
                    let Ok(mut data) = frame.into_data() else { continue };
                    data.truncate(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
                    if data.is_empty() {
                        continue;
                    }
                    self.at += data.len() as u64;
                    self.broken = 0;
                    return Ok(Some(data));
                }
                Some(Err(error)) => self.take_up(error.to_string()).await?,
                None => self.take_up("the object broke off".to_owned()).await?,
            }
        }
        Ok(None)
    }

    async fn take_up(&mut self, reason: String) -> Result<(), BlobError> {
        self.broken += 1;
        if self.broken >= TRIES {
            return Err(self.bucket.wire.unreachable(OPERATION, reason));
        }
        let range = ByteRange { start: self.at, end: Some(self.end) };
        match self.bucket.open_at(&self.key, range).await? {
            (_, Some(body)) => self.body = body,
            (_, None) => return Err(self.bucket.wire.unreachable(OPERATION, reason)),
        }
        Ok(())
    }
}

/// Of `bytes 0-9/100`, the last number.
fn whole_size(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_RANGE)?.to_str().ok()?.rsplit_once('/')?.1.parse().ok()
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
