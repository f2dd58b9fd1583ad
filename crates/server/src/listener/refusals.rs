//! What a client hears whose request never came to a route: a status, a stable code, the bound, and what to do.
//!
//! Guarantee: the words leave within [`PATIENCE`], or not at all; a client that goes on sending can read them.

use std::io;
use std::time::Duration;

use http::StatusCode;
use muster_protocol::Problem;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::places::Crowd;
use crate::bounds::Bounds;
use crate::ids;

/// For the words, and for what the client had still sent.
const PATIENCE: Duration = Duration::from_secs(2);
const DRAINED_BYTES: u64 = 1024 * 1024;

/// Why a connection ends before a route was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    message: String,
    retry_after: Option<u32>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self { status, code, message, retry_after: None }
    }

    pub(super) fn head_too_large(bounds: &Bounds) -> Self {
        let message = format!(
            "the head of a request has at most {} bytes (--head-limit) and {} headers (--header-count-limit)",
            bounds.head_bytes, bounds.headers
        );
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message)
    }

    pub(super) fn url_too_long(limit: usize) -> Self {
        let message = format!("the path and the query of a request have at most {limit} bytes (--url-limit)");
        Self::new(StatusCode::URI_TOO_LONG, "url_too_long", message)
    }

    pub(super) fn malformed() -> Self {
        let message = "this is no request of HTTP/1.1: its first line or a header cannot be read".to_owned();
        Self::new(StatusCode::BAD_REQUEST, "malformed_request", message)
    }

    pub(super) fn slow_head(patience: Duration) -> Self {
        let message =
            format!("the head of the request did not arrive within {patience:?} (--header-timeout)");
        Self::new(StatusCode::REQUEST_TIMEOUT, "head_timeout", message)
    }

    /// A proxy's address counts as one, so that the flag is named.
    pub(super) fn crowded(crowd: Crowd) -> Self {
        let (code, message) = match crowd {
            Crowd::Address { limit } => (
                "address_connections",
                format!(
                    "{limit} connections of your address are open, which is the most (--max-connections-per-address): close \
                     some, or use one connection for several requests"
                ),
            ),
            Crowd::UnknownOfAddress { limit } => (
                "unknown_connections",
                format!(
                    "{limit} connections of your address have shown no credential, which is the most \
                     (--max-unknown-per-address): show one, or close some"
                ),
            ),
            Crowd::Unknown { limit } => (
                "too_many_connections",
                format!(
                    "{limit} connections have shown no credential, which is the most; the others are for callers that have \
                     (--max-connections): try again later"
                ),
            ),
        };
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, code, message);
        Self { retry_after: Some(5), ..refusal }
    }

    fn bytes(&self) -> Vec<u8> {
        let title = self.status.canonical_reason().unwrap_or_default();
        let id = ids::request().hyphenated().to_string();
        let problem = Problem {
            code: self.code.to_owned(),
            title: title.to_owned(),
            status: self.status.as_u16(),
            detail: self.message.clone(),
            field: None,
            request_id: id.clone(),
        };
        let body = serde_json::to_string(&problem).unwrap_or_default();
        let retry = self.retry_after.map(|seconds| format!("Retry-After: {seconds}\r\n")).unwrap_or_default();
        let (status, length) = (self.status.as_u16(), body.len() + 1);
        format!(
            "HTTP/1.1 {status} {title}\r\nContent-Type: application/problem+json\r\nContent-Length: {length}\r\n\
             X-Request-Id: {id}\r\nX-Content-Type-Options: nosniff\r\n{retry}Connection: close\r\n\r\n{body}\n"
        )
        .into_bytes()
    }

    /// Says it and closes the connection.
    pub(super) async fn tell(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let bytes = self.bytes();
        let said = async {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            stream.shutdown().await?;
            // A connection that is closed with bytes unread is reset, and the answer may be lost.
            tokio::io::copy(&mut stream.take(DRAINED_BYTES), &mut tokio::io::sink()).await
        };
        let said: Result<io::Result<u64>, _> = tokio::time::timeout(PATIENCE, said).await;
        tracing::debug!(code = self.code, told = said.is_ok(), "a connection was refused");
    }
}
