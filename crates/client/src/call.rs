//! The client handle and the one way every typed call goes: build, send, check the status, decode.
//!
//! Guarantee: a call never waits without a bound; a status that the call does not expect is
//! [`ClientError::Refused`] with the scheduler's own words.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use muster_tls::Trust;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bearer::WithToken;
use crate::error::ClientError;
use crate::http_transport::HttpTransport;
use crate::request_body::{Pieces, RequestBody};
use crate::transport::{Body, Transport, Upgraded};

/// How long a call that the scheduler answers at once may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Error texts are short; whatever is longer is not ours.
const ERROR_TEXT_LIMIT: usize = 16 * 1024;

/// One request before it is sent.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: RequestBody,
    timeout: Duration,
}

impl Call {
    /// A request without a body to a path with an optional query.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: RequestBody::default(),
            timeout: CALL_TIMEOUT,
        }
    }

    /// Sends a value as JSON.
    pub(crate) fn json(self, body: &impl Serialize) -> Result<Self, ClientError> {
        match serde_json::to_vec(body) {
            Ok(bytes) => Ok(self.bytes("application/json", bytes.into())),
            Err(source) => Err(ClientError::Encode { path: self.path, source }),
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn bytes(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.body = body.into();
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self
    }

    /// Sends content piece by piece; it must have this length.
    pub(crate) fn pieces(mut self, length: u64, pieces: Pieces) -> Self {
        self.body = RequestBody::pieces(length, pieces);
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        self
    }

    /// Adds a header; one that no request can carry is left out.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Sends a header along; one that cannot be sent is refused.
    pub(crate) fn checked_header(mut self, name: &'static str, value: &str) -> Result<Self, ClientError> {
        match HeaderValue::from_str(value) {
            Ok(value) => {
                self.headers.insert(name, value);
                Ok(self)
            }
            Err(source) => Err(ClientError::InvalidHeader { name, source }),
        }
    }

    fn into_request(self) -> Result<Request<RequestBody>, ClientError> {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.headers_mut() = self.headers;
        match self.path.parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(source) => return Err(ClientError::InvalidPath { path: self.path, source }),
        }
        Ok(request)
    }

    pub(crate) fn time_limit(&self) -> Duration {
        self.timeout
    }

    /// Bounds the time from sending to the last byte of the answer.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A handle on one scheduler; clones share its connections.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
}

impl Client {
    pub fn new(transport: impl Transport + 'static) -> Self {
        Self { transport: Arc::new(transport) }
    }

    /// A client of the scheduler at this URL. One with `https` is believed when an authority of this machine vouches for
    /// it.
    pub fn http(url: &str) -> Result<Self, ClientError> {
        Self::connect(url, &Trust::default())
    }

    /// A client of the scheduler at this URL, with more authorities or a pinned certificate.
    pub fn connect(url: &str, trust: &Trust) -> Result<Self, ClientError> {
        Ok(Self::new(HttpTransport::new(url, trust)?))
    }

    /// Where the scheduler is, without credentials.
    pub fn url(&self) -> &str {
        self.transport.url()
    }

    /// Sends a request and decodes the JSON of a good answer.
    pub(crate) async fn exchange<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let path = call.path.clone();
        let (status, bytes) = self.whole(call).await?;
        if status.is_success() { decode(&path, &bytes) } else { Err(refused(status, &bytes)) }
    }

    /// Sends a request whose good answer says nothing more.
    pub(crate) async fn accepted(&self, call: Call) -> Result<(), ClientError> {
        let (status, bytes) = self.whole(call).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status, &bytes)) }
    }

    /// The same client, showing a token with every request.
    pub fn with_token(self, token: &str) -> Result<Self, ClientError> {
        Ok(Self { transport: Arc::new(WithToken::new(self.transport, token)?) })
    }

    /// Whether it shows a token with every request.
    pub fn shows_token(&self) -> bool {
        self.transport.shows_token()
    }

    /// Sends a request and reads the whole answer, whatever its status.
    pub(crate) async fn whole(&self, call: Call) -> Result<(StatusCode, Bytes), ClientError> {
        let response = self.complete(call).await?;
        Ok((response.status(), response.into_body()))
    }

    /// Like [`Client::whole`], with the headers.
    pub(crate) async fn complete(&self, call: Call) -> Result<Response<Bytes>, ClientError> {
        let timeout = call.timeout;
        let exchange = async {
            let (head, body) = self.open(call).await?.into_parts();
            match body.collect().await {
                Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
                Err(source) => Err(ClientError::Interrupted { url: self.url().to_owned(), source }),
            }
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(ClientError::TimedOut { url: self.url().to_owned(), after: timeout }))
    }

    /// Asks to change over to another protocol; the caller bounds the time.
    pub(crate) async fn upgrade(&self, call: Call) -> Result<Upgraded, ClientError> {
        let request = call.into_request()?;
        self.transport.upgrade(request).await
    }

    /// Sends a request and hands over the answer as soon as its head is there; the caller bounds the time.
    pub(crate) async fn open(&self, call: Call) -> Result<Response<Body>, ClientError> {
        let request = call.into_request()?;
        self.transport.send(request).await
    }
}

/// Makes an error of an answer; the scheduler's text ends with a line break that people need not see.
pub(crate) fn refused(status: StatusCode, body: &[u8]) -> ClientError {
    let shown = &body[..body.len().min(ERROR_TEXT_LIMIT)];
    ClientError::Refused { status, message: String::from_utf8_lossy(shown).trim().to_owned() }
}

/// Reads JSON of a given shape.
pub(crate) fn decode<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes).map_err(|source| ClientError::Decode { path: path.to_owned(), source })
}
