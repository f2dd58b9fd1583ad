//! One job from now to its end, through all of its attempts.

use muster_client::{Client, EventReader, LogQuery};
use muster_protocol::{Event, Job};
use tokio::task::JoinHandle;

use super::copy::copy;
use super::patience::Patience;
use super::sink::Sink;
use crate::output::{attempt_end, note, pull_line};

/// What to follow.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    pub(crate) client: Client,
    /// The output to copy until the job has ended.
    pub(crate) query: LogQuery,
    /// Events before this attempt are not told.
    pub(crate) first_attempt: u32,
    /// Whether it is said that the image is pulled.
    pub(crate) tells_pulls: bool,
    pub(crate) sink: Sink,
}

/// A job that was followed to its end.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) job: Job,
    /// Something of its output was missing.
    pub(crate) incomplete: bool,
}

/// Prints the output of every attempt; returns the job as it ended.
pub(crate) async fn follow(follower: Follower) -> anyhow::Result<Followed> {
    let (client, mut query, mut sink) = (follower.client.clone(), follower.query.clone(), follower.sink);
    let copying = tokio::spawn(async move {
        copy(&client, &mut query, &mut sink).await?;
        anyhow::Ok(sink.is_incomplete())
    });
    let mut progress = Progress { after: 0, ended: false, incomplete: false, copying: Some(copying) };
    let mut patience = Patience::default();
    let id = follower.query.job_id.as_str();
    while !progress.is_over() {
        let mut events = match follower.client.follow_events(Some(id), Some(progress.after)).await {
            Ok(events) => events,
            Err(error) => {
                patience.bear(error).await?;
                continue;
            }
        };
        patience.restore();
        progress.run(&follower, &mut events).await?;
    }
    loop {
        match follower.client.job(id).await {
            Ok(job) => return Ok(Followed { job, incomplete: progress.incomplete }),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// How far the job was followed.
struct Progress {
    after: u64,
    /// The last event was seen.
    ended: bool,
    /// Something of the output was missing.
    incomplete: bool,
    copying: Option<JoinHandle<anyhow::Result<bool>>>,
}

impl Progress {
    /// Whether both the job and its output have come to their end.
    fn is_over(&self) -> bool {
        self.ended && self.copying.is_none()
    }

    /// Goes on until everything is over or the stream of events is.
    async fn run(&mut self, follower: &Follower, events: &mut EventReader) -> anyhow::Result<()> {
        while !self.is_over() {
            let event = tokio::select! {
                event = events.next(), if !self.ended => event,
                copied = over(&mut self.copying) => {
                    self.copying = None;
                    self.incomplete = copied?;
                    continue;
                }
            };
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                // The connection broke; the caller opens a new one.
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.after = event.id;
            match event.kind.as_str() {
                "requeued" => tell_requeued(&event, follower),
                "image_pulling" | "image_pulled" => tell_pull(&event, follower),
                "done" | "failed" | "cancelled" => self.ended = true,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Progress {
    /// Nobody is left to whom the output would be shown.
    fn drop(&mut self) {
        self.copying.iter().for_each(JoinHandle::abort);
    }
}

/// The end of the copy; never, when there is none.
async fn over(copying: &mut Option<JoinHandle<anyhow::Result<bool>>>) -> anyhow::Result<bool> {
    match copying {
        Some(copying) => copying.await?,
        None => std::future::pending().await,
    }
}

fn tell_pull(event: &Event, follower: &Follower) {
    if let Some(line) = pull_line(event).filter(|_| follower.tells_pulls && !follower.sink.is_json()) {
        note(&line);
    }
}

fn tell_requeued(event: &Event, follower: &Follower) {
    let attempt = event.data.get("attempt").and_then(serde_json::Value::as_u64);
    let earlier = attempt.is_some_and(|attempt| attempt < u64::from(follower.first_attempt));
    if !follower.sink.is_json() && !earlier {
        note(&format!("{}; the job is queued again", attempt_end(event)));
    }
}
