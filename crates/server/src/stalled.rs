//! A connection that gives up when the other side takes too little for too long.
//!
//! Guarantee: a client that stops reading an answer, or reads it byte by byte, holds a connection for a bounded time,
//! however long or endless the answer is. One that has nothing to read, or reads [`PACE`] in time, is left alone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What a client that is behind takes in time, at the least.
const PACE: usize = 64 * 1024;
/// The timer knows no longer time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A stream whose writes may wait for a bounded time.
pub(crate) struct Stalled<S> {
    stream: S,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    /// What was taken since the clock started; `None` while the client is not behind.
    taken: Option<usize>,
}

impl<S> Stalled<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, timer: Box::pin(tokio::time::sleep(patience)), taken: None }
    }

    /// From now on the client may take as long as it likes.
    pub(crate) fn wait_for_ever(&mut self) {
        self.patience = FOR_EVER;
        self.taken = None;
    }

    fn start(&mut self) {
        self.taken = Some(0);
        self.timer.as_mut().reset(Instant::now() + self.patience);
    }

    /// Passes on what a write came to. One that waits starts the clock; only as much as was to be taken stops it.
    fn judge(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match (&mut self.taken, &written) {
            (Some(taken), Poll::Ready(Ok(bytes))) => {
                *taken += bytes;
                if *taken >= PACE {
                    self.start();
                }
                return written;
            }
            (None, Poll::Ready(_)) | (Some(_), Poll::Ready(Err(_))) => return written,
            (None, Poll::Pending) => self.start(),
            (Some(_), Poll::Pending) => {}
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
        if flushed.is_ready() {
            // Nothing waits any more.
            self.taken = None;
            return flushed;
        }
        self.judge(Poll::Pending, context).map_ok(drop)
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
        let (ours, mut theirs) = tokio::io::duplex(PACE);
        let mut ours = Stalled::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; PACE];
            for _ in 0..10 {
                tokio::time::sleep(PATIENCE.mul_f32(0.9)).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
            theirs
        });
        ours.write_all(&vec![0; 10 * PACE]).await.unwrap();
        ours.flush().await.unwrap();
        let _theirs = reading.await.unwrap();
        tokio::time::sleep(PATIENCE * 3).await;
        ours.write_all(&[0; 5]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_byte_by_byte_is_let_go() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut ours = Stalled::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            while theirs.read_exact(&mut [0]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let begin = Instant::now();
        let failed = ours.write_all(&[0; 10_000]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < PATIENCE * 2);
        drop(ours);
        reading.await.unwrap();
    }
}
