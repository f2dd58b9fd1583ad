//! Calls a service of the same process as if it were remote: no socket, the same requests.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tower::ServiceExt as _;

use crate::error::ClientError;
use crate::http_transport::changed_over;
use crate::request_body::RequestBody;
use crate::transport::{BoxError, Transport, TransportFuture, UpgradeFuture};

/// Bytes that may be under way in each direction of a connection that has changed over.
const PIPE_BYTES: usize = 64 * 1024;

/// The transport to a scheduler in this process, such as a router of the server crate.
#[derive(Clone)]
pub struct ServiceTransport<S> {
    service: S,
    url: String,
}

impl<S> fmt::Debug for ServiceTransport<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServiceTransport").field("url", &self.url).finish_non_exhaustive()
    }
}

impl<S> ServiceTransport<S> {
    /// `url` is where other processes find the same scheduler; jobs see it as `MUSTER_URL`.
    pub fn new(service: S, url: impl Into<String>) -> Self {
        Self { service, url: url.into() }
    }
}

impl<S, B> Transport for ServiceTransport<S>
where
    S: tower::Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    <S as tower::Service<Request<RequestBody>>>::Future: Send,
    <S as tower::Service<Request<RequestBody>>>::Error: Into<BoxError>,
    S: tower::Service<Request<Incoming>, Response = Response<B>>,
    <S as tower::Service<Request<Incoming>>>::Future: Send,
    <S as tower::Service<Request<Incoming>>>::Error: Into<BoxError>,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: Request<RequestBody>) -> TransportFuture {
        let service = self.service.clone();
        let url = self.url.clone();
        Box::pin(async move {
            match service.oneshot(request).await {
                Ok(response) => Ok(response.map(|body| body.map_err(Into::into).boxed_unsync())),
                Err(source) => Err(ClientError::Unreachable { url, source: source.into() }),
            }
        })
    }

    /// By a connection within the process, served like one that came from elsewhere.
    fn upgrade(&self, request: Request<RequestBody>) -> UpgradeFuture {
        let service = self.service.clone();
        let url = self.url.clone();
        Box::pin(async move {
            let (here, there) = tokio::io::duplex(PIPE_BYTES);
            let answer = service_fn(move |request: Request<Incoming>| service.clone().oneshot(request));
            let served = server::Builder::new().serve_connection(TokioIo::new(there), answer);
            tokio::spawn(served.with_upgrades());
            let unreachable =
                |source: hyper::Error| ClientError::Unreachable { url: url.clone(), source: source.into() };
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(here)).await.map_err(unreachable)?;
            tokio::spawn(connection.with_upgrades());
            let response = sender.send_request(request).await.map_err(unreachable)?;
            changed_over(url, response).await
        })
    }

    fn url(&self) -> &str {
        &self.url
    }
}
