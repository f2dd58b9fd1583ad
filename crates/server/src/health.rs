//! Since when the store has been answering. Silence of a worker proves nothing while it could not report.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use muster_domain::Timestamp;

use crate::clock::Clock;

/// What this instance knows of the store's health.
#[derive(Debug)]
pub(crate) struct StoreHealth {
    clock: Clock,
    listening_since: AtomicI64,
    down: AtomicBool,
}

impl StoreHealth {
    /// Nothing was heard before now.
    pub(crate) fn new(clock: Clock) -> Self {
        let listening_since = AtomicI64::new(clock.now().as_micros());
        Self { clock, listening_since, down: AtomicBool::new(false) }
    }

    /// The store answered. After an outage the workers' time to report begins anew.
    pub(crate) fn answered(&self) {
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
}
