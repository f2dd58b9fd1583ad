//! Output as server-sent events: each message carries the cursor at which to go on after it.
//!
//! Guarantees: a reader that does not take its messages for too long is told so and let go; until then a
//! few messages wait for it and nothing else is held; one that comes back with its cursor has lost nothing
//! that is still kept.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream;
use jiff::Timestamp;
use muster_protocol::{LogGap, LogPiece};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::batch::{Content, Item};
use super::follow::{Follow, Told};
use crate::metrics::Open;

/// A silent stream sends a comment this often, so that both ends notice when the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pieces that wait for a reader.
const AHEAD: usize = 2;

/// The stream of a reader that has `patience` to take each piece.
pub(crate) fn live(
    reader: Follow,
    patience: Duration,
    seat: (OwnedSemaphorePermit, Open),
) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    // One place more than pieces wait, for the last word.
    let (sender, receiver) = mpsc::channel(AHEAD + 1);
    tokio::spawn(feed(reader, sender, patience));
    // The seat is taken until the last piece has left.
    stream::unfold((receiver, seat), |(mut receiver, seat)| async move {
        Some((Ok(receiver.recv().await?), (receiver, seat)))
    })
}

async fn feed(mut reader: Follow, sender: mpsc::Sender<Bytes>, patience: Duration) {
    // The head of the answer leaves with the first bytes.
    if sender.send(Bytes::from_static(b": muster output\n\n")).await.is_err() {
        return;
    }
    let mut opened = false;
    loop {
        let told = tokio::select! {
            told = reader.next(if opened { KEEP_ALIVE } else { Duration::ZERO }) => told,
            () = sender.closed() => return,
        };
        let (text, last) = match told {
            Ok(Told::Items(items)) => (messages(&items, &reader), false),
            Ok(Told::Silence) if opened => (": still here\n\n".to_owned(), false),
            // From here on what comes is new: the reader must be able to say so when it comes back.
            Ok(Told::Silence) => (message("start", &reader, &Nothing {}), false),
            Ok(Told::End) => (message("end", &reader, &Nothing {}), true),
            Ok(Told::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "output could not be read");
                return;
            }
        };
        opened = true;
        // The last place of the queue is kept for the word that says why the stream ends.
        let room = tokio::time::timeout(patience, sender.reserve_many(2)).await;
        match room {
            Ok(Ok(mut places)) => places.next().map(|place| place.send(text.into())),
            Ok(Err(_)) => return,
            Err(_) => {
                let dropped = ": too slow\n\nevent: dropped\ndata: {}\n\n";
                // The place was kept for this.
                let _ = sender.try_send(Bytes::from_static(dropped.as_bytes()));
                reader.count_dropped();
                return;
            }
        };
        if last {
            return;
        }
    }
}

#[derive(Serialize)]
struct Nothing {}

/// One message with the place after it.
fn message(kind: &str, reader: &Follow, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("id: {}\nevent: {kind}\ndata: {data}\n\n", reader.cursor())
}

/// Messages of one read, each with the place right after it.
fn messages(items: &[Item], reader: &Follow) -> String {
    let mut cursor = reader.cursor().clone();
    for item in items.iter().rev() {
        cursor.set(item.run, item.stream, item.offset);
    }
    let mut text = String::new();
    for item in items {
        cursor.set(item.run, item.stream, item.end());
        let (attempt, lease) = (item.run.attempt, item.run.lease);
        let (stream, offset) = (item.stream, item.offset);
        let (kind, data) = match &item.content {
            Content::Bytes(bytes) => {
                let (text, base64) = match std::str::from_utf8(bytes) {
                    Ok(text) => (Some(text.to_owned()), None),
                    Err(_) => (None, Some(STANDARD.encode(bytes))),
                };
                let at = item.at.and_then(|micros| Timestamp::from_microsecond(micros).ok());
                let piece = LogPiece { attempt, lease, stream, offset, at, text, base64 };
                ("output", serde_json::to_string(&piece))
            }
            Content::Missing { bytes, cause } => {
                let gap = LogGap { attempt, lease, stream, offset, bytes: *bytes, cause: *cause };
                ("gap", serde_json::to_string(&gap))
            }
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "id: {cursor}\nevent: {kind}\ndata: {}\n\n", data.unwrap_or_default());
    }
    text
}
