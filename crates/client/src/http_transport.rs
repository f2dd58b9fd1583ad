//! HTTP/1.1 over TCP, with kept-alive connections and without Nagle's delay.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::base_url::BaseUrl;
use crate::error::ClientError;
use crate::transport::{Transport, TransportFuture};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
/// Shorter than the idle limit of common servers and proxies, so that a pooled connection is rarely dead.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// The transport to a scheduler in another process.
pub struct HttpTransport {
    base: BaseUrl,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpTransport").field("base", &self.base).finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// Takes the URL of the scheduler; connects when the first request is sent.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let base = BaseUrl::parse(url)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(TCP_KEEPALIVE));
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Ok(Self { base, pool })
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: Request<Bytes>) -> TransportFuture {
        let url = self.base.as_str().to_owned();
        let path = request.uri().to_string();
        let absolute = self.base.join(&path);
        let (mut parts, body) = request.into_parts();
        match absolute {
            Ok(uri) => parts.uri = uri,
            Err(source) => {
                return Box::pin(async move { Err(ClientError::InvalidPath { path, source }) });
            }
        }
        if let Some(value) = self.base.authorization() {
            parts.headers.entry(AUTHORIZATION).or_insert_with(|| value.clone());
        }
        let answer = self.pool.request(Request::from_parts(parts, Full::new(body)));
        Box::pin(async move {
            match answer.await {
                Ok(response) => Ok(boxed(response)),
                Err(source) => Err(ClientError::Unreachable { url, source: source.into() }),
            }
        })
    }

    fn url(&self) -> &str {
        self.base.as_str()
    }
}

fn boxed(response: Response<hyper::body::Incoming>) -> Response<crate::transport::Body> {
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
