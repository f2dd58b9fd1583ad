//! A transport that shows a token with every request.
//!
//! Guarantee: the token is never printed.

use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};

use crate::error::ClientError;
use crate::request_body::RequestBody;
use crate::transport::{Transport, TransportFuture, UpgradeFuture};

pub(crate) struct WithToken {
    inner: Arc<dyn Transport>,
    shown: HeaderValue,
}

impl fmt::Debug for WithToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithToken").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl WithToken {
    pub(crate) fn new(inner: Arc<dyn Transport>, token: &str) -> Result<Self, ClientError> {
        let wrong = |source| ClientError::InvalidHeader { name: "authorization", source };
        let mut shown = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
        shown.set_sensitive(true);
        Ok(Self { inner, shown })
    }
}

impl Transport for WithToken {
    fn send(&self, mut request: Request<RequestBody>) -> TransportFuture {
        request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| self.shown.clone());
        self.inner.send(request)
    }

    fn upgrade(&self, mut request: Request<RequestBody>) -> UpgradeFuture {
        request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| self.shown.clone());
        self.inner.upgrade(request)
    }

    fn url(&self) -> &str {
        self.inner.url()
    }

    fn shows_token(&self) -> bool {
        true
    }
}
