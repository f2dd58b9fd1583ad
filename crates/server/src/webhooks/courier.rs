//! One hook's deliveries, one after the other, until nothing is left, one fails, or its turn is over.
//!
//! Guarantee: what the store is told never runs ahead of what was delivered, put aside or not wanted; after a
//! crash the last deliveries are repeated under the same ids, and none is left out.

use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_domain::{
    DeadLetter, DeliveryId, Event, Fate, Job, LeaderTerm, Progress, Sent, Webhook, WebhookId,
};
use muster_store::{
    Command, Delivered, EventFilter, LetterFilter, Outcome, StoreExt, WebhookCommand, WebhookOutcome,
};

use super::payload::payload;
use super::sender::Parcel;
use crate::app::Shared;
use crate::error::ApiError;

/// Events that are read at a time.
const PAGE: usize = 256;
/// Dead letters that are sent again in one turn.
const LETTERS: usize = 16;
/// Deliveries after which, and the time after which, the position is written down.
const UNWRITTEN: u32 = 16;
const UNWRITTEN_TIME: Duration = Duration::from_millis(500);
/// After so long the hook is looked at anew: it may have been paused, or changed hands.
const TURN: Duration = Duration::from_secs(5);

/// Where a courier has come to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Position in the log.
    pub(crate) position: u64,
    /// The position that the store knows.
    pub(crate) written: u64,
}

/// What a courier is sent out with.
#[derive(Debug)]
pub(crate) struct Errand {
    /// The leadership under which it was sent out.
    pub(crate) leader: LeaderTerm,
    pub(crate) hook: Webhook,
    /// The position that the store knows; the hook's own may be ahead of it.
    pub(crate) written: u64,
    /// Even a position that has only passed unwanted events is to be written.
    pub(crate) write: bool,
    /// The newest event when the courier was sent out.
    pub(crate) last: u64,
}

/// Whether to go on with the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Home,
}

/// The deliveries of one hook.
pub(crate) struct Courier {
    app: Shared,
    errand: Errand,
    progress: Progress,
    unwritten: u32,
    began: Instant,
    last_write: Instant,
}

impl Courier {
    pub(crate) fn new(app: Shared, errand: Errand) -> Self {
        let (now, progress) = (Instant::now(), errand.hook.progress.clone());
        Self { app, errand, progress, unwritten: 0, began: now, last_write: now }
    }

    pub(crate) const fn id(&self) -> WebhookId {
        self.errand.hook.id
    }

    pub(crate) async fn run(mut self) -> Result<Report, ApiError> {
        if !self.errand.hook.retrying || self.retry_letters().await? == Go::On {
            self.deliver_events().await?;
        }
        let passed = self.progress.cursor > self.errand.written;
        if self.unwritten > 0 || (passed && (self.errand.write || self.began.elapsed() >= TURN)) {
            self.write_down(Delivery::default()).await?;
        }
        Ok(Report { position: self.progress.cursor, written: self.errand.written })
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() >= TURN || *self.app.closing.borrow()
    }

    async fn deliver_events(&mut self) -> Result<(), ApiError> {
        loop {
            let filter = EventFilter { job: None, after: self.progress.cursor, limit: PAGE };
            let events = self.app.store.events(filter).await?;
            for event in &events {
                if self.is_over() || self.event(event).await? == Go::Home {
                    return Ok(());
                }
            }
            if events.len() < PAGE {
                // Up to there nothing else can come: numbers without an event are those of removed jobs.
                self.progress.cursor = self.progress.cursor.max(self.errand.last);
                return Ok(());
            }
        }
    }

    async fn event(&mut self, event: &Event) -> Result<Go, ApiError> {
        if !self.errand.hook.wants(event) {
            self.progress.cursor = event.seq;
            return Ok(Go::On);
        }
        let job = self.job(event).await?;
        if !self.errand.hook.wants_job(job.as_ref()) {
            self.progress.cursor = event.seq;
            return Ok(Go::On);
        }
        let body = payload(event, job.as_ref())?;
        let id = DeliveryId { hook: self.errand.hook.id, event: event.seq };
        let sent = self.send(id, event.kind.name(), body.clone()).await;
        let attempts = self.progress.attempts + 1;
        let now = self.app.config.clock.now();
        let fate = self.app.config.webhooks.policy.settle(&mut self.progress, id, &sent, now);
        match fate {
            Fate::Next => self.delivered().await,
            Fate::Again(_) => self.write_down(Delivery::default()).await.map(|_| Go::Home),
            Fate::Pause => {
                tracing::warn!(hook = %self.errand.hook.id, "the receiver of a webhook is gone for good; paused");
                self.write_down(Delivery { pause: true, ..Delivery::default() }).await.map(|_| Go::Home)
            }
            Fate::Dead => {
                let letter = self.letter(event, attempts, &body, &sent);
                self.write_down(Delivery { dead: vec![letter], ..Delivery::default() }).await
            }
        }
    }

    async fn job(&self, event: &Event) -> Result<Option<Job>, ApiError> {
        let Some(id) = event.job else { return Ok(None) };
        Ok(self.app.store.job(id).await?.map(|view| view.job))
    }

    async fn send(&self, id: DeliveryId, event: &str, body: Bytes) -> Sent {
        let (url, secret) = (self.errand.hook.url.as_str(), &self.errand.hook.secret);
        let parcel = Parcel { url, secret, event, delivery: id.to_string(), body };
        let answered = self.app.webhooks.send(parcel).await;
        let sent = answered.sent();
        let result = match &sent {
            Sent::Accepted => "delivered",
            Sent::Refused { why, .. } => {
                tracing::debug!(delivery = %id, why, "a delivery to a webhook failed");
                "failed"
            }
            Sent::Gone { .. } => "gone",
        };
        self.app.metrics.webhooks.sent(result, answered.took);
        sent
    }

    async fn delivered(&mut self) -> Result<Go, ApiError> {
        self.unwritten += 1;
        if self.unwritten < UNWRITTEN && self.last_write.elapsed() < UNWRITTEN_TIME {
            return Ok(Go::On);
        }
        self.write_down(Delivery::default()).await
    }

    fn letter(&self, event: &Event, attempts: u32, body: &Bytes, sent: &Sent) -> DeadLetter {
        let error = match sent {
            Sent::Refused { why, .. } | Sent::Gone { why } => why.clone(),
            Sent::Accepted => String::new(),
        };
        tracing::warn!(hook = %self.errand.hook.id, event = event.seq, attempts, error, "a delivery was given up");
        self.app.metrics.webhooks.given_up();
        DeadLetter {
            hook: self.errand.hook.id,
            event: event.seq,
            kind: event.kind.name().to_owned(),
            job: event.job,
            at: self.app.config.clock.now(),
            attempts,
            error,
            body: String::from_utf8_lossy(body).into_owned(),
            retry: false,
        }
    }

    /// Sends dead letters once more, as somebody asked. One that fails again stays what it is.
    async fn retry_letters(&mut self) -> Result<Go, ApiError> {
        let filter = LetterFilter {
            hook: Some(self.errand.hook.id),
            retry: true,
            limit: LETTERS,
            ..LetterFilter::default()
        };
        let letters = self.app.store.dead_letters(filter).await?;
        if letters.is_empty() {
            // They were removed meanwhile; the store notes that none waits.
            return self.write_down(Delivery::default()).await;
        }
        for mut letter in letters {
            if self.is_over() {
                return Ok(Go::Home);
            }
            let id = letter.delivery();
            let (now, mut delivery) = (self.app.config.clock.now(), Delivery::default());
            match self.send(id, &letter.kind, Bytes::from(letter.body.clone())).await {
                Sent::Accepted => {
                    self.progress.delivered += 1;
                    self.progress.failures = 0;
                    self.progress.last_success = Some(now);
                    delivery.revived.push(id);
                }
                Sent::Refused { why, .. } | Sent::Gone { why } => {
                    self.progress.failed(&why, now);
                    letter.retry = false;
                    letter.attempts = letter.attempts.saturating_add(1);
                    letter.error = why;
                    letter.at = now;
                    delivery.dead.push(letter);
                }
            }
            if self.write_down(delivery).await? == Go::Home {
                return Ok(Go::Home);
            }
        }
        Ok(Go::On)
    }

    /// Tells the store; goes home when the hook is gone, paused, or in the hands of another.
    async fn write_down(&mut self, delivery: Delivery) -> Result<Go, ApiError> {
        let command = WebhookCommand::Deliver(Delivered {
            id: self.errand.hook.id,
            progress: self.progress.clone(),
            pause: delivery.pause,
            dead: delivery.dead,
            revived: delivery.revived,
        });
        let answer = self.app.submit_led(self.errand.leader, Command::Webhook(command)).await;
        (self.unwritten, self.last_write, self.errand.write) = (0, Instant::now(), false);
        self.errand.written = self.progress.cursor;
        match answer {
            Ok(Outcome::Webhook(WebhookOutcome::Webhook(hook))) => {
                let mine = hook.progress.cursor == self.progress.cursor;
                Ok(if mine && !hook.paused { Go::On } else { Go::Home })
            }
            Ok(_) => Err(ApiError::internal()),
            Err(error) if matches!(error.code, "webhook_not_found" | "leadership_lost") => Ok(Go::Home),
            Err(error) => Err(error),
        }
    }
}

/// What besides the position is written down.
#[derive(Debug, Default)]
struct Delivery {
    pause: bool,
    dead: Vec<DeadLetter>,
    revived: Vec<DeliveryId>,
}
