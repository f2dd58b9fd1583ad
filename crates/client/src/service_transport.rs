//! Calls a service of the same process as if it were remote: no socket, the same requests.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::error::ClientError;
use crate::request_body::RequestBody;
use crate::transport::{BoxError, Transport, TransportFuture};

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
    S::Future: Send,
    S::Error: Into<BoxError>,
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

    fn url(&self) -> &str {
        &self.url
    }
}
