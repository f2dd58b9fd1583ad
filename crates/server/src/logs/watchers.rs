//! Who follows which job and how far they are, so that a write wakes exactly those readers and a worker sends
//! no faster than they read.
//!
//! Guarantee: a follower that takes nothing for [`STALLED`] is waited for no longer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use muster_domain::JobId;
use muster_protocol::LogStream;
use tokio::sync::watch;

use super::names::Run;
use super::reader::Reader;

/// A follower that has not read for so long does not keep up. One with nothing to read looks every second.
const STALLED: Duration = Duration::from_secs(30);

/// What the followers of one job share.
#[derive(Debug)]
struct Bell {
    /// Counts the events of the job, so that a follower knows whether only its output has grown.
    events: watch::Sender<u64>,
    /// How far each follower is, and when it last read.
    followers: Mutex<HashMap<u64, (Reader, Instant)>>,
}

impl Bell {
    fn followers(&self) -> MutexGuard<'_, HashMap<u64, (Reader, Instant)>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Followed jobs. Costs one atomic read per event while nobody follows anything.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    /// The number of the next follower.
    next: AtomicU64,
    jobs: Mutex<HashMap<JobId, Weak<Bell>>>,
}

/// One follower's share of a job's bell.
#[derive(Debug)]
pub(super) struct Watcher {
    receiver: watch::Receiver<u64>,
    /// Kept while anyone follows.
    bell: Arc<Bell>,
    number: u64,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.bell.followers().remove(&self.number);
    }
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

    /// The follower has read, perhaps nothing.
    pub(super) fn came_to(&self, reader: &Reader) {
        self.bell.followers().insert(self.number, (reader.clone(), Instant::now()));
    }
}

impl Watchers {
    pub(super) fn watch(&self, reader: &Reader) -> Watcher {
        let job = reader.selection.job;
        let mut jobs = self.jobs();
        jobs.retain(|_, bell| bell.strong_count() > 0);
        let bell = jobs.get(&job).and_then(Weak::upgrade).unwrap_or_else(|| {
            let bell = Arc::new(Bell { events: watch::Sender::new(0), followers: Mutex::default() });
            jobs.insert(job, Arc::downgrade(&bell));
            bell
        });
        self.count.store(jobs.len(), Ordering::Release);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let watcher = Watcher { receiver: bell.events.subscribe(), bell, number };
        watcher.came_to(reader);
        watcher
    }

    /// How far the slowest of those has read who follow a stream and keep up; `None` when there is none.
    pub(super) fn slowest(&self, job: JobId, run: Run, stream: LogStream, now: Instant) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let bell = self.jobs().get(&job).and_then(Weak::upgrade)?;
        let followers = bell.followers();
        let awake = followers.values().filter(|(_, read)| now.saturating_duration_since(*read) < STALLED);
        awake.filter_map(|(reader, _)| reader.position(run, stream)).min()
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
            Some(Some(bell)) => bell.events.send_modify(|count| *count += events),
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

#[cfg(test)]
mod tests {
    use super::super::cursor::Cursor;
    use super::super::reader::Selection;
    use super::*;

    const RUN: Run = Run { lease: 2, attempt: 1 };

    fn reader(cursor: &str) -> Reader {
        let streams = vec![LogStream::Stdout, LogStream::Stderr];
        let selection = Selection { onward: true, ..Selection::of(JobId::from_random([1; 16]), streams) };
        Reader::resume(selection, cursor.parse::<Cursor>().unwrap())
    }

    #[test]
    fn the_slowest_that_keeps_up_counts() {
        let (watchers, job) = (Watchers::default(), JobId::from_random([1; 16]));
        let slowest = |now| watchers.slowest(job, RUN, LogStream::Stdout, now);
        assert_eq!(slowest(Instant::now()), None);
        let fast = watchers.watch(&reader("1.2.50.0"));
        let slow = watchers.watch(&reader("start"));
        assert_eq!(slowest(Instant::now()), Some(0), "it will come there");
        slow.came_to(&reader("1.2.20.0"));
        assert_eq!(slowest(Instant::now()), Some(20));
        slow.came_to(&reader("1.3.20.0"));
        assert_eq!(slowest(Instant::now()), Some(50), "it reads a later run");
        assert_eq!(slowest(Instant::now() + STALLED), None, "nobody has read for long");
        drop(fast);
        assert_eq!(slowest(Instant::now()), None);
    }
}
