//! Bodies of requests on their way in.
//!
//! Guarantees: a body that is read has at most the bytes and takes at most the time that it may; the large ones together take
//! a bounded part of the memory until they are dropped; one that is slow costs what it has sent, and keeps nobody else waiting.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::error::ApiError;

/// How much of a body that is too large is still read, so that the client sees the answer, and for how long.
const DRAINED_BYTES: usize = 32 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Bodies up to this size take no part of the memory for large ones, so that small requests go on.
const SMALL: usize = 64 * 1024;
/// What a large one takes at a time.
const STEP: usize = 256 * 1024;
/// How long one waits, unread, for its next part.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body that was received. It holds its part of the memory for large bodies as long as it lives.
#[derive(Debug)]
pub(crate) struct Received {
    bytes: Bytes,
    _memory: Share,
}

impl Received {
    /// The bytes without the part of the memory: for those that are bounded in another way.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A growing part of the memory for large bodies.
#[derive(Debug)]
struct Share {
    memory: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Makes the part large enough for a body that has come to this size.
    async fn grow_to(&mut self, size: usize) -> Result<(), ApiError> {
        if size <= SMALL {
            return Ok(());
        }
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if size <= taken {
            return Ok(());
        }
        let more = u32::try_from((size - taken).next_multiple_of(STEP)).unwrap_or(u32::MAX);
        let waited = Arc::clone(&self.memory).acquire_many_owned(more);
        let Ok(Ok(more)) = tokio::time::timeout(PATIENCE, waited).await else {
            return Err(ApiError::too_many_bodies());
        };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// Reads a body within a size, the time for bodies, and the memory for large ones.
pub(crate) async fn read_body(app: &App, body: Body, limit: usize) -> Result<Received, ApiError> {
    receive(&app.bodies, body, limit, app.config.body_timeout).await
}

async fn receive(
    memory: &Arc<Semaphore>,
    mut body: Body,
    limit: usize,
    patience: Duration,
) -> Result<Received, ApiError> {
    let mut share = Share { memory: Arc::clone(memory), taken: None };
    let read = async {
        let collected = match body.size_hint().lower() {
            declared if declared > limit as u64 => Err(ApiError::too_large(limit)),
            _ => collect(&mut body, limit, &mut share).await,
        };
        if collected.as_ref().is_err_and(|error| error.status == StatusCode::PAYLOAD_TOO_LARGE) {
            // When it takes too long the client learns less, but no one else waits.
            let _ = tokio::time::timeout(DRAIN_TIME, drain(&mut body)).await;
        }
        collected
    };
    let bytes = tokio::time::timeout(patience, read).await.unwrap_or_else(|_| Err(ApiError::slow_body()))?;
    Ok(Received { bytes, _memory: share })
}

/// Most bodies come in one piece, which is passed on as it is.
async fn collect(body: &mut Body, limit: usize, share: &mut Share) -> Result<Bytes, ApiError> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| ApiError::unreadable_body())?.into_data() else { continue };
        let size = first.len() + all.len() + data.len();
        if size > limit {
            return Err(ApiError::too_large(limit));
        }
        share.grow_to(size).await?;
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Lets the client finish sending, within reason: one that is still sending does not read the answer.
async fn drain(body: &mut Body) {
    let mut left = DRAINED_BYTES;
    if body.size_hint().lower() > left as u64 {
        return;
    }
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        if size > left {
            return;
        }
        left -= size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;
    const LONG: Duration = Duration::from_secs(60);

    fn pieces(count: usize, size: usize) -> Body {
        let piece = Bytes::from(vec![b'x'; size]);
        Body::from_stream(futures::stream::iter(
            (0..count).map(move |_| Ok::<_, std::io::Error>(piece.clone())),
        ))
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_the_memory_and_small_ones_need_none() {
        let memory = Arc::new(Semaphore::new(4 * MIB));
        let one = receive(&memory, pieces(12, STEP), 8 * MIB, LONG).await.unwrap();
        assert_eq!((one.len(), memory.available_permits()), (3 * MIB, MIB));
        let refused = receive(&memory, pieces(12, STEP), 8 * MIB, LONG).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (503, "too_many_bodies"));
        assert_eq!(memory.available_permits(), MIB, "what was refused holds nothing");
        let small = receive(&memory, pieces(8, SMALL / 8), 8 * MIB, LONG).await.unwrap();
        assert_eq!((small.len(), memory.available_permits()), (SMALL, MIB));
        drop(one);
        assert_eq!(memory.available_permits(), 4 * MIB);
        receive(&memory, pieces(12, STEP), 8 * MIB, LONG).await.unwrap();
        assert_eq!(receive(&memory, pieces(12, STEP), MIB, LONG).await.unwrap_err().code, "body_too_large");
        assert_eq!(memory.available_permits(), 4 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_slow_costs_what_it_has_sent() {
        let memory = Arc::new(Semaphore::new(4 * MIB));
        let first = Bytes::from(vec![b'x'; MIB]);
        let start = futures::stream::iter([Ok::<_, std::io::Error>(first)]);
        let body = Body::from_stream(futures::StreamExt::chain(start, futures::stream::pending()));
        let receiving = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { receive(&memory, body, 8 * MIB, LONG).await.map(|received| received.len()) }
        });
        tokio::time::sleep(LONG / 2).await;
        assert_eq!(memory.available_permits(), 3 * MIB);
        assert_eq!(receiving.await.unwrap().unwrap_err().code, "body_timeout");
        assert_eq!(memory.available_permits(), 4 * MIB);
    }
}
