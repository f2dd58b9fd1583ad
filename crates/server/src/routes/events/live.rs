//! The stream to one reader.
//!
//! Guarantees: a few pages wait for a reader and nothing else is held for it; one that does not take them for
//! too long is told so and let go.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::reader::Reader;
use crate::metrics::Open;

/// Pages that wait for a reader.
const AHEAD: usize = 2;

pub(super) fn live(
    reader: Reader,
    permit: (OwnedSemaphorePermit, Open),
) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    // One place more than pages wait, for the last word.
    let (sender, receiver) = mpsc::channel(AHEAD + 1);
    tokio::spawn(async move {
        feed(reader, sender).await;
        drop(permit);
    });
    stream::unfold(receiver, |mut receiver| async move { Some((Ok(receiver.recv().await?), receiver)) })
}

async fn feed(mut reader: Reader, sender: mpsc::Sender<Bytes>) {
    // The head of the answer leaves with the first bytes.
    if sender.send(Bytes::from_static(b": muster events\n\n")).await.is_err() {
        return;
    }
    let patience = reader.patience();
    loop {
        let text = tokio::select! {
            text = reader.next() => text,
            () = sender.closed() => return,
        };
        let Some(text) = text else { return };
        // The last place of the queue is kept for the word that says why the stream ends.
        match tokio::time::timeout(patience, sender.reserve_many(2)).await {
            Ok(Ok(mut places)) => places.next().map(|place| place.send(text.into())),
            Ok(Err(_)) => return,
            Err(_) => {
                // The place was kept for this.
                let _ = sender.try_send(Bytes::from_static(b"event: dropped\ndata: {}\n\n"));
                reader.count_dropped();
                return;
            }
        };
    }
}
