//! HTTP/1.1 over TCP or TLS, with kept-alive connections and without Nagle's delay.
//!
//! Guarantee: nothing is sent over `https` before the certificate of the scheduler was found good, and nothing in clear
//! text where a certificate is pinned.

use std::fmt;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as Pool, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use muster_tls::{Trust, untrusted};

use crate::base_url::BaseUrl;
use crate::error::ClientError;
use crate::request_body::RequestBody;
use crate::transport::{BoxError, Transport, TransportFuture, UpgradeFuture, Upgraded};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
/// Shorter than the idle limit of common servers and proxies, so that a pooled connection is rarely dead.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// The transport to a scheduler in another process.
pub struct HttpTransport {
    base: BaseUrl,
    pool: Connections,
}

enum Connections {
    Plain(Pool<HttpConnector, RequestBody>),
    Secure(Pool<HttpsConnector<HttpConnector>, RequestBody>),
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpTransport").field("base", &self.base).finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// Takes the URL of the scheduler and the certificates to trust, and reads those from their files. It connects when the
    /// first request is sent.
    pub fn new(url: &str, trust: &Trust) -> Result<Self, ClientError> {
        let base = BaseUrl::parse(url)?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(TCP_KEEPALIVE));
        let mut builder = Pool::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE);
        let pool = if base.is_secure() {
            let config = trust.client_config().map_err(ClientError::Certificates)?;
            let https = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
            Connections::Secure(builder.build(https.wrap_connector(connector)))
        } else if trust.fingerprint.is_some() {
            let why = "a certificate is pinned (--tls-fingerprint), which needs https://";
            return Err(ClientError::InvalidUrl { url: base.as_str().to_owned(), why });
        } else {
            Connections::Plain(builder.build(connector))
        };
        Ok(Self { base, pool })
    }
}

impl HttpTransport {
    /// Sends a request; the answer may be one that changes the protocol.
    fn exchange(&self, request: Request<RequestBody>) -> Result<ResponseFuture, ClientError> {
        let path = request.uri().to_string();
        let absolute = self.base.join(&path);
        let (mut parts, body) = request.into_parts();
        parts.uri = absolute.map_err(|source| ClientError::InvalidPath { path, source })?;
        if let Some(value) = self.base.authorization() {
            parts.headers.entry(AUTHORIZATION).or_insert_with(|| value.clone());
        }
        let request = Request::from_parts(parts, body);
        Ok(match &self.pool {
            Connections::Plain(pool) => pool.request(request),
            Connections::Secure(pool) => pool.request(request),
        })
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: Request<RequestBody>) -> TransportFuture {
        let url = self.base.as_str().to_owned();
        let answer = self.exchange(request);
        Box::pin(async move {
            match answer?.await {
                Ok(response) => Ok(boxed(response)),
                Err(source) => Err(failure(url, source.into())),
            }
        })
    }

    fn upgrade(&self, request: Request<RequestBody>) -> UpgradeFuture {
        let url = self.base.as_str().to_owned();
        let answer = self.exchange(request);
        Box::pin(async move {
            let response = answer?.await.map_err(|source| failure(url.clone(), source.into()))?;
            changed_over(url, response).await
        })
    }

    fn url(&self) -> &str {
        self.base.as_str()
    }
}

/// Takes the connection of a response that changes the protocol.
pub(crate) async fn changed_over(
    url: String,
    mut response: Response<hyper::body::Incoming>,
) -> Result<Upgraded, ClientError> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Upgraded::Refused(boxed(response)));
    }
    match hyper::upgrade::on(&mut response).await {
        Ok(connection) => {
            let headers = std::mem::take(response.headers_mut());
            Ok(Upgraded::Connection(Box::new(TokioIo::new(connection)), headers))
        }
        Err(source) => Err(ClientError::Interrupted { url, source: source.into() }),
    }
}

fn failure(url: String, source: BoxError) -> ClientError {
    match untrusted(source.as_ref()) {
        Some(problem) => ClientError::Untrusted { url, problem: problem.clone() },
        None => ClientError::Unreachable { url, source },
    }
}

fn boxed(response: Response<hyper::body::Incoming>) -> Response<crate::transport::Body> {
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
