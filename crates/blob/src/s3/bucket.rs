//! The bucket: its settings, links to it, and the operations that take one request.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, StatusCode};
use jiff::Timestamp;
use rusty_s3::actions::{CompleteMultipartUploadResponse, CreateMultipartUpload, ListObjectsV2};
use rusty_s3::{Credentials, S3Action, UrlStyle};

use super::answers::{self, Uploads};
use super::wire::{Answer, Call, Wire};
use crate::direct::SentPart;
use crate::error::BlobError;
use crate::key::BlobKey;
use crate::settings::{InvalidBlobSettings, LEAST_PART, S3Settings};
use crate::store::{Listed, Listing, Presigned};

/// How long a link lives that we use ourselves, at once.
pub(super) const AT_ONCE: Duration = Duration::from_secs(900);
/// The longest that S3 takes.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// The most parts of one object.
pub(super) const MOST_PARTS: u16 = 10_000;
/// Keys of one answer to a list.
const PAGE: usize = 1000;

#[derive(Debug)]
pub(crate) struct Bucket {
    pub(super) wire: Wire,
    pub(super) inner: rusty_s3::Bucket,
    /// The same bucket under the name that clients and workers reach it by; its links are only handed out.
    pub(super) shown: rusty_s3::Bucket,
    pub(super) credentials: Credentials,
    /// With a slash behind it, or empty.
    prefix: String,
    pub(super) part_size: usize,
}

impl Bucket {
    pub(crate) fn open(name: &str, prefix: &str, settings: &S3Settings) -> Result<Self, BlobError> {
        let amazon = || format!("https://s3.{}.amazonaws.com", settings.region);
        let url = settings.endpoint.clone().unwrap_or_else(amazon);
        let by_path = settings.path_style.unwrap_or(settings.endpoint.is_some() || name.contains('.'));
        let style = if by_path { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let named = |url: &str| {
            let invalid = |reason: String| InvalidBlobSettings::Endpoint { url: url.to_owned(), reason };
            let endpoint = url.parse().map_err(|error| invalid(format!("{error}")))?;
            let bucket = rusty_s3::Bucket::new(endpoint, style, name.to_owned(), settings.region.clone());
            bucket.map_err(|error| invalid(error.to_string()))
        };
        let inner = named(&url)?;
        let shown = settings.public_endpoint.as_deref().map_or_else(|| Ok(inner.clone()), named)?;
        let said = &settings.credentials;
        let credentials = match &said.session_token {
            Some(token) => Credentials::new_with_token(&said.access_key, &said.secret_key, token),
            None => Credentials::new(&said.access_key, &said.secret_key),
        };
        Ok(Self {
            wire: Wire::new(&settings.trust, url, name.to_owned())?,
            inner,
            shown,
            credentials,
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            part_size: settings.part_size.max(LEAST_PART),
        })
    }

    pub(crate) fn place(&self) -> String {
        format!("s3://{}/{}", self.inner.name(), self.prefix).trim_end_matches('/').to_owned()
    }

    /// What the bucket calls the object.
    pub(super) fn name(&self, key: &BlobKey) -> String {
        format!("{}{key}", self.prefix)
    }

    /// One request without headers of its own.
    pub(super) async fn ask(
        &self,
        operation: &'static str,
        method: Method,
        url: &(dyn Fn() -> String + Send + Sync),
    ) -> Result<Answer, BlobError> {
        let call = Call { operation, method, url, headers: Vec::new(), body: Bytes::new() };
        self.wire.ask(&call).await
    }

    /// An answer that something is missing, where only a missing bucket can be meant.
    pub(super) fn good(&self, operation: &'static str, answer: Answer) -> Result<Answer, BlobError> {
        if answer.status.is_success() { Ok(answer) } else { Err(self.wire.refused(operation, &answer)) }
    }

    pub(crate) async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        const OPERATION: &str = "look for an object";
        let name = self.name(key);
        let url = || self.inner.head_object(Some(&self.credentials), &name).sign(AT_ONCE).into();
        let answer = self.ask(OPERATION, Method::HEAD, &url).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let length = answer.headers.get(http::header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let missing = || BlobError::Unreadable { operation: OPERATION, reason: "no length".to_owned() };
        length.map(Some).ok_or_else(missing)
    }

    pub(crate) async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        const OPERATION: &str = "remove an object";
        let name = self.name(key);
        let url = || self.inner.delete_object(Some(&self.credentials), &name).sign(AT_ONCE).into();
        let answer = self.ask(OPERATION, Method::DELETE, &url).await?;
        let absent = answer.status == StatusCode::NOT_FOUND
            && answers::refusal(&answer.text()).is_none_or(|said| said.code != "NoSuchBucket");
        if absent { Ok(()) } else { self.good(OPERATION, answer).map(drop) }
    }

    pub(crate) async fn list(
        &self,
        prefix: &str,
        from: Option<&str>,
        limit: usize,
    ) -> Result<Listing, BlobError> {
        const OPERATION: &str = "list objects";
        let prefix = format!("{}{prefix}", self.prefix);
        let url = || {
            let mut list = self.inner.list_objects_v2(Some(&self.credentials));
            list.with_prefix(prefix.as_str());
            list.with_max_keys(limit.min(PAGE));
            if let Some(token) = from {
                list.with_continuation_token(token);
            }
            list.sign(AT_ONCE).into()
        };
        let answer = self.ask(OPERATION, Method::GET, &url).await?;
        let answer = self.good(OPERATION, answer)?;
        let read = ListObjectsV2::parse_response(&answer.text());
        let read = read.map_err(|error| unreadable(OPERATION, error))?;
        let next = read.next_continuation_token;
        let objects = read.contents.into_iter().filter_map(|content| {
            // What is no key of ours was put there by somebody else.
            let key = BlobKey::new(content.key.strip_prefix(&self.prefix)?).ok()?;
            let modified = content.last_modified.as_deref().and_then(time)?;
            Some(Listed { key, size: content.size.unwrap_or(0), modified })
        });
        Ok(Listing { objects: objects.collect(), next })
    }

    pub(crate) fn presigned_get(&self, key: &BlobKey, link: &Presigned) -> String {
        let name = self.name(key);
        let mut get = self.shown.get_object(Some(&self.credentials), &name);
        if let Some(content_type) = &link.content_type {
            get.query_mut().insert("response-content-type", content_type.as_str());
        }
        if let Some(disposition) = &link.disposition {
            get.query_mut().insert("response-content-disposition", disposition.as_str());
        }
        get.sign(within_bounds(link.expires)).into()
    }

    /// Bytes of each part but the last; `None` for what is sent whole.
    pub(crate) fn part_size(&self, size: u64) -> Option<u64> {
        let usual = self.part_size as u64;
        if size <= usual {
            return None;
        }
        // So that the parts do not become too many; in steps of a MiB.
        let least = size.div_ceil(u64::from(MOST_PARTS)).next_multiple_of(1024 * 1024);
        Some(usual.max(least))
    }

    pub(crate) async fn begin_upload(&self, key: &BlobKey) -> Result<String, BlobError> {
        const OPERATION: &str = "begin an upload";
        let name = self.name(key);
        let url = || self.inner.create_multipart_upload(Some(&self.credentials), &name).sign(AT_ONCE).into();
        let answer = self.ask(OPERATION, Method::POST, &url).await?;
        let answer = self.good(OPERATION, answer)?;
        let read = CreateMultipartUpload::parse_response(&answer.text());
        read.map(|read| read.upload_id().to_owned()).map_err(|error| unreadable(OPERATION, error))
    }

    /// Makes the object of its parts. Repeating a completion that went well goes well when the object has this size.
    pub(crate) async fn complete_upload(
        &self,
        key: &BlobKey,
        upload: &str,
        parts: &[SentPart],
        size: u64,
    ) -> Result<(), BlobError> {
        const OPERATION: &str = "complete an upload";
        let name = self.name(key);
        let url = || {
            let none = std::iter::empty::<&str>();
            let action = self.inner.complete_multipart_upload(Some(&self.credentials), &name, upload, none);
            action.sign(AT_ONCE).into()
        };
        let body = Bytes::from(completion(parts));
        let call = Call { operation: OPERATION, method: Method::POST, url: &url, headers: Vec::new(), body };
        let answer = self.wire.ask(&call).await;
        // A refusal can come with a status of success, once the work took long.
        if let Ok(answer) = &answer
            && answer.status.is_success()
            && answers::refusal(&answer.text()).is_none()
        {
            let read = CompleteMultipartUploadResponse::parse(&answer.text());
            return read.map(drop).map_err(|_| unreadable(OPERATION, "no result"));
        }
        // One that is repeated finds no upload any more, and the object.
        let answer = answer?;
        if self.size(key).await? == Some(size) {
            return Ok(());
        }
        Err(self.wire.refused(OPERATION, &answer))
    }

    pub(crate) async fn abort_upload(&self, key: &BlobKey, upload: &str) -> Result<(), BlobError> {
        const OPERATION: &str = "abort an upload";
        self.abort_named(OPERATION, &self.name(key), upload).await
    }

    async fn abort_named(&self, operation: &'static str, name: &str, upload: &str) -> Result<(), BlobError> {
        let credentials = Some(&self.credentials);
        let url = || self.inner.abort_multipart_upload(credentials, name, upload).sign(AT_ONCE).into();
        // 404: it is gone already.
        self.ask(operation, Method::DELETE, &url).await.map(drop)
    }

    pub(crate) async fn sweep_unfinished(&self, before: SystemTime) -> Result<u32, BlobError> {
        let mut marker: Option<(String, String)> = None;
        let mut swept = 0;
        loop {
            let page = self.uploads(&self.prefix, marker.as_ref()).await?;
            for upload in &page.begun {
                let begun = upload.initiated.as_deref().and_then(time);
                if begun.is_some_and(|begun| begun < before) && upload.key.starts_with(&self.prefix) {
                    self.abort_named("abort an upload", &upload.key, &upload.id).await?;
                    swept += 1;
                }
            }
            marker = page.next_key.zip(page.next_upload);
            if page.is_truncated != Some(true) || marker.is_none() {
                return Ok(swept);
            }
        }
    }

    pub(super) async fn uploads(
        &self,
        prefix: &str,
        after: Option<&(String, String)>,
    ) -> Result<Uploads, BlobError> {
        const OPERATION: &str = "list uploads";
        let url = || {
            // Sorted by name, as the signature needs them.
            let mut query = Vec::new();
            if let Some((key, _)) = after {
                query.push(("key-marker", key.as_str()));
            }
            if !prefix.is_empty() {
                query.push(("prefix", prefix));
            }
            if let Some((_, upload)) = after {
                query.push(("upload-id-marker", upload.as_str()));
            }
            query.push(("uploads", ""));
            let (method, credentials) = (rusty_s3::Method::Get, &self.credentials);
            rusty_s3::signing::sign(
                &Timestamp::now(),
                method,
                self.inner.base_url().clone(),
                credentials.key(),
                credentials.secret(),
                credentials.token(),
                self.inner.region(),
                AT_ONCE.as_secs(),
                query.into_iter(),
                std::iter::empty(),
            )
            .into()
        };
        let answer = self.ask(OPERATION, Method::GET, &url).await?;
        let answer = self.good(OPERATION, answer)?;
        answers::uploads(&answer.text())
            .map_err(|reason| BlobError::Unreadable { operation: OPERATION, reason })
    }
}

/// What S3 reads of the parts of an object.
fn completion(parts: &[SentPart]) -> String {
    use std::fmt::Write as _;
    let mut body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
    for (part, number) in parts.iter().zip(1_u32..) {
        let etag = part.etag.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        // Writing to a String cannot fail.
        let _ = write!(body, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>");
        if let Some(sha256) = &part.sha256 {
            let _ = write!(body, "<ChecksumSHA256>{}</ChecksumSHA256>", sha256.base64());
        }
        body.push_str("</Part>");
    }
    body + "</CompleteMultipartUpload>"
}

pub(super) fn unreadable(operation: &'static str, error: impl std::fmt::Display) -> BlobError {
    BlobError::Unreadable { operation, reason: error.to_string() }
}

pub(super) fn within_bounds(expires: Duration) -> Duration {
    expires.clamp(Duration::from_secs(1), LONGEST)
}

fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}
