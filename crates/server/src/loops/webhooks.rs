//! Deliveries to webhooks: one courier for each hook that has something to deliver.
//!
//! Guarantees: a hook whose receiver is down or slow delays no other, since each has a courier of its own;
//! deliveries of one hook keep the order of the log, since it never has two. Commits are not waited for by
//! anyone but the couriers, and the log is read in pages, so that the memory is bounded by the number of hooks.

use std::collections::HashMap;
use std::time::Duration;

use muster_domain::{LeaderTerm, Role, Timestamp, Webhook, WebhookId};
use muster_store::StoreExt;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::app::Shared;
use crate::error::ApiError;
use crate::webhooks::{Courier, Errand, Report};

/// Looks at the hooks are never closer together.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// After a courier has come back, for others to come back too.
const BREATH: Duration = Duration::from_millis(5);
/// Also without a wake-up the hooks are looked at this often.
const SAFETY: Duration = Duration::from_secs(5);
/// How long a position that has passed unwanted events only may stay unwritten.
const UNWRITTEN: Duration = Duration::from_secs(1);
/// What deliveries under way get to finish at the end.
const CLOSING: Duration = Duration::from_secs(3);

/// A position in the log beyond the one that the store knows.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    position: u64,
    since: Instant,
}

/// The couriers under way.
#[derive(Debug, Default)]
struct Office {
    couriers: JoinSet<(WebhookId, Result<Report, ApiError>)>,
    under_way: HashMap<WebhookId, Instant>,
    ahead: HashMap<WebhookId, Ahead>,
    backoff: Backoff,
    trouble: bool,
}

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &Shared, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut office = Office::default();
    let mut feed = app.hub.event_feed();
    loop {
        feed.mark_unchanged();
        let pause = office.pass(app).await;
        let leads = app.leadership.term(Role::Webhooks).is_some();
        let woken = async {
            tokio::time::sleep(LEAST_PAUSE.min(pause)).await;
            // The hub lives as long as the server; without it there is nothing to wait for.
            if feed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(finished) = office.couriers.join_next() => {
                office.note(finished.ok());
                tokio::time::sleep(BREATH).await;
            }
            () = woken => {}
            () = tokio::time::sleep(pause) => {}
            () = app.leadership.gained(Role::Webhooks), if !leads => {}
        }
    }
    let finish = async { while office.couriers.join_next().await.is_some() {} };
    if tokio::time::timeout(CLOSING, finish).await.is_err() {
        tracing::info!("deliveries to webhooks were cut off; they are repeated after the next start");
    }
}

impl Office {
    /// One look at all hooks; says when the next is due.
    async fn pass(&mut self, app: &Shared) -> Duration {
        while let Some(finished) = self.couriers.try_join_next() {
            self.note(finished.ok());
        }
        if std::mem::take(&mut self.trouble) {
            return self.backoff.failed(SAFETY);
        }
        if *app.closing.borrow() {
            return SAFETY;
        }
        let Some(leader) = app.leadership.term(Role::Webhooks) else { return SAFETY };
        let started = Instant::now();
        let pause = self.send_out(app, leader).await;
        app.metrics.ticked(Role::Webhooks, started.elapsed());
        pause.unwrap_or_else(|error| {
            app.metrics.store_error();
            tracing::warn!(%error, "webhooks could not be read");
            self.backoff.failed(SAFETY)
        })
    }

    async fn send_out(
        &mut self,
        app: &Shared,
        leader: LeaderTerm,
    ) -> Result<Duration, muster_store::StoreError> {
        let hooks = app.store.webhooks(false).await?;
        self.ahead.retain(|id, _| hooks.iter().any(|view| view.webhook.id == *id));
        let last = if hooks.is_empty() { 0 } else { app.store.last_event().await? };
        self.backoff.reset();
        let (now, mut pause) = (app.config.clock.now(), SAFETY);
        for hook in hooks.into_iter().map(|view| view.webhook) {
            if self.under_way.contains_key(&hook.id) {
                continue;
            }
            match self.due(&hook, last, now) {
                Some(Duration::ZERO) => self.dispatch(app, leader, hook, last),
                Some(later) => pause = pause.min(later),
                None => {}
            }
        }
        Ok(pause)
    }

    /// How long until there is something to do for a hook; `None` when there is nothing.
    fn due(&self, hook: &Webhook, last: u64, now: Timestamp) -> Option<Duration> {
        if hook.paused {
            return None;
        }
        let ahead = self.ahead.get(&hook.id).filter(|ahead| ahead.position > hook.progress.cursor);
        let position = ahead.map_or(hook.progress.cursor, |ahead| ahead.position);
        if position < last || hook.retrying {
            let wait = hook.progress.not_before.map_or(0, |until| until.since(now).as_micros());
            return Some(Duration::from_micros(wait));
        }
        ahead.map(|ahead| UNWRITTEN.saturating_sub(ahead.since.elapsed()))
    }

    fn dispatch(&mut self, app: &Shared, leader: LeaderTerm, mut hook: Webhook, last: u64) {
        let written = hook.progress.cursor;
        let ahead = self.ahead.get(&hook.id);
        hook.progress.cursor = ahead.map_or(written, |ahead| ahead.position.max(written));
        let write = ahead.is_some_and(|ahead| ahead.since.elapsed() >= UNWRITTEN);
        self.under_way.insert(hook.id, Instant::now());
        let courier = Courier::new(app.clone(), Errand { leader, hook, written, write, last });
        self.couriers.spawn(async move { (courier.id(), courier.run().await) });
    }

    fn note(&mut self, finished: Option<(WebhookId, Result<Report, ApiError>)>) {
        let Some((id, result)) = finished else {
            // A courier that panicked takes its name with it: all may be sent out again.
            self.under_way.clear();
            return;
        };
        let began = self.under_way.remove(&id).unwrap_or_else(Instant::now);
        match result {
            Ok(Report { position, written }) if position > written => {
                let ahead = self.ahead.entry(id).or_insert(Ahead { position, since: began });
                ahead.position = ahead.position.max(position);
            }
            Ok(_) => drop(self.ahead.remove(&id)),
            Err(_) => {
                self.ahead.remove(&id);
                self.trouble = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{Progress, Secret, Span};

    use super::*;

    fn hook(cursor: u64) -> Webhook {
        Webhook {
            id: WebhookId::from_random([3; 16]),
            url: String::new(),
            secret: Secret::new(""),
            events: Vec::new(),
            queue: None,
            job_name: None,
            created_at: Timestamp::default(),
            paused: false,
            retrying: false,
            progress: Progress { cursor, ..Progress::default() },
        }
    }

    #[test]
    fn there_is_something_to_do_when_the_log_has_more_or_letters_wait() {
        let (office, now) = (Office::default(), Timestamp::from_micros(1_000_000));
        assert_eq!(office.due(&hook(5), 5, now), None);
        assert_eq!(office.due(&hook(5), 6, now), Some(Duration::ZERO));
        assert_eq!(office.due(&Webhook { retrying: true, ..hook(5) }, 5, now), Some(Duration::ZERO));
        assert_eq!(office.due(&Webhook { paused: true, ..hook(5) }, 6, now), None);
        let mut waiting = hook(5);
        waiting.progress.not_before = Some(now + Span::from_secs(2));
        assert_eq!(office.due(&waiting, 6, now), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_position_ahead_of_the_written_one_counts_and_is_written_after_a_while() {
        let (mut office, now) = (Office::default(), Timestamp::default());
        office.note(Some((hook(5).id, Ok(Report { position: 9, written: 5 }))));
        let later = office.due(&hook(5), 9, now).unwrap();
        assert!(later > Duration::ZERO && later <= UNWRITTEN, "{later:?}");
        assert_eq!(office.due(&hook(5), 10, now), Some(Duration::ZERO), "there is more in the log");
        assert_eq!(office.due(&hook(9), 9, now), None, "another has written it meanwhile");
        office.note(Some((hook(5).id, Ok(Report { position: 9, written: 9 }))));
        assert_eq!(office.due(&hook(9), 9, now), None);
    }
}
