//! What this instance knows of its store: since when it has been answering, whether it is out of reach, and whether it
//! is full.
//!
//! Guarantee: while the store is known to be out of reach everybody who needs it is told so at once.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_domain::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Clock;

/// What this instance knows of the store's health.
#[derive(Debug)]
pub(crate) struct StoreHealth {
    clock: Clock,
    listening_since: AtomicI64,
    down: AtomicBool,
    /// Why the store is out of reach; `None` while it is not.
    outage: watch::Sender<Option<Arc<str>>>,
    /// When it answered last.
    heard_at: Mutex<Option<Instant>>,
    /// Where no space was left when something was to be written last.
    full: Mutex<Option<Arc<str>>>,
}

impl StoreHealth {
    /// Nothing was heard before now.
    pub(crate) fn new(clock: Clock) -> Self {
        let listening_since = AtomicI64::new(clock.now().as_micros());
        Self {
            clock,
            listening_since,
            down: AtomicBool::new(false),
            outage: watch::Sender::new(None),
            heard_at: Mutex::default(),
            full: Mutex::default(),
        }
    }

    /// The store took a change. After an outage the workers' time to report begins anew.
    pub(crate) fn answered(&self) {
        *lock(&self.full) = None;
        if self.down.load(Ordering::Relaxed) && self.down.swap(false, Ordering::AcqRel) {
            self.listening_since.store(self.clock.now().as_micros(), Ordering::Release);
            tracing::info!("the store answers again");
        }
    }

    /// The time was set: what was heard before cannot be compared with what comes.
    pub(crate) fn begin_anew(&self) {
        self.listening_since.store(self.clock.now().as_micros(), Ordering::Release);
    }

    pub(crate) fn failed(&self) {
        self.down.store(true, Ordering::Release);
    }

    pub(crate) fn listening_since(&self) -> Timestamp {
        Timestamp::from_micros(self.listening_since.load(Ordering::Acquire))
    }

    /// A change could not be written for want of space.
    pub(crate) fn note_full(&self, place: &str) {
        *lock(&self.full) = Some(place.into());
    }

    /// Where no space was left when something was to be written last.
    pub(crate) fn full(&self) -> Option<Arc<str>> {
        lock(&self.full).clone()
    }

    /// There is space again.
    pub(crate) fn note_room(&self) {
        *lock(&self.full) = None;
    }

    /// It answered somebody.
    pub(crate) fn heard(&self) {
        *lock(&self.heard_at) = Some(Instant::now());
    }

    /// Whether it answered somebody within this time.
    pub(crate) fn heard_within(&self, time: Duration) -> bool {
        lock(&self.heard_at).is_some_and(|heard| heard.elapsed() < time)
    }

    /// It cannot be reached: nobody waits for it until it can.
    pub(crate) fn lost(&self, reason: &str) {
        if self.outage.send_replace(Some(reason.into())).is_none() {
            self.failed();
            tracing::warn!(reason, "the store is out of reach; waiting for it");
        }
    }

    /// It can be reached.
    pub(crate) fn reached(&self) {
        if self.outage.borrow().is_some() && self.outage.send_replace(None).is_some() {
            tracing::info!("the store is in reach again");
        }
    }

    /// Why it is out of reach, if it is.
    pub(crate) fn outage(&self) -> Option<Arc<str>> {
        self.outage.borrow().clone()
    }

    /// Resolves with the reason when it is out of reach.
    pub(crate) async fn goes_out_of_reach(&self) -> Arc<str> {
        let mut outage = self.outage.subscribe();
        loop {
            if let Some(reason) = outage.borrow_and_update().clone() {
                return reason;
            }
            if outage.changed().await.is_err() {
                // The sender lives as long as this.
                std::future::pending::<()>().await;
            }
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
