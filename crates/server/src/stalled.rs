//! A connection that gives up when the other side takes nothing for too long.
//!
//! Guarantee: whoever stops reading an answer, however long or endless it is, holds a connection for a bounded
//! time. One that has nothing to read, or reads slowly but does, is left alone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes may wait for a bounded time.
pub(crate) struct Stalled<S> {
    stream: S,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> Stalled<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, timer: Box::pin(tokio::time::sleep(patience)), waiting: false }
    }

    /// Passes on what a write came to; one that waits starts the clock, and ends with it.
    fn judge<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_reads_ends() {
        let (ours, _theirs) = tokio::io::duplex(10);
        let mut ours = Stalled::new(ours, PATIENCE);
        let begin = Instant::now();
        let failed = ours.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!((failed.kind(), begin.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_and_a_silent_one_are_left_alone() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut ours = Stalled::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut buffer = [0; 10];
            for _ in 0..10 {
                tokio::time::sleep(PATIENCE.mul_f32(0.9)).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 100]).await.unwrap();
        let _theirs = reading.await.unwrap();
        tokio::time::sleep(PATIENCE * 3).await;
        ours.write_all(&[0; 5]).await.unwrap();
    }
}
