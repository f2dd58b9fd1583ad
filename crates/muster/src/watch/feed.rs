//! What is asked of the scheduler, and when.
//!
//! Guarantee: nothing is read more often than the pace allows nor in more than a quarter of the time,
//! however much happens; an event is only the sign that something has changed, so that it does not matter
//! how many there are. Without events everything is read again after a while.

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
use crate::zone::Zone;

/// How often the scheduler is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The least time between two readings.
    pub(super) shortest: Duration,
    /// Heartbeats of workers are no events; they are seen at the latest after this time.
    pub(super) safety: Duration,
    /// Between two attempts to reach a scheduler that is away.
    pub(super) away: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            shortest: Duration::from_millis(500),
            safety: Duration::from_secs(5),
            away: Duration::from_secs(1),
        }
    }
}

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
    zone: Zone,
}

impl Feed {
    pub(super) fn start(client: Client, wanted: Wanted, pace: Pace, news: News) -> Self {
        let (sender, wanted) = watch::channel(wanted);
        let reader = Reader { client: client.clone(), wanted, pace, news: news.clone() };
        let reading = tokio::spawn(reader.keep_reading());
        Self { client, news, wanted: sender, reading, logs: None, zone: Zone::UTC }
    }

    /// Texts that are made here show times in this zone.
    pub(super) fn in_zone(mut self, zone: Zone) -> Self {
        self.zone = zone;
        self
    }

    /// Begins with a request; its answer is a message. Others than the feed's are nothing to it.
    pub(super) fn begin(&mut self, request: Request) {
        let (client, news, zone) = (self.client.clone(), self.news.clone(), self.zone);
        match request {
            Request::Refresh(wanted) => {
                self.wanted.send_replace(wanted);
            }
            Request::Explain { job_id, asked } => {
                tokio::spawn(async move { tell(&news, explain(&client, &job_id, asked).await).await });
            }
            Request::Describe { job_id } => {
                tokio::spawn(async move { tell(&news, describe(&client, &job_id, zone).await).await });
            }
            Request::Cancel { job_id } => {
                tokio::spawn(async move { tell(&news, cancel(&client, &job_id).await).await });
            }
            Request::DescribeSet { kind, id } => {
                tokio::spawn(async move { tell(&news, describe_set(&client, kind, &id, zone).await).await });
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

/// Reads what is on the screen.
struct Reader {
    client: Client,
    wanted: watch::Receiver<Wanted>,
    pace: Pace,
    news: News,
}

impl Reader {
    /// Reads again and again, until nobody wants to know. The stream of events is opened before the readings
    /// that it is to follow, so that no change falls between the two.
    async fn keep_reading(mut self) {
        loop {
            let ended = match self.client.follow_events(None, None).await {
                Ok(mut events) => self.read_while(&mut events).await,
                Err(error) => Ended::Away(error),
            };
            let pause = match ended {
                Ended::Stream => self.pace.shortest,
                Ended::Reader => return,
                Ended::Away(error) => {
                    if self.news.send(Message::Away(error.to_string())).await.is_err() {
                        return;
                    }
                    self.pace.away
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads as long as the stream of events goes on.
    async fn read_while(&mut self, events: &mut EventReader) -> Ended {
        loop {
            let begun = Instant::now();
            let current = self.wanted.borrow_and_update().clone();
            let snapshot = match read(&self.client, &current).await {
                Ok(snapshot) => Box::new(snapshot),
                Err(error) => return Ended::Away(error),
            };
            if self.news.send(Message::Read(snapshot)).await.is_err() {
                return Ended::Reader;
            }
            let rest = self.pace.shortest.max(begun.elapsed() * 3);
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                changed = self.wanted.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return Ended::Reader,
                },
            }
            tokio::select! {
                event = events.next() => match event {
                    Ok(Some(_)) if drained(events).await => {}
                    Ok(_) => return Ended::Stream,
                    Err(error) => return Ended::Away(error),
                },
                changed = self.wanted.changed() => if changed.is_err() {
                    return Ended::Reader;
                },
                () = tokio::time::sleep(self.pace.safety) => {}
            }
        }
    }
}

/// Why the reading along a stream of events came to its end.
enum Ended {
    /// The stream did, or it had more than is worth reading.
    Stream,
    /// Nobody wants to know any more.
    Reader,
    Away(ClientError),
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

async fn describe(client: &Client, job_id: &str, zone: Zone) -> Result<Message, ClientError> {
    let (job, events) = tokio::try_join!(client.job(job_id), client.job_events(job_id, 0))?;
    let plain = Screen { json: false, colour: false, width: None, zone };
    let text = format!("{}\n\n{}", job_details(&job, Timestamp::now(), plain), timeline(&events, plain));
    let lines = text.lines().map(str::to_owned).collect();
    Ok(Message::Described { job_id: job.id, lines })
}

async fn describe_set(client: &Client, kind: SetKind, id: &str, zone: Zone) -> Result<Message, ClientError> {
    let plain = Screen { json: false, colour: false, width: None, zone };
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use muster_protocol::SubmitRequest;
    use muster_server::ServerConfig;
    use muster_server::settings::StoreChoice;
    use muster_store::engine::Policies;

    use super::*;
    use crate::embedded::{Embedded, Installation, StoreSettings};
    use crate::watch::filter::Filter;
    use crate::watch::snapshot::Snapshot;

    const BOUND: Duration = Duration::from_secs(30);
    /// Nothing happens by itself: what is seen was caused by an event or a request.
    const NEVER: Duration = Duration::from_secs(86_400);

    fn wanted(filter: &str) -> Wanted {
        let filter = Filter::parse(filter).unwrap();
        Wanted { filter, running: 10, waiting: 10, ended: 10, sets: 10 }
    }

    fn pace(safety: Duration) -> Pace {
        Pace { shortest: Duration::from_millis(1), safety, away: Duration::from_millis(1) }
    }

    /// A scheduler without a worker.
    async fn scheduler(directory: &tempfile::TempDir) -> Embedded {
        let store =
            StoreSettings { choice: StoreChoice::Memory, policies: Policies::default(), pool_size: 0 };
        let server = ServerConfig { data_dir: directory.path().to_owned(), ..ServerConfig::default() };
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Embedded::start(Installation { server, store, listen, worker: None }).await.unwrap()
    }

    async fn next(news: &mut mpsc::Receiver<Message>) -> Message {
        tokio::time::timeout(BOUND, news.recv()).await.unwrap().unwrap()
    }

    async fn until(news: &mut mpsc::Receiver<Message>, right: impl Fn(&Snapshot) -> bool) {
        loop {
            if let Message::Read(snapshot) = next(news).await
                && right(&snapshot)
            {
                return;
            }
        }
    }

    async fn submit(client: &Client, queue: &str) {
        let tags = vec!["nowhere".to_owned()];
        let queue_name = Some(queue.to_owned());
        let job = SubmitRequest { command: "true".into(), tags, queue_name, ..SubmitRequest::default() };
        client.submit(&job).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_event_is_enough_to_read_again_and_so_is_another_filter() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = scheduler(&directory).await;
        let (sender, mut news) = mpsc::channel(8);
        let mut feed = Feed::start(embedded.client(), wanted(""), pace(NEVER), sender);
        until(&mut news, |snapshot| snapshot.waiting.jobs.is_empty()).await;
        submit(&embedded.client(), "night").await;
        submit(&embedded.client(), "day").await;
        until(&mut news, |snapshot| snapshot.waiting.jobs.len() == 2 && snapshot.queues.len() == 2).await;
        feed.begin(Request::Refresh(wanted("queue:day")));
        until(&mut news, |snapshot| snapshot.waiting.jobs.len() == 1 && snapshot.waiting_count() == 2).await;
        drop(feed);
        embedded.stop_now().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_events_everything_is_read_again_after_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = scheduler(&directory).await;
        let (sender, mut news) = mpsc::channel(8);
        let feed = Feed::start(embedded.client(), wanted(""), pace(Duration::from_millis(1)), sender);
        for _ in 0..5 {
            until(&mut news, |_| true).await;
        }
        drop(feed);
        embedded.stop_now().await;
    }

    #[tokio::test]
    async fn a_scheduler_that_is_not_there_is_tried_again() {
        let client = Client::http("http://127.0.0.1:1").unwrap();
        let (sender, mut news) = mpsc::channel(8);
        let _feed = Feed::start(client, wanted(""), pace(NEVER), sender);
        for _ in 0..3 {
            let message = next(&mut news).await;
            assert!(matches!(&message, Message::Away(why) if why.contains("127.0.0.1:1")), "{message:?}");
        }
    }
}
