//! A body that tells how much of it was taken, so that a transfer that stands still is told from a slow one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// Bytes that are given away at a time.
const PIECE: usize = 128 * 1024;
/// How often it is looked whether anything moves.
const LOOK: Duration = Duration::from_millis(500);

/// Bytes that were taken so far; clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for the outcome as long as bytes go on being taken; `None` after a silence of this length.
    pub(super) async fn watch<T>(&self, outcome: impl Future<Output = T>, silence: Duration) -> Option<T> {
        let mut outcome = std::pin::pin!(outcome);
        let (mut seen, mut since) = (self.taken(), Instant::now());
        loop {
            match tokio::time::timeout(LOOK.min(silence), &mut outcome).await {
                Ok(outcome) => return Some(outcome),
                Err(_) if self.taken() != seen => (seen, since) = (self.taken(), Instant::now()),
                Err(_) if since.elapsed() >= silence => return None,
                Err(_) => {}
            }
        }
    }
}

/// Bytes that are in memory, on their way.
#[derive(Debug)]
pub(super) struct PacedBody {
    rest: Bytes,
    progress: Progress,
}

impl PacedBody {
    pub(super) fn new(bytes: Bytes, progress: Progress) -> Self {
        Self { rest: bytes, progress }
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let most = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(most);
        self.progress.0.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_silence_ends_the_wait() {
        let progress = Progress::default();
        let silence = Duration::from_secs(10);
        let slow = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                progress.0.fetch_add(1, Ordering::Relaxed);
            }
            "done"
        };
        assert_eq!(progress.watch(slow, silence).await, Some("done"));
        let began = Instant::now();
        assert_eq!(progress.watch(std::future::pending::<()>(), silence).await, None);
        assert!(began.elapsed() < silence * 2);
    }
}
