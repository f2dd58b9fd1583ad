//! A connection that changes over to another protocol: the handler of the request gets it when the answer is on its way.
//!
//! Guarantees: nothing that was read already is lost; the connection keeps its place among the others until the handler lets
//! go of it; from then on its client may read as slowly as it likes, which is the new protocol's business.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures::future::BoxFuture;
use http::Extensions;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;

use super::Seat;
use crate::stalled::Stalled;

/// A connection, whatever is below it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The connection to come.
pub(crate) struct StreamFuture(BoxFuture<'static, io::Result<Box<dyn Stream>>>);

impl fmt::Debug for StreamFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamFuture")
    }
}

impl StreamFuture {
    pub(crate) fn new(stream: impl Future<Output = io::Result<Box<dyn Stream>>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl Future for StreamFuture {
    type Output = io::Result<Box<dyn Stream>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

/// A stream whose client need not keep pace any more.
pub(super) trait Patient {
    fn be_patient(&mut self);
}

impl<S> Patient for Stalled<S> {
    fn be_patient(&mut self) {
        self.wait_for_ever();
    }
}

impl<S> Patient for TlsStream<Stalled<S>> {
    fn be_patient(&mut self) {
        self.get_mut().0.wait_for_ever();
    }
}

/// Where a handler leaves word that it wants the connection.
#[derive(Clone, Default)]
pub(super) struct Wish(Arc<Mutex<Option<Handler>>>);

/// The handler that waits for the connection.
type Handler = oneshot::Sender<Box<dyn Stream>>;

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wish").field(&self.is_made()).finish()
    }
}

impl Wish {
    fn lock(&self) -> MutexGuard<'_, Option<Handler>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_made(&self) -> bool {
        self.lock().is_some()
    }

    /// Hands the connection over. One that nobody waits for any more is closed.
    pub(super) fn fulfil(&self, stream: impl Stream + 'static, read: Bytes, seat: Arc<Seat>) {
        if let Some(handler) = self.lock().take() {
            let _ = handler.send(Box::new(Taken { stream, read, _seat: seat }));
        }
    }
}

/// By which a handler takes over the connection of its request.
#[derive(Debug)]
pub(crate) enum Takeover {
    /// One that the listener serves.
    Listener(WishMaker),
    /// One within this process.
    Library(OnUpgrade),
}

/// Makes the wish of one request.
#[derive(Debug)]
pub(crate) struct WishMaker(Wish);

impl Takeover {
    /// Of the request with these extensions; `None` when it came by no connection that can be taken over.
    pub(crate) fn of(extensions: &mut Extensions) -> Option<Self> {
        if let Some(wish) = extensions.remove::<Wish>() {
            return Some(Self::Listener(WishMaker(wish)));
        }
        extensions.remove::<OnUpgrade>().map(Self::Library)
    }

    /// Takes the connection once the handler has answered that the protocol changes.
    pub(crate) fn take(self) -> StreamFuture {
        match self {
            Self::Listener(WishMaker(wish)) => {
                let (sender, receiver) = oneshot::channel();
                *wish.lock() = Some(sender);
                StreamFuture::new(async move {
                    receiver.await.map_err(|_| io::ErrorKind::ConnectionAborted.into())
                })
            }
            Self::Library(upgrade) => StreamFuture::new(async move {
                let stream = upgrade.await.map_err(io::Error::other)?;
                let stream: Box<dyn Stream> = Box::new(TokioIo::new(stream));
                Ok(stream)
            }),
        }
    }
}

/// A connection with what was read of it before.
struct Taken<S> {
    stream: S,
    read: Bytes,
    _seat: Arc<Seat>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Taken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..length]);
        self.read.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Taken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
