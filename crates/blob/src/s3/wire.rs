//! Requests to S3: sent, bounded in time, repeated with back-off where that can help.
//!
//! Guarantees: what is repeated is safe to repeat, since every request names what it writes; a transfer is given up when
//! nothing moves, however long it takes as a whole.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use muster_tls::Trust;
use tokio::time::Instant;

use super::answers;
use super::paced::{PacedBody, Progress};
use crate::error::BlobError;

const CONNECT: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(20);
/// How long nothing may move: no byte taken of what is sent, no answer, no further byte of an answer.
pub(super) const SILENCE: Duration = Duration::from_secs(15);
/// Bytes of an answer that is not an object.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// How often something is tried, and how long after the first time it is tried again.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// After this time nothing is tried once more: a server that hangs is left to callers, who know how long they can wait.
const ENOUGH: Duration = Duration::from_secs(10);

/// One request, signed for each try anew.
pub(super) struct Call<'a> {
    /// "keep an object", for messages.
    pub(super) operation: &'static str,
    pub(super) method: Method,
    pub(super) url: &'a (dyn Fn() -> String + Send + Sync),
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: Bytes,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[derive(Debug)]
pub(super) struct Wire {
    client: Client<HttpsConnector<HttpConnector>, PacedBody>,
    endpoint: String,
    bucket: String,
}

impl Wire {
    pub(super) fn new(trust: &Trust, endpoint: String, bucket: String) -> Result<Self, BlobError> {
        let config = trust.client_config().map_err(BlobError::Certificates)?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let https = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(https.wrap_connector(connector));
        Ok(Self { client, endpoint, bucket })
    }

    /// Sends, reads the whole answer, and repeats both where that can help. An answer may be a refusal of the object's
    /// being, which is for the caller to judge: 404 and 412 come back as answers.
    pub(super) async fn ask(&self, call: &Call<'_>) -> Result<Answer, BlobError> {
        let (mut pause, began) = (FIRST_PAUSE, Instant::now());
        for attempt in 1.. {
            let outcome = self.once(call).await;
            let passing = outcome.as_ref().is_err_and(BlobError::is_passing);
            if !passing || attempt == TRIES || began.elapsed() > ENOUGH {
                return outcome;
            }
            tokio::time::sleep(jitter(pause)).await;
            pause *= 2;
        }
        unreachable_loop(call.operation, &self.endpoint)
    }

    /// Sends and returns with the head of the answer, for objects, whose bodies are passed on.
    pub(super) async fn open(&self, call: &Call<'_>) -> Result<Response<Incoming>, BlobError> {
        let (mut pause, began) = (FIRST_PAUSE, Instant::now());
        for attempt in 1.. {
            let outcome = self.send_good(call).await;
            let passing = outcome.as_ref().is_err_and(BlobError::is_passing);
            if !passing || attempt == TRIES || began.elapsed() > ENOUGH {
                return outcome;
            }
            tokio::time::sleep(jitter(pause)).await;
            pause *= 2;
        }
        unreachable_loop(call.operation, &self.endpoint)
    }

    async fn once(&self, call: &Call<'_>) -> Result<Answer, BlobError> {
        let response = self.send(call).await?;
        let (head, body) = response.into_parts();
        let body = read(body).await.map_err(|reason| self.unreachable(call.operation, reason))?;
        let answer = Answer { status: head.status, headers: head.headers, body };
        if answer.status.is_success() || answer.status == StatusCode::NOT_FOUND {
            return Ok(answer);
        }
        Err(self.refused(call.operation, &answer))
    }

    async fn send_good(&self, call: &Call<'_>) -> Result<Response<Incoming>, BlobError> {
        let response = self.send(call).await?;
        let status = response.status();
        if status.is_success() || [StatusCode::NOT_FOUND, StatusCode::RANGE_NOT_SATISFIABLE].contains(&status)
        {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = read(body).await.unwrap_or_default();
        Err(self.refused(call.operation, &Answer { status: head.status, headers: head.headers, body }))
    }

    async fn send(&self, call: &Call<'_>) -> Result<Response<Incoming>, BlobError> {
        let progress = Progress::default();
        let request = request(call, &progress).map_err(|reason| self.unreachable(call.operation, reason))?;
        match progress.watch(self.client.request(request), SILENCE).await {
            Some(Ok(response)) => Ok(response),
            Some(Err(error)) => Err(self.unreachable(call.operation, spelled(&error))),
            None => Err(self.unreachable(call.operation, silent())),
        }
    }

    pub(super) fn unreachable(&self, operation: &'static str, reason: String) -> BlobError {
        BlobError::Unreachable { operation, endpoint: self.endpoint.clone(), reason }
    }

    pub(super) fn refused(&self, operation: &'static str, answer: &Answer) -> BlobError {
        let status = answer.status.as_u16();
        let said = answers::refusal(&answer.text()).unwrap_or_default();
        let advice = answers::advice(status, &said.code);
        let bucket = self.bucket.clone();
        BlobError::Refused { operation, bucket, status, code: said.code, message: said.message, advice }
    }
}

/// The loops above end by returning.
fn unreachable_loop<T>(operation: &'static str, endpoint: &str) -> Result<T, BlobError> {
    let reason = "it was tried too often".to_owned();
    Err(BlobError::Unreachable { operation, endpoint: endpoint.to_owned(), reason })
}

/// Between half and all of it, so that many who failed together do not come back together.
fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}

/// What is said of a server that does not move.
pub(super) fn silent() -> String {
    format!("nothing moved for {} s", SILENCE.as_secs())
}

fn request(call: &Call<'_>, progress: &Progress) -> Result<Request<PacedBody>, String> {
    let mut builder = Request::builder()
        .method(call.method.clone())
        .uri((call.url)())
        .header(USER_AGENT, concat!("muster/", env!("CARGO_PKG_VERSION")));
    if call.method != Method::GET && call.method != Method::HEAD {
        builder = builder.header(CONTENT_LENGTH, call.body.len());
    }
    for (name, value) in &call.headers {
        let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
        builder = builder.header(name, value);
    }
    // What could not be sent is not repeated: the signature is in it.
    let body = PacedBody::new(call.body.clone(), progress.clone());
    builder.body(body).map_err(|_| "the request cannot be written".to_owned())
}

async fn read(mut body: Incoming) -> Result<Bytes, String> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = tokio::time::timeout(SILENCE, body.frame()).await.map_err(|_| silent())? {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MOST_BYTES {
            return Err(format!("the answer has more than {MOST_BYTES} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// What was wrong, with a certificate that is not believed before all else.
fn spelled(error: &hyper_util::client::legacy::Error) -> String {
    if let Some(untrusted) = muster_tls::untrusted(error) {
        return format!("{untrusted}; a CA of your own is named with --ca-file");
    }
    let cause = error.source().and_then(|source| source.source().or(Some(source)));
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}
