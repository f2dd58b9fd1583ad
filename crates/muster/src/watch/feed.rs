//! What is asked of the scheduler, and when.
//!
//! Guarantee: nothing is read more often than `SHORTEST` nor in more than a quarter of the time, however
//! much happens; an event is only the sign that something has changed, so that it does not matter how
//! many there are. Without events everything is read again after `SAFETY`.

use std::time::Duration;

use jiff::Timestamp;
use muster_client::{Client, ClientError, EventReader, OutputQuery, status_name};
use muster_protocol::{Job, LogStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::model::{Message, Request};
use super::snapshot::{Wanted, read};
use crate::exit;
use crate::output::{Screen, job_details, timeline};

/// The least time between two readings.
const SHORTEST: Duration = Duration::from_millis(500);
/// Heartbeats of workers are no events; they are seen at the latest after this time.
const SAFETY: Duration = Duration::from_secs(5);
/// Between two attempts to reach a scheduler that is away.
const AWAY: Duration = Duration::from_secs(1);
/// Events beyond this are not worth reading: the stream is opened anew where it is now.
const MOST_EVENTS: usize = 1000;
/// How often the job of an attempt that is over is looked at for its next one.
const NEXT_ATTEMPT: Duration = Duration::from_secs(1);

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

async fn cancel(client: &Client, job_id: &str) -> Result<Message, ClientError> {
    let result = client.cancel(job_id).await?;
    let count = |jobs: &[String], what: &str| match jobs.len() {
        0 => None,
        1 => Some(format!("1 job {what}")),
        many => Some(format!("{many} jobs {what}")),
    };
    let parts = [count(&result.cancelled, "cancelled"), count(&result.stopping, "being stopped")];
    Ok(Message::Notice(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
}

/// Hands on the output of one attempt to its end; then waits for the next attempt or the end of the job.
async fn follow_output(
    client: &Client,
    job_id: &str,
    attempt: u32,
    news: &News,
) -> Result<Message, ClientError> {
    let mut copies = JoinSet::new();
    for stream in [LogStream::Stdout, LogStream::Stderr] {
        copies.spawn(copy(client.clone(), job_id.to_owned(), attempt, stream, news.clone()));
    }
    while let Some(copied) = copies.join_next().await {
        if let Ok(Err(error)) = copied {
            return Ok(ended(job_id, attempt, format!("broke off: {error}")));
        }
    }
    loop {
        let job = client.job(job_id).await?;
        if job.attempts > attempt && !exit::is_final(job.status) {
            return Ok(Message::Attempt { job_id: job_id.to_owned(), number: job.attempts });
        }
        if exit::is_final(job.status) || job.attempts != attempt {
            return Ok(ended(job_id, attempt, how_it_ended(&job, attempt)));
        }
        let waiting = format!("attempt {attempt} has ended; the job is {}", status_name(job.status));
        let _ = news.send(ended(job_id, attempt, waiting)).await;
        tokio::time::sleep(NEXT_ATTEMPT).await;
    }
}

fn ended(job_id: &str, attempt: u32, how: String) -> Message {
    Message::OutputEnded { job_id: job_id.to_owned(), attempt, how }
}

fn how_it_ended(job: &Job, attempt: u32) -> String {
    if job.attempts != attempt {
        return format!("attempt {attempt} has ended");
    }
    let reason = job.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{reason}", status_name(job.status))
}

async fn copy(
    client: Client,
    job_id: String,
    attempt: u32,
    stream: LogStream,
    news: News,
) -> Result<(), ClientError> {
    let query = OutputQuery { job_id: job_id.clone(), stream, attempt: Some(attempt), follow: true };
    let mut output = client.output(&query).await?;
    while let Some(bytes) = output.next().await? {
        let piece = Message::Output { job_id: job_id.clone(), attempt, stream, bytes: bytes.to_vec() };
        if news.send(piece).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
