//! Reading the log of events from a position, page by page.
//!
//! Guarantees: every event after the position comes once and in order; where events are gone by now, because
//! retention took them with their jobs, a mark stands in their place. Marks are made of what lies before the
//! newest event at the beginning: what comes later cannot be gone yet. A number that was never given to an
//! event, which a database server may leave out, looks the same; a mark says that something may be missing.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use muster_domain::access::Principal;
use muster_domain::visibility::sees_all;
use muster_domain::{Event, JobId};
use muster_protocol::EventGap;
use muster_store::{EventFilter, StoreExt};
use tokio::sync::watch;

use crate::app::Shared;
use crate::error::ApiError;
use crate::view;
use crate::visibility::Visibility;

/// Events that are read at a time.
const PAGE: usize = 256;
/// A silent stream sends a comment this often, so that both ends notice when the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Also without a wake-up the log is looked at this often.
const SAFETY: Duration = Duration::from_secs(5);

/// One reader of the live stream.
#[derive(Debug)]
pub(super) struct Reader {
    app: Shared,
    principal: Principal,
    job: Option<JobId>,
    place: Place,
    feed: watch::Receiver<u64>,
}

impl Reader {
    /// Reads what comes after `after`; `newest` is the position of the newest event.
    pub(super) fn new(
        app: Shared,
        principal: Principal,
        job: Option<JobId>,
        after: u64,
        newest: u64,
    ) -> Self {
        let feed = app.hub.event_feed();
        // Between two events of one job there are those of others: no hole can be told from its numbers.
        let whole_until = if job.is_some() { 0 } else { newest };
        Self { app, principal, job, place: Place { after, whole_until }, feed }
    }

    /// How long the reader may leave unread what there is.
    pub(super) fn patience(&self) -> Duration {
        self.app.config.event_reader_timeout
    }

    /// Notes that the reader was too slow.
    pub(super) fn count_dropped(&self) {
        self.app.metrics.event_reader_dropped();
    }

    /// The next piece of the stream; `None` when the scheduler shuts down.
    pub(super) async fn next(&mut self) -> Option<String> {
        let mut silent = Duration::ZERO;
        loop {
            self.feed.mark_unchanged();
            if *self.app.closing.borrow() {
                return None;
            }
            let text = self.read().await;
            if !text.is_empty() {
                return Some(text);
            }
            tokio::select! {
                changed = self.feed.changed() => changed.ok()?,
                () = tokio::time::sleep(SAFETY) => silent += SAFETY,
                () = self.app.closed() => return None,
            }
            if silent >= KEEP_ALIVE {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    /// New events as text. A store that does not answer is asked again at the next occasion.
    async fn read(&mut self) -> String {
        let mut filter = EventFilter { job: self.job, after: self.place.after, limit: PAGE };
        loop {
            let events = match self.app.store.events(filter).await {
                Ok(events) => events,
                Err(error) => {
                    self.app.metrics.store_error();
                    tracing::warn!(%error, "the event stream could not read the store");
                    return String::new();
                }
            };
            let Ok(hidden) = self.hidden(&events).await else { return String::new() };
            let text = self.place.page(&events, &hidden);
            // A page of which nothing is shown is followed by the next one at once.
            if !text.is_empty() || events.len() < PAGE {
                return text;
            }
            filter.after = self.place.after;
        }
    }

    /// The jobs of these events that the reader may not see.
    async fn hidden(&self, events: &[Event]) -> Result<HashSet<JobId>, ApiError> {
        if sees_all(&self.principal) {
            return Ok(HashSet::new());
        }
        let jobs: HashSet<JobId> = events.iter().filter_map(|event| event.job).collect();
        let visibility = Visibility::of(&self.app, &self.principal).await?;
        let visible = visibility.among(&self.app, jobs.iter().copied().collect()).await?;
        Ok(jobs.difference(&visible).copied().collect())
    }
}

/// How far a reader has come.
#[derive(Debug)]
struct Place {
    after: u64,
    /// Up to here every number was an event.
    whole_until: u64,
}

impl Place {
    /// The page as text, with marks where something is missing. Events of hidden jobs are passed over without one.
    fn page(&mut self, events: &[Event], hidden: &HashSet<JobId>) -> String {
        let mut text = String::new();
        for event in events {
            self.mark_before(event.seq, &mut text);
            self.after = self.after.max(event.seq);
            if event.job.is_some_and(|job| hidden.contains(&job)) {
                continue;
            }
            if let Ok(data) = serde_json::to_string(&view::event(event)) {
                let name = event.kind.name();
                // Writing to a string cannot fail.
                let _ = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", event.seq);
            }
        }
        if events.len() < PAGE {
            self.mark_before(self.whole_until + 1, &mut text);
        }
        text
    }

    /// Marks what is missing between the place and the event `next`.
    fn mark_before(&mut self, next: u64, text: &mut String) {
        let last = next.saturating_sub(1).min(self.whole_until);
        if self.after >= last {
            return;
        }
        let gap = EventGap { after: self.after, first: last + 1 };
        self.after = last;
        if let Ok(data) = serde_json::to_string(&gap) {
            // Writing to a string cannot fail.
            let _ = write!(text, "id: {last}\nevent: gap\ndata: {data}\n\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{EventKind, Timestamp, WorkerId};

    use super::*;

    fn event(seq: u64) -> Event {
        let at = Timestamp::default();
        Event { seq, ..Event::of_worker(WorkerId::new("w"), at, EventKind::WorkerRegistered) }
    }

    fn told(text: &str) -> Vec<String> {
        let field = |block: &str, name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap_or_default()
        };
        let tell = |block: &str| format!("{} {}", field(block, "event: "), field(block, "id: "));
        text.split("\n\n").filter(|block| !block.is_empty()).map(tell).collect()
    }

    fn page(place: &mut Place, seqs: &[u64]) -> Vec<String> {
        let events: Vec<Event> = seqs.iter().map(|seq| event(*seq)).collect();
        told(&place.page(&events, &HashSet::new()))
    }

    #[test]
    fn holes_before_the_newest_event_are_marked() {
        let mut place = Place { after: 3, whole_until: 10 };
        let seen = page(&mut place, &[4, 7, 8]);
        let registered = |seq: u64| format!("worker_registered {seq}");
        assert_eq!(seen, [registered(4), "gap 6".into(), registered(7), registered(8), "gap 10".into()]);
        assert_eq!(place.after, 10);
        assert!(page(&mut place, &[]).is_empty(), "a mark is made once");
        assert_eq!(page(&mut place, &[13]), [registered(13)], "what comes later is not gone");
    }

    #[test]
    fn what_is_hidden_is_passed_over_without_a_mark() {
        let job = JobId::from_random([1; 16]);
        let hidden = Event { seq: 2, ..Event::of_job(job, Timestamp::default(), EventKind::Unblocked) };
        let mut place = Place { after: 0, whole_until: 3 };
        let text = place.page(&[event(1), hidden, event(3)], &HashSet::from([job]));
        assert_eq!(told(&text), ["worker_registered 1", "worker_registered 3"]);
        assert_eq!(place.after, 3);
    }

    #[test]
    fn a_mark_says_where_it_goes_on() {
        let mut place = Place { after: 0, whole_until: 10 };
        assert!(place.page(&[event(5)], &HashSet::new()).contains(r#"data: {"after":0,"first":5}"#));
    }

    #[test]
    fn a_full_page_says_nothing_about_what_follows() {
        let mut place = Place { after: 0, whole_until: 1_000 };
        let all: Vec<u64> = (1..=PAGE as u64).collect();
        assert_eq!(page(&mut place, &all).len(), PAGE);
        assert_eq!(place.after, PAGE as u64);
    }
}
