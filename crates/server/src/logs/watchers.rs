//! Who follows which job, so that a write wakes exactly those readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use muster_domain::JobId;
use tokio::sync::watch;

/// Counts the events of a job, so that a follower knows whether only its output has grown.
type Bell = watch::Sender<u64>;

/// Followed jobs. Costs one atomic read per event while nobody follows anything.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    jobs: Mutex<HashMap<JobId, Weak<Bell>>>,
}

/// One follower's share of a job's bell.
#[derive(Debug)]
pub(super) struct Watcher {
    receiver: watch::Receiver<u64>,
    /// Keeps the bell while anyone follows.
    _bell: Arc<Bell>,
}

impl Watcher {
    /// Wake-ups up to now do not count. Returns how many events there were.
    pub(super) fn reset(&mut self) -> u64 {
        *self.receiver.borrow_and_update()
    }

    /// Resolves at the next wake-up after the last reset.
    pub(super) async fn woken(&mut self) {
        // The bell is held by this value, so it cannot be gone.
        let _ = self.receiver.changed().await;
    }
}

impl Watchers {
    pub(super) fn watch(&self, job: JobId) -> Watcher {
        let mut jobs = self.jobs();
        jobs.retain(|_, bell| bell.strong_count() > 0);
        let bell = jobs.get(&job).and_then(Weak::upgrade).unwrap_or_else(|| {
            let bell = Arc::new(watch::Sender::new(0));
            jobs.insert(job, Arc::downgrade(&bell));
            bell
        });
        self.count.store(jobs.len(), Ordering::Release);
        Watcher { receiver: bell.subscribe(), _bell: bell }
    }

    /// The output of a job has grown.
    pub(super) fn grew(&self, job: JobId) {
        self.ring(job, 0);
    }

    /// Something has happened to a job.
    pub(super) fn changed(&self, job: JobId) {
        self.ring(job, 1);
    }

    fn ring(&self, job: JobId, events: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut jobs = self.jobs();
        match jobs.get(&job).map(Weak::upgrade) {
            Some(Some(bell)) => bell.send_modify(|count| *count += events),
            Some(None) => {
                jobs.remove(&job);
                self.count.store(jobs.len(), Ordering::Release);
            }
            None => {}
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Weak<Bell>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
