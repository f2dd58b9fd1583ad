//! The seam between calls and the way they travel.
//!
//! Guarantee: a request carries only a path and a query; where it goes is the transport's business.

use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

use crate::error::ClientError;
use crate::request_body::RequestBody;

/// Any error that a connection or a service can have.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response, read as it arrives.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The response to come.
pub type TransportFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, ClientError>> + Send>>;

/// A connection that has changed over to another protocol.
pub trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite + fmt::Debug + Send + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + fmt::Debug + Send + Unpin> Duplex for T {}

/// The answer to a request to change over: the connection with the head of the answer, or the response of a scheduler that
/// did not.
#[derive(Debug)]
pub enum Upgraded {
    Connection(Box<dyn Duplex>, HeaderMap),
    Refused(Response<Body>),
}

/// The connection to come.
pub type UpgradeFuture = Pin<Box<dyn Future<Output = Result<Upgraded, ClientError>> + Send>>;

/// Carries requests to one scheduler.
///
/// Dropping the future before it is ready abandons the request; the scheduler may have acted on it.
pub trait Transport: Debug + Send + Sync {
    /// Sends one request whose URI is a path with an optional query.
    fn send(&self, request: Request<RequestBody>) -> TransportFuture;

    /// Sends one request that asks to change over to another protocol on a connection of its own.
    fn upgrade(&self, request: Request<RequestBody>) -> UpgradeFuture;

    /// Where the scheduler is, without credentials; for messages and for `MUSTER_URL`.
    fn url(&self) -> &str;

    /// Whether it shows a token with every request.
    fn shows_token(&self) -> bool {
        false
    }
}
