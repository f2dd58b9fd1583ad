//! Wake-ups: what a commit of this instance or of another one tells the parked requests and the streams.
//!
//! Guarantee: a wake-up that comes while nobody listens is not lost; it is kept as a changed generation,
//! which the next listener compares with the one it has seen.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use muster_domain::{Timestamp, WorkerId};
use muster_store::{Store, Wake};
use tokio::sync::{Notify, watch};

/// Workers with waiting orders that are remembered at most; the safety tick finds the others.
const MAX_FLAGGED: usize = 10_000;

/// The meeting point of all wake-ups of one instance.
#[derive(Debug)]
pub(crate) struct WakeHub {
    work: AtomicU64,
    dispatcher: Notify,
    flagged: Mutex<HashSet<WorkerId>>,
    /// The same workers, until somebody has looked after the tasks that they have prepared.
    ordered: Mutex<HashSet<WorkerId>>,
    events: watch::Sender<u64>,
    /// The earliest alarm that the reaper has not seen, in microseconds; the greatest number when there is none.
    alarm: AtomicI64,
    reaper: Notify,
    /// Changes with every commit that may let a gang be placed.
    gangs: AtomicU64,
    planner: Notify,
}

/// What the planner has seen of the wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlanMark {
    work: u64,
    gangs: u64,
}

impl WakeHub {
    pub(crate) fn new() -> Self {
        Self {
            work: AtomicU64::new(0),
            dispatcher: Notify::new(),
            flagged: Mutex::new(HashSet::new()),
            ordered: Mutex::new(HashSet::new()),
            events: watch::Sender::new(0),
            alarm: AtomicI64::new(i64::MAX),
            reaper: Notify::new(),
            gangs: AtomicU64::new(0),
            planner: Notify::new(),
        }
    }

    /// Passes a wake-up on.
    pub(crate) fn publish(&self, wake: &Wake) {
        if wake.work {
            self.work.fetch_add(1, Ordering::AcqRel);
        }
        if !wake.stops.is_empty() {
            let mut flagged = self.flagged();
            if flagged.len() > MAX_FLAGGED {
                flagged.clear();
            }
            flagged.extend(wake.stops.iter().cloned());
            drop(flagged);
            self.ordered().extend(wake.stops.iter().cloned());
        }
        if wake.work || !wake.stops.is_empty() {
            self.dispatcher.notify_one();
        }
        if wake.gangs {
            self.gangs.fetch_add(1, Ordering::AcqRel);
        }
        if wake.work || wake.gangs {
            self.planner.notify_one();
        }
        if let Some(alarm) = wake.alarm {
            self.alarm.fetch_min(alarm.as_micros(), Ordering::AcqRel);
            self.reaper.notify_one();
        }
        if wake.events {
            self.events.send_modify(|generation| *generation += 1);
        }
    }

    /// Where the wake-ups stand, for [`WakeHub::plan_wanted`].
    pub(crate) fn plan_mark(&self) -> PlanMark {
        let (work, gangs) = (self.work.load(Ordering::Acquire), self.gangs.load(Ordering::Acquire));
        PlanMark { work, gangs }
    }

    /// Waits until a gang may be placed: one changed since `seen`, or, while some wait for room, anything did.
    pub(crate) async fn plan_wanted(&self, seen: PlanMark, waiting: bool) {
        loop {
            let now = self.plan_mark();
            if now.gangs != seen.gangs || (waiting && now.work != seen.work) {
                return;
            }
            self.planner.notified().await;
        }
    }

    /// Waits until a job has set an alarm that rings before `planned`; `None` stands for never.
    pub(crate) async fn alarm_before(&self, planned: Option<Timestamp>) {
        loop {
            let earliest = self.alarm.load(Ordering::Acquire);
            if earliest < planned.map_or(i64::MAX, Timestamp::as_micros) {
                return;
            }
            self.reaper.notified().await;
        }
    }

    /// Forgets the alarms: the sweep that follows sees them all.
    pub(crate) fn forget_alarms(&self) {
        self.alarm.store(i64::MAX, Ordering::Release);
    }

    /// Changes with every commit that may have made work claimable.
    pub(crate) fn work_generation(&self) -> u64 {
        self.work.load(Ordering::Acquire)
    }

    /// Lets parked claims be tried again, although nothing is known to have changed.
    pub(crate) fn expect_work(&self) {
        self.publish(&Wake { work: true, ..Wake::default() });
    }

    /// Sends the dispatcher round without a change.
    pub(crate) fn poke(&self) {
        self.dispatcher.notify_one();
    }

    /// Waits until the dispatcher has something to look at.
    pub(crate) async fn dispatcher_wanted(&self) {
        self.dispatcher.notified().await;
    }

    pub(crate) fn is_flagged(&self, worker: &WorkerId) -> bool {
        self.flagged().contains(worker)
    }

    /// Takes the flag of `worker` down, since its orders are being read.
    pub(crate) fn unflag(&self, worker: &WorkerId) {
        self.flagged().remove(worker);
    }

    /// The workers that got orders since this was last asked.
    pub(crate) fn take_flagged(&self) -> HashSet<WorkerId> {
        std::mem::take(&mut *self.ordered())
    }

    fn ordered(&self) -> MutexGuard<'_, HashSet<WorkerId>> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A counter that changes whenever events were appended.
    pub(crate) fn event_feed(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }

    fn flagged(&self) -> MutexGuard<'_, HashSet<WorkerId>> {
        self.flagged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on what other instances on the same store did.
pub(crate) async fn listen(store: &dyn Store, hub: &WakeHub) {
    let mut wakes = store.wakes();
    while let Some(wake) = wakes.next().await {
        hub.publish(&wake);
    }
}
