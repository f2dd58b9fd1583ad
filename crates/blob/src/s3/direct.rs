//! Links to the bucket for others, and the check of what they sent.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{Method, StatusCode};
use rusty_s3::S3Action as _;
use rusty_s3::actions::{CreateMultipartUpload, ListParts};

use super::bucket::{AT_ONCE, Bucket, unreadable, within_bounds};
use super::wire::Call;
use crate::digest::Sha256;
use crate::direct::{Link, PartThere};
use crate::error::BlobError;
use crate::key::BlobKey;

const CHECKSUM: &str = "x-amz-checksum-sha256";
const MODE: &str = "x-amz-checksum-mode";
const ALGORITHM: &str = "x-amz-checksum-algorithm";

impl Bucket {
    /// Sends a content under the SHA-256 of another one, which has to be refused.
    pub(crate) async fn checks_content(&self) -> Result<bool, BlobError> {
        let name = format!("probe/{:016x}", rand::random::<u64>());
        let Ok(key) = BlobKey::new(name) else { return Ok(false) };
        let other = Sha256::of(b"other");
        let name = self.name(&key);
        let url = || {
            let mut put = self.inner.put_object(Some(&self.credentials), &name);
            put.headers_mut().insert(CHECKSUM, other.base64());
            put.sign(AT_ONCE).into()
        };
        let headers = vec![(HeaderName::from_static(CHECKSUM), other.base64())];
        let body = Bytes::from_static(b"content");
        let operation = "try whether content is checked";
        let call = Call { operation, method: Method::PUT, url: &url, headers, body };
        match self.wire.ask(&call).await {
            Ok(_) => self.delete(&key).await.map(|()| false),
            Err(BlobError::Refused { status: 400, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn put_link(&self, key: &BlobKey, sha256: Sha256, expires: Duration) -> Link {
        let name = self.name(key);
        let mut put = self.shown.put_object(Some(&self.credentials), &name);
        put.headers_mut().insert(CHECKSUM, sha256.base64());
        Link { url: put.sign(within_bounds(expires)).into(), headers: vec![(CHECKSUM, sha256.base64())] }
    }

    pub(crate) fn part_link(
        &self,
        (key, upload): (&BlobKey, &str),
        number: u16,
        sha256: Sha256,
        expires: Duration,
    ) -> Link {
        let name = self.name(key);
        let mut put = self.shown.upload_part(Some(&self.credentials), &name, number, upload);
        put.headers_mut().insert(CHECKSUM, sha256.base64());
        Link { url: put.sign(within_bounds(expires)).into(), headers: vec![(CHECKSUM, sha256.base64())] }
    }

    pub(crate) async fn take_up(&self, key: &BlobKey) -> Result<(String, Vec<PartThere>), BlobError> {
        let name = self.name(key);
        let under_way = self.uploads(&name, None).await?;
        if let Some(upload) = under_way.begun.into_iter().find(|upload| upload.key == name) {
            let parts = self.parts(&name, &upload.id).await?;
            // One that was completed or aborted in this moment is begun anew.
            if let Some(parts) = parts {
                return Ok((upload.id, parts));
            }
        }
        self.begin_checked(&name).await.map(|upload| (upload, Vec::new()))
    }

    /// Begins an upload whose parts come with their SHA-256.
    async fn begin_checked(&self, name: &str) -> Result<String, BlobError> {
        const OPERATION: &str = "begin an upload";
        let url = || {
            let mut create = self.inner.create_multipart_upload(Some(&self.credentials), name);
            create.headers_mut().insert(ALGORITHM, "SHA256");
            create.sign(AT_ONCE).into()
        };
        let headers = vec![(HeaderName::from_static(ALGORITHM), "SHA256".to_owned())];
        let call =
            Call { operation: OPERATION, method: Method::POST, url: &url, headers, body: Bytes::new() };
        let answer = self.wire.ask(&call).await?;
        let answer = self.good(OPERATION, answer)?;
        let read = CreateMultipartUpload::parse_response(&answer.text());
        read.map(|read| read.upload_id().to_owned()).map_err(|error| unreadable(OPERATION, error))
    }

    /// The parts of an upload that are there; `None` when it is gone.
    async fn parts(&self, name: &str, upload: &str) -> Result<Option<Vec<PartThere>>, BlobError> {
        const OPERATION: &str = "list parts";
        let (mut found, mut marker) = (Vec::new(), None);
        loop {
            let url = || {
                let mut list = self.inner.list_parts(Some(&self.credentials), name, upload);
                if let Some(marker) = marker {
                    list.set_part_number_marker(marker);
                }
                list.sign(AT_ONCE).into()
            };
            let answer = self.ask(OPERATION, Method::GET, &url).await?;
            if answer.status == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            let read = ListParts::parse_response(&self.good(OPERATION, answer)?.text());
            let read = read.map_err(|error| unreadable(OPERATION, error))?;
            found.extend(read.parts.into_iter().map(|part| PartThere {
                number: part.number,
                etag: part.etag,
                size: part.size,
            }));
            match read.next_part_number_marker {
                Some(next) => marker = Some(next),
                None => return Ok(Some(found)),
            }
        }
    }

    pub(crate) async fn check(
        &self,
        key: &BlobKey,
        size: u64,
        sha256: Sha256,
        parts: &[Sha256],
    ) -> Result<(), BlobError> {
        const OPERATION: &str = "check an object";
        let name = self.name(key);
        let url = || {
            let mut head = self.inner.head_object(Some(&self.credentials), &name);
            head.headers_mut().insert(MODE, "ENABLED");
            head.sign(AT_ONCE).into()
        };
        let headers = vec![(HeaderName::from_static(MODE), "ENABLED".to_owned())];
        let call =
            Call { operation: OPERATION, method: Method::HEAD, url: &url, headers, body: Bytes::new() };
        let answer = self.wire.ask(&call).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(BlobError::NotFound { key: key.clone() });
        }
        let text = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let found = text(CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
        let found = found.ok_or_else(|| unreadable(OPERATION, "no length"))?;
        if found != size {
            return Err(BlobError::WrongLength { expected: size, found });
        }
        // Each part was checked as it came; servers that say nothing here have no sum of all.
        match text(CHECKSUM).filter(|said| *said != checksum(sha256, parts)) {
            Some(said) => Err(BlobError::WrongChecksum { expected: sha256, found: said.to_owned() }),
            None => Ok(()),
        }
    }
}

/// What S3 says of an object: its SHA-256, or that of those of its parts.
fn checksum(sha256: Sha256, parts: &[Sha256]) -> String {
    if parts.is_empty() {
        return sha256.base64();
    }
    let all: Vec<u8> = parts.iter().flat_map(|part| *part.bytes()).collect();
    format!("{}-{}", Sha256::of(&all).base64(), parts.len())
}
