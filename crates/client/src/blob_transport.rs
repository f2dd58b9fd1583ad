//! Requests to the blob store itself, by links that the scheduler has signed.
//!
//! Guarantees: no credential of ours goes along; a transfer is given up when nothing moves, however long it takes as a
//! whole.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ETAG, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use muster_protocol::BlobLink;
use muster_tls::Trust;
use tokio::time::Instant;

use crate::error::ClientError;
use crate::request_body::{Pieces, RequestBody};
use crate::transport::{Body, BoxError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const POOL_IDLE: Duration = Duration::from_secs(20);
/// How long nothing may move.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(500);
/// Bytes of an answer that is no object.
const TEXT: usize = 16 * 1024;

/// Why something did not get there.
#[derive(Debug, thiserror::Error)]
pub enum BlobFailure {
    /// Nothing answered, or not to the end.
    #[error("the blob store cannot be reached: {0}")]
    Away(String),
    #[error("the blob store answered {status}: {message}")]
    Refused { status: StatusCode, message: String },
}

/// Connections to the blob store; clones share them.
#[derive(Clone)]
pub struct BlobClient {
    pool: Pool<HttpsConnector<HttpConnector>, RequestBody>,
}

impl fmt::Debug for BlobClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlobClient")
    }
}

impl BlobClient {
    /// A store with `https` is believed when an authority of this machine, or of the file that `trust` names, vouches for
    /// it. A pinned certificate is that of the scheduler.
    pub fn new(trust: &Trust) -> Result<Self, ClientError> {
        let trust = Trust { fingerprint: None, ..trust.clone() };
        let config = trust.client_config().map_err(ClientError::Certificates)?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let https = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
        let mut builder = Pool::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE);
        Ok(Self { pool: builder.build(https.wrap_connector(connector)) })
    }

    /// Sends content to where the link leads. Returns the `ETag` that the store gave it.
    pub async fn put(&self, link: &BlobLink, length: u64, pieces: Pieces) -> Result<String, BlobFailure> {
        let away = |error: &dyn std::error::Error| BlobFailure::Away(error.to_string());
        let (pieces, taken) = counted(pieces);
        let mut request = Request::builder().method(Method::PUT).uri(&link.url);
        for (name, value) in &link.headers {
            request = request.header(name, value);
        }
        let request = request.body(RequestBody::pieces(length, pieces)).map_err(|error| away(&error))?;
        let exchange = async {
            let response = self.pool.request(request).await.map_err(|error| away(cause(&error)))?;
            let etag = response.headers().get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned);
            answered(response).await?;
            etag.ok_or_else(|| BlobFailure::Away("it gave no ETag".to_owned()))
        };
        watch(&taken, exchange, SILENCE).await.unwrap_or_else(|| Err(silent()))
    }

    /// Reads an object from an offset on; `None` when nothing lies behind it.
    pub(crate) async fn get(&self, url: &str, offset: u64) -> Result<Option<Body>, BlobFailure> {
        let mut request = Request::builder().method(Method::GET).uri(url);
        if offset > 0 {
            request = request.header(RANGE, format!("bytes={offset}-"));
        }
        let request = request.body(RequestBody::default());
        let request = request.map_err(|error| BlobFailure::Away(error.to_string()))?;
        let response = tokio::time::timeout(SILENCE, self.pool.request(request)).await;
        let response = response.map_err(|_| silent())?;
        let response = response.map_err(|error| BlobFailure::Away(cause(&error).to_string()))?;
        match response.status() {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(None),
            StatusCode::PARTIAL_CONTENT => Ok(Some(body(response))),
            StatusCode::OK if offset == 0 => Ok(Some(body(response))),
            StatusCode::OK => Err(BlobFailure::Away("it sent all bytes instead of a range".to_owned())),
            _ => answered(response).await.map(|()| None),
        }
    }
}

fn body(response: Response<Incoming>) -> Body {
    response.into_body().map_err(Into::into).boxed_unsync()
}

fn silent() -> BlobFailure {
    BlobFailure::Away(format!("nothing moved for {} s", SILENCE.as_secs()))
}

/// The innermost cause says more to people than the layers of the HTTP stack around it.
fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

/// Reads an answer to its end, so that its connection can be used again.
async fn answered(response: Response<Incoming>) -> Result<(), BlobFailure> {
    let status = response.status();
    let read = Limited::new(response.into_body(), TEXT).collect();
    let read = tokio::time::timeout(SILENCE, read).await.map_err(|_| silent())?;
    if status.is_success() {
        return read.map(drop).map_err(|error| BlobFailure::Away(error.to_string()));
    }
    let text = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let message = text.split_once("<Message>").and_then(|(_, rest)| rest.split_once("</Message>"));
    let message = message.map_or_else(|| text.trim().to_owned(), |(message, _)| message.to_owned());
    Err(BlobFailure::Refused { status, message: message.chars().take(300).collect() })
}

/// The same pieces, and how many bytes of them were taken.
pub(crate) fn counted(pieces: Pieces) -> (Pieces, Arc<AtomicU64>) {
    let taken = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&taken);
    let note = move |piece: &Result<Bytes, BoxError>| {
        let length = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        counter.fetch_add(length, Ordering::Relaxed);
    };
    (pieces.inspect(note).boxed(), taken)
}

/// Waits for the outcome as long as bytes go on being taken; `None` after a silence of this length.
pub(crate) async fn watch<T>(
    taken: &AtomicU64,
    outcome: impl Future<Output = T>,
    silence: Duration,
) -> Option<T> {
    let mut outcome = std::pin::pin!(outcome);
    let (mut seen, mut since) = (taken.load(Ordering::Relaxed), Instant::now());
    loop {
        match tokio::time::timeout(LOOK, &mut outcome).await {
            Ok(outcome) => return Some(outcome),
            Err(_) if taken.load(Ordering::Relaxed) != seen => {
                (seen, since) = (taken.load(Ordering::Relaxed), Instant::now());
            }
            Err(_) if since.elapsed() >= silence => return None,
            Err(_) => {}
        }
    }
}
