//! A stream that notes what the HTTP library does to it: whether it has read the beginning of a request, and whether it
//! answered one by itself, with a bare status.
//!
//! Guarantee: only an answer of the library is kept back, so that a better one can be sent in its place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How the library begins an answer to what it cannot read, and what comes before its date.
const BARE: [&[u8]; 3] = [
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: ",
    b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: ",
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: ",
];
/// `Tue, 15 Nov 1994 08:12:31 GMT` and two ends of lines.
const DATE: usize = 33;

/// A stream under the library.
#[derive(Debug)]
pub(super) struct Overheard<S> {
    stream: S,
    /// Something came after the last answer left.
    pub(super) heard: bool,
    /// The status of the answer that was kept back.
    pub(super) kept_back: Option<u16>,
}

impl<S> Overheard<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, heard: false, kept_back: None }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    fn keeps_back(&mut self, bytes: &[u8]) -> bool {
        let is_bare = |start: &&[u8]| bytes.len() == start.len() + DATE && bytes.starts_with(start);
        if !self.heard || !BARE.iter().any(is_bare) {
            return false;
        }
        self.kept_back = std::str::from_utf8(&bytes[9..12]).ok().and_then(|status| status.parse().ok());
        true
    }

    fn wrote<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.heard &= !matches!(written, Poll::Ready(Ok(_)));
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Overheard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.heard |= buffer.filled().len() > before;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Overheard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.keeps_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [piece] = pieces
            && self.keeps_back(piece)
        {
            return Poll::Ready(Ok(piece.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.kept_back.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
