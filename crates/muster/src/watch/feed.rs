//! What is asked of the scheduler, and when.
//!
//! Guarantee: nothing is read more often than `SHORTEST` nor in more than a quarter of the time, however
//! much happens; an event is only the sign that something has changed, so that it does not matter how
//! many there are. Without events everything is read again after `SAFETY`.

use std::time::Duration;

use jiff::Timestamp;
use muster_client::{Client, ClientError, EventReader};
use muster_protocol::SetKind;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::model::{Message, Request};
use super::output::follow_output;
use super::snapshot::{Wanted, read};
use crate::output::{Screen, array_details, job_details, pipeline_tree, timeline};

/// The least time between two readings.
const SHORTEST: Duration = Duration::from_millis(500);
/// Heartbeats of workers are no events; they are seen at the latest after this time.
const SAFETY: Duration = Duration::from_secs(5);
/// Between two attempts to reach a scheduler that is away.
const AWAY: Duration = Duration::from_secs(1);
/// Events beyond this are not worth reading: the stream is opened anew where it is now.
const MOST_EVENTS: usize = 1000;

/// Where answers go.
pub(super) type News = mpsc::Sender<Message>;

/// Does what the model asks for, in the background.
pub(super) struct Feed {
    client: Client,
    news: News,
    wanted: watch::Sender<Wanted>,
    reading: JoinHandle<()>,
    logs: Option<JoinHandle<()>>,
}

impl Feed {
    pub(super) fn start(client: Client, wanted: Wanted, news: News) -> Self {
        let (sender, receiver) = watch::channel(wanted);
        let reading = tokio::spawn(keep_reading(client.clone(), receiver, news.clone()));
        Self { client, news, wanted: sender, reading, logs: None }
    }

    /// Begins with a request; its answer is a message. Others than the feed's are nothing to it.
    pub(super) fn begin(&mut self, request: Request) {
        let (client, news) = (self.client.clone(), self.news.clone());
        match request {
            Request::Refresh(wanted) => {
                self.wanted.send_replace(wanted);
            }
            Request::Explain { job_id, asked } => {
                tokio::spawn(async move { tell(&news, explain(&client, &job_id, asked).await).await });
            }
            Request::Describe { job_id } => {
                tokio::spawn(async move { tell(&news, describe(&client, &job_id).await).await });
            }
            Request::Cancel { job_id } => {
                tokio::spawn(async move { tell(&news, cancel(&client, &job_id).await).await });
            }
            Request::DescribeSet { kind, id } => {
                tokio::spawn(async move { tell(&news, describe_set(&client, kind, &id).await).await });
            }
            Request::CancelSet { kind, id } => {
                tokio::spawn(async move { tell(&news, cancel_set(&client, kind, &id).await).await });
            }
            Request::OpenLogs { job_id, attempt } => {
                self.close_logs();
                self.logs = Some(tokio::spawn(async move {
                    let ended = follow_output(&client, &job_id, attempt, &news).await;
                    tell(&news, ended).await;
                }));
            }
            Request::CloseLogs => self.close_logs(),
            Request::Suspend | Request::Redraw | Request::Quit => {}
        }
    }

    fn close_logs(&mut self) {
        self.logs.take().inspect(JoinHandle::abort);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.close_logs();
        self.reading.abort();
    }
}

/// A failure becomes a remark. A reader that has left needs no answer.
async fn tell(news: &News, answer: Result<Message, ClientError>) {
    let message = answer.unwrap_or_else(|error| Message::Notice(error.to_string()));
    let _ = news.send(message).await;
}

/// Reads again and again. The stream of events is opened before each reading that it is to follow, so
/// that no change falls between the two.
async fn keep_reading(client: Client, mut wanted: watch::Receiver<Wanted>, news: News) {
    loop {
        let failed = match client.follow_events(None, None).await {
            Ok(mut events) => read_while(&client, &mut events, &mut wanted, &news).await,
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            if news.send(Message::Away(error.to_string())).await.is_err() {
                return;
            }
            tokio::time::sleep(AWAY).await;
        }
    }
}

/// Reads as long as the stream of events goes on; returns why it could not be read.
async fn read_while(
    client: &Client,
    events: &mut EventReader,
    wanted: &mut watch::Receiver<Wanted>,
    news: &News,
) -> Option<ClientError> {
    loop {
        let begun = Instant::now();
        let current = wanted.borrow_and_update().clone();
        match read(client, &current).await {
            Ok(snapshot) => news.send(Message::Read(Box::new(snapshot))).await.ok()?,
            Err(error) => return Some(error),
        }
        let rest = SHORTEST.max(begun.elapsed() * 3);
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            _ = wanted.changed() => continue,
        }
        tokio::select! {
            event = events.next() => match event {
                Ok(Some(_)) if drained(events).await => {}
                Ok(_) => return None,
                Err(error) => return Some(error),
            },
            _ = wanted.changed() => {}
            () = tokio::time::sleep(SAFETY) => {}
        }
    }
}

/// Takes what is there already; false when there is too much of it.
async fn drained(events: &mut EventReader) -> bool {
    for _ in 0..MOST_EVENTS {
        match tokio::time::timeout(Duration::from_millis(1), events.next()).await {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None) | Err(_)) => return false,
            Err(_) => return true,
        }
    }
    false
}

async fn explain(client: &Client, job_id: &str, asked: bool) -> Result<Message, ClientError> {
    let why = Box::new(client.why(job_id).await?);
    Ok(Message::Explained { why, asked })
}

async fn describe(client: &Client, job_id: &str) -> Result<Message, ClientError> {
    let (job, events) = tokio::try_join!(client.job(job_id), client.job_events(job_id, 0))?;
    let plain = Screen { json: false, colour: false, width: None };
    let text = format!("{}\n\n{}", job_details(&job, Timestamp::now(), plain), timeline(&events, plain));
    let lines = text.lines().map(str::to_owned).collect();
    Ok(Message::Described { job_id: job.id, lines })
}

async fn describe_set(client: &Client, kind: SetKind, id: &str) -> Result<Message, ClientError> {
    let plain = Screen { json: false, colour: false, width: None };
    let text = match kind {
        SetKind::Pipeline => pipeline_tree(&client.pipeline(id).await?, Timestamp::now(), plain),
        SetKind::Array => array_details(&client.array(id).await?, &[], Timestamp::now(), plain),
    };
    Ok(Message::Described { job_id: id.to_owned(), lines: text.lines().map(str::to_owned).collect() })
}

async fn cancel(client: &Client, job_id: &str) -> Result<Message, ClientError> {
    let result = client.cancel(job_id).await?;
    Ok(said(result.cancelled.len(), result.stopping.len()))
}

async fn cancel_set(client: &Client, kind: SetKind, id: &str) -> Result<Message, ClientError> {
    let result = client.cancel_set(kind, id, false).await?;
    Ok(said(result.changed.len(), result.stopping.len()))
}

fn said(cancelled: usize, stopping: usize) -> Message {
    let count = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 job {what}")),
        many => Some(format!("{many} jobs {what}")),
    };
    let parts: Vec<String> =
        [count(cancelled, "cancelled"), count(stopping, "being stopped")].into_iter().flatten().collect();
    Message::Notice(if parts.is_empty() {
        "there was nothing to cancel".to_owned()
    } else {
        parts.join(", ")
    })
}
