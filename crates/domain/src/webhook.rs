//! Webhooks: which events a hook wants, and what follows an attempt to deliver one.
//!
//! Guarantees: deliveries of one hook follow the order of the log; the position of a hook only grows; an event
//! that could not be delivered in the allowed number of attempts is put aside, so that it holds up no other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::ids::{InvalidId, JobId, QueueName, WebhookId};
use crate::job::Job;
use crate::retry::Backoff;
use crate::time::{Span, Timestamp};

/// What a hook that names no event is told about: the ends of jobs.
pub const DEFAULT_EVENTS: [&str; 3] = ["done", "failed", "cancelled"];
/// The name that stands for every event.
pub const ALL_EVENTS: &str = "all";

/// What deliveries are signed with. It is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The name of a delivery: the same event to the same hook has the same one, however often it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId {
    pub hook: WebhookId,
    /// The number of the event in the log.
    pub event: u64,
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.hook, self.event)
    }
}

impl fmt::Debug for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DeliveryId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId { expected: WebhookId::PREFIX, text: text.to_owned() };
        let (hook, event) = text.rsplit_once('.').ok_or_else(wrong)?;
        Ok(Self { hook: hook.parse()?, event: event.parse().map_err(|_| wrong())? })
    }
}

/// How far a hook has come, and how its receiver fares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Position in the log up to which everything was delivered, put aside or not wanted.
    pub cursor: u64,
    /// Failed attempts on the next wanted event.
    pub attempts: u32,
    /// The next attempt comes no earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Failed attempts since the last that succeeded, over all events.
    pub failures: u32,
    pub delivered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
}

/// A receiver of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub id: WebhookId,
    pub url: String,
    pub secret: Secret,
    /// Names of events; empty means [`DEFAULT_EVENTS`].
    pub events: Vec<String>,
    /// Only jobs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Only jobs of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    pub created_at: Timestamp,
    #[serde(default)]
    pub paused: bool,
    /// Dead letters of this hook wait to be sent once more.
    #[serde(default)]
    pub retrying: bool,
    #[serde(default)]
    pub progress: Progress,
}

impl Webhook {
    /// Whether an event of this name may be wanted; the job decides the rest.
    pub fn wants(&self, event: &Event) -> bool {
        let name = event.kind.name();
        let named = if self.events.is_empty() {
            DEFAULT_EVENTS.contains(&name)
        } else {
            self.events.iter().any(|wanted| wanted == name || wanted == ALL_EVENTS)
        };
        named && (event.job.is_some() || !self.looks_at_jobs())
    }

    /// Whether the job of an event has to be known to decide.
    pub const fn looks_at_jobs(&self) -> bool {
        self.queue.is_some() || self.job_name.is_some()
    }

    /// Whether events of this job are wanted; one that is gone has no name and no queue any more.
    pub fn wants_job(&self, job: Option<&Job>) -> bool {
        let Some(job) = job else { return !self.looks_at_jobs() };
        self.queue.as_ref().is_none_or(|queue| job.spec.queue.as_ref() == Some(queue))
            && self.job_name.as_ref().is_none_or(|name| job.spec.name.as_ref() == Some(name))
    }
}

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    Accepted,
    /// Not accepted; the receiver may have said when to come again.
    Refused {
        why: String,
        retry_after: Option<Span>,
    },
    /// The receiver wants no more.
    Gone {
        why: String,
    },
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Delivered: on to the next.
    Next,
    /// The same event again, at this time.
    Again(Timestamp),
    /// Given up on this event: it becomes a dead letter, then on to the next.
    Dead,
    /// The hook pauses where it is.
    Pause,
}

/// How often and how soon a delivery is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryPolicy {
    pub backoff: Backoff,
    pub max_attempts: u32,
}

impl Default for DeliveryPolicy {
    fn default() -> Self {
        let backoff = Backoff {
            initial: Span::from_secs(1),
            factor_milli: 2000,
            cap: Span::from_secs(300),
            jitter_percent: 20,
        };
        Self { backoff, max_attempts: 10 }
    }
}

impl DeliveryPolicy {
    /// Notes an attempt on the event at `position` and decides what follows.
    pub fn settle(&self, progress: &mut Progress, delivery: DeliveryId, sent: &Sent, now: Timestamp) -> Fate {
        let fate = match sent {
            Sent::Accepted => {
                progress.delivered += 1;
                progress.failures = 0;
                progress.last_success = Some(now);
                Fate::Next
            }
            Sent::Gone { why } => {
                progress.failed(why, now);
                Fate::Pause
            }
            Sent::Refused { why, retry_after } => {
                progress.failed(why, now);
                progress.attempts = progress.attempts.saturating_add(1);
                if progress.attempts >= self.max_attempts {
                    Fate::Dead
                } else {
                    Fate::Again(now + self.pause(progress.attempts, delivery, *retry_after))
                }
            }
        };
        match fate {
            Fate::Next | Fate::Dead => progress.pass(delivery.event),
            Fate::Again(until) => progress.not_before = Some(until),
            Fate::Pause => progress.not_before = None,
        }
        fate
    }

    /// The receiver's wish counts when it is longer than the back-off, up to the longest pause.
    fn pause(&self, attempts: u32, delivery: DeliveryId, wished: Option<Span>) -> Span {
        let hook = delivery.hook.as_uuid().as_u64_pair().1;
        let own = self.backoff.delay(attempts, hook ^ delivery.event ^ u64::from(attempts));
        own.max(wished.unwrap_or(Span::ZERO).min(self.backoff.cap))
    }
}

impl Progress {
    /// Moves on past an event.
    pub fn pass(&mut self, event: u64) {
        self.cursor = self.cursor.max(event);
        self.attempts = 0;
        self.not_before = None;
    }

    pub fn failed(&mut self, why: &str, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(why.to_owned());
        self.last_error_at = Some(now);
    }
}

/// An event that could not be delivered, with what was to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub hook: WebhookId,
    pub event: u64,
    /// The name of the event.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// When it was given up.
    pub at: Timestamp,
    pub attempts: u32,
    pub error: String,
    /// The body of the delivery.
    pub body: String,
    /// Somebody asked for one more attempt.
    #[serde(default)]
    pub retry: bool,
}

impl DeadLetter {
    pub const fn delivery(&self) -> DeliveryId {
        DeliveryId { hook: self.hook, event: self.event }
    }
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
