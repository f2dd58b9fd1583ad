//! The body of a request: bytes that are there, or content that is read while it is sent.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::BoxStream;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use crate::transport::BoxError;

/// Content on its way, in pieces of any size.
pub type Pieces = BoxStream<'static, Result<Bytes, BoxError>>;

/// What a request carries.
pub enum RequestBody {
    Whole(Full<Bytes>),
    /// So many bytes are still to come.
    Pieces(u64, Pieces),
}

impl RequestBody {
    /// Content of a known length. A source that has more or less breaks the request off.
    pub fn pieces(length: u64, pieces: Pieces) -> Self {
        Self::Pieces(length, pieces)
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(_) => f.write_str("RequestBody::Whole"),
            Self::Pieces(left, _) => write!(f, "RequestBody::Pieces({left})"),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Whole(whole) => Pin::new(whole).poll_frame(context).map_err(|never| match never {}),
            Self::Pieces(left, pieces) => match pieces.as_mut().poll_next(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => {
                    let Some(rest) = left.checked_sub(piece.len() as u64) else {
                        return Poll::Ready(Some(Err("the content became longer while it was sent".into())));
                    };
                    *left = rest;
                    Poll::Ready(Some(Ok(Frame::data(piece))))
                }
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
                Poll::Ready(None) if *left > 0 => {
                    *left = 0;
                    Poll::Ready(Some(Err("the content became shorter while it was sent".into())))
                }
                Poll::Ready(None) => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            // The source is asked to the end: it may have more than it said.
            Self::Pieces(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Pieces(left, _) => SizeHint::with_exact(*left),
        }
    }
}
