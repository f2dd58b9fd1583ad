//! One job from now to its end, through all of its attempts.

use std::sync::Arc;
use std::time::Duration;

use muster_client::{Client, EventReader};
use muster_protocol::{Event, Job};
use tokio::task::JoinHandle;

use super::attempt::{Attempt, Pulse, copy_attempt};
use super::patience::Patience;
use super::sink::Sink;
use crate::output::{attempt_end, note};

/// How long an attempt that is over may be silent before its output is taken for complete.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// What to follow.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    pub(crate) client: Client,
    pub(crate) job_id: String,
    /// Earlier attempts are passed over.
    pub(crate) first_attempt: u32,
    pub(crate) sink: Sink,
}

/// Prints the output of every attempt; returns the job as it ended.
pub(crate) async fn follow(follower: Follower) -> anyhow::Result<Job> {
    let mut progress = Progress { after: 0, attempt: 0, copy: None, pulse: Arc::default() };
    let mut patience = Patience::default();
    loop {
        let id = follower.job_id.as_str();
        let mut events = match follower.client.follow_events(Some(id), Some(progress.after)).await {
            Ok(events) => events,
            Err(error) => {
                patience.bear(error).await?;
                continue;
            }
        };
        patience.restore();
        if let Some(job) = progress.run(&follower, &mut events).await? {
            return Ok(job);
        }
    }
}

/// How far the job was followed.
struct Progress {
    after: u64,
    attempt: u32,
    copy: Option<JoinHandle<anyhow::Result<()>>>,
    pulse: Arc<Pulse>,
}

impl Progress {
    /// Goes on until the job has ended (`Some`) or the stream has (`None`).
    async fn run(&mut self, follower: &Follower, events: &mut EventReader) -> anyhow::Result<Option<Job>> {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                copied = ended(&mut self.copy) => {
                    self.copy = None;
                    copied?;
                    continue;
                }
            };
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(None),
                // The connection broke; the caller opens a new one.
                Err(error) if error.is_transient() => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            self.after = event.id;
            match event.kind.as_str() {
                "claimed" => self.begin_attempt(follower, &event).await?,
                // Its output goes on until the next attempt begins, which may be long after.
                "requeued" => tell_requeued(&event, follower),
                "done" | "failed" | "cancelled" => {
                    self.finish_output().await?;
                    return Ok(Some(follower.client.job(&follower.job_id).await?));
                }
                _ => {}
            }
        }
    }

    async fn begin_attempt(&mut self, follower: &Follower, event: &Event) -> anyhow::Result<()> {
        let number = event.data.get("attempt").and_then(serde_json::Value::as_u64);
        let attempt = match number.and_then(|number| u32::try_from(number).ok()) {
            Some(attempt) => attempt,
            None => follower.client.job(&follower.job_id).await?.attempts,
        };
        // An attempt that was handed back and refunded goes on under its number.
        if attempt < follower.first_attempt || (attempt == self.attempt && self.copy.is_some()) {
            return Ok(());
        }
        self.finish_output().await?;
        self.attempt = attempt;
        let wanted = Attempt { job_id: follower.job_id.clone(), number: attempt, follow: true };
        let copy = copy_attempt(follower.client.clone(), wanted, follower.sink, Arc::clone(&self.pulse));
        self.copy = Some(tokio::spawn(copy));
        Ok(())
    }

    /// Waits for the rest of the output of an attempt that is over.
    async fn finish_output(&mut self) -> anyhow::Result<()> {
        while self.copy.is_some() {
            let before = self.pulse.count();
            match tokio::time::timeout(LAST_OUTPUT, ended(&mut self.copy)).await {
                Ok(copied) => {
                    self.copy = None;
                    copied?;
                }
                Err(_) if self.pulse.count() == before && !self.pulse.is_writing() => {
                    note(&format!("the output of attempt {} did not come to its end", self.attempt));
                    self.copy.take().inspect(JoinHandle::abort);
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// The end of the copy; never, when there is none.
async fn ended(copy: &mut Option<JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    match copy {
        Some(copy) => copy.await?,
        None => std::future::pending().await,
    }
}

fn tell_requeued(event: &Event, follower: &Follower) {
    if !follower.sink.json {
        note(&format!("{}; the job is queued again", attempt_end(event)));
    }
}
