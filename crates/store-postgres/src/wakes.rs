//! Telling other instances what a commit changed, and hearing it from them.
//!
//! A notification travels in the transaction it speaks of. The listener has a connection of its own; after
//! it was lost, everything counts as changed.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use muster_domain::{Timestamp, WorkerId};
use muster_store::Wake;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_postgres::{AsyncMessage, Client};

use crate::pool::Target;

pub(crate) const CHANNEL: &str = "muster";
/// The server refuses payloads of 8000 bytes; with more workers to stop than this holds, all are looked up.
const PAYLOAD_LIMIT: usize = 7_900;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A wake-up on its way. Short names, since many are sent.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own to look at")]
struct Payload {
    /// The instance that sent it, which ignores its own.
    #[serde(rename = "i")]
    instance: u64,
    #[serde(rename = "w", skip_serializing_if = "is_false")]
    work: bool,
    #[serde(rename = "g", skip_serializing_if = "is_false")]
    gangs: bool,
    #[serde(rename = "e", skip_serializing_if = "is_false")]
    events: bool,
    /// The earliest alarm, in microseconds since the epoch.
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    alarm: Option<i64>,
    #[serde(rename = "s", skip_serializing_if = "Vec::is_empty")]
    stops: Vec<WorkerId>,
    /// More workers have stop orders than could be named.
    #[serde(rename = "a", skip_serializing_if = "is_false")]
    all_stops: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The notification that goes with a commit, or `None` when there is nothing to tell.
pub(crate) fn notification(instance: u64, wake: &Wake) -> Option<String> {
    if wake.is_empty() {
        return None;
    }
    let mut stops = wake.stops.clone();
    stops.sort_unstable();
    stops.dedup();
    let mut payload = Payload {
        instance,
        work: wake.work,
        gangs: wake.gangs,
        events: wake.events,
        alarm: wake.alarm.map(Timestamp::as_micros),
        stops,
        all_stops: false,
    };
    let text = serde_json::to_string(&payload).ok()?;
    if text.len() <= PAYLOAD_LIMIT {
        return Some(text);
    }
    payload.stops.clear();
    payload.all_stops = true;
    serde_json::to_string(&payload).ok()
}

/// An open connection that listens.
struct Line {
    client: Client,
    payloads: UnboundedReceiver<String>,
}

struct Listener {
    target: Arc<Target>,
    instance: u64,
    line: Option<Line>,
    /// Whether there was a line before this one.
    reconnecting: bool,
    pause: Duration,
}

/// Wake-ups from other instances, without end.
pub(crate) fn listen(target: Arc<Target>, instance: u64) -> BoxStream<'static, Wake> {
    let listener = Listener { target, instance, line: None, reconnecting: false, pause: FIRST_PAUSE };
    stream::unfold(listener, |mut listener| async move {
        let wake = listener.next().await;
        Some((wake, listener))
    })
    .boxed()
}

impl Listener {
    async fn next(&mut self) -> Wake {
        loop {
            let Some(line) = &mut self.line else {
                if let Some(wake) = self.connect().await {
                    return wake;
                }
                continue;
            };
            if let Some(first) = line.payloads.recv().await {
                let wake = self.gather(first).await;
                if !wake.is_empty() {
                    return wake;
                }
            } else {
                tracing::warn!("the connection that listens for wake-ups was lost");
                self.line = None;
            }
        }
    }

    /// Opens the line. Returns a wake-up when something may have been missed.
    async fn connect(&mut self) -> Option<Wake> {
        match open(&self.target).await {
            Ok(line) => {
                let missed = std::mem::replace(&mut self.reconnecting, true);
                let stops = if missed { workers_to_stop(&line.client).await } else { Vec::new() };
                self.line = Some(line);
                self.pause = FIRST_PAUSE;
                missed.then_some(Wake {
                    work: true,
                    gangs: true,
                    events: true,
                    alarm: Some(Timestamp::default()),
                    stops,
                })
            }
            Err(error) => {
                // Also an instance that could not listen from the start has missed what was said.
                self.reconnecting = true;
                tracing::warn!(%error, pause = ?self.pause, "cannot listen for wake-ups; trying again");
                tokio::time::sleep(self.pause.mul_f64(rand::random_range(0.5..1.0))).await;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                None
            }
        }
    }

    /// Everything that has arrived by now, as one wake-up.
    async fn gather(&mut self, first: String) -> Wake {
        let mut wake = Wake::default();
        let mut all_stops = false;
        let Some(line) = &mut self.line else { return wake };
        let mut next = Some(first);
        while let Some(text) = next {
            all_stops |= merge(&mut wake, self.instance, &text);
            next = line.payloads.try_recv().ok();
        }
        if all_stops {
            wake.stops = workers_to_stop(&line.client).await;
        }
        wake.stops.sort_unstable();
        wake.stops.dedup();
        wake
    }
}

/// Adds a notification to `wake`; true when the workers to stop have to be looked up. One that cannot be
/// read comes from another version, and is taken to mean everything.
fn merge(wake: &mut Wake, own: u64, text: &str) -> bool {
    let payload: Payload = serde_json::from_str(text).unwrap_or(Payload {
        work: true,
        events: true,
        alarm: Some(0),
        all_stops: true,
        ..Payload::default()
    });
    if payload.instance == own {
        return false;
    }
    wake.merge(Wake {
        gangs: payload.gangs,
        work: payload.work,
        events: payload.events,
        alarm: payload.alarm.map(Timestamp::from_micros),
        stops: payload.stops,
    });
    payload.all_stops
}

async fn open(target: &Target) -> Result<Line, tokio_postgres::Error> {
    let (client, mut connection) = target.connect().await?;
    let (sender, payloads) = mpsc::unbounded_channel();
    // Ends when the client is dropped or the connection lost; the closed channel tells the listener.
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message
                && sender.send(notification.payload().to_owned()).is_err()
            {
                break;
            }
        }
    });
    client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
    Ok(Line { client, payloads })
}

/// The workers that have a stop order waiting. Without an answer the line is about to break, and the next
/// one asks again.
async fn workers_to_stop(client: &Client) -> Vec<WorkerId> {
    let sql = "SELECT DISTINCT worker_id FROM jobs WHERE status = 'preempting' AND worker_id IS NOT NULL";
    match client.query(sql, &[]).await {
        Ok(rows) => {
            rows.iter().filter_map(|row| row.try_get::<_, String>(0).ok()).map(WorkerId::new).collect()
        }
        Err(error) => {
            tracing::warn!(%error, "the workers with stop orders could not be read");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(stops: usize) -> Wake {
        let stops = (0..stops).map(|number| WorkerId::new(format!("worker-{number:04}"))).collect();
        Wake { work: true, gangs: false, events: false, alarm: Some(Timestamp::from_micros(5)), stops }
    }

    #[test]
    fn a_wake_up_arrives_as_it_was_sent_but_not_at_its_sender() {
        let text = notification(7, &wake(2)).unwrap();
        let mut heard = Wake::default();
        assert!(!merge(&mut heard, 8, &text));
        assert_eq!(heard, wake(2));
        let mut own = Wake::default();
        assert!(!merge(&mut own, 7, &text));
        assert!(own.is_empty());
        assert_eq!(notification(7, &Wake::default()), None);
    }

    #[test]
    fn too_many_stops_become_all_stops() {
        let text = notification(7, &wake(2_000)).unwrap();
        assert!(text.len() < 8_000, "{}", text.len());
        let mut heard = Wake::default();
        assert!(merge(&mut heard, 8, &text));
        assert!(heard.work && heard.stops.is_empty());
    }

    #[test]
    fn a_strange_payload_means_everything() {
        let mut heard = Wake::default();
        assert!(merge(&mut heard, 8, "not ours"));
        assert!(heard.work && heard.events);
    }
}
