//! Jobs with output in files here that is to move when their attempts have ended, and who reads such files at the moment.
//!
//! Guarantee: what is known is bounded; what is forgotten for that is found again by a look at the directory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_domain::{Event, EventKind, JobId};

/// Output that did not grow for so long is looked at.
pub(crate) const QUIET: Duration = Duration::from_secs(1);
/// Jobs that are remembered; beyond it the directory is looked at again when there is room.
const MOST: usize = 200_000;

/// When a job is looked at, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Instant,
    /// The worker reported its end here, so that it sent its output here, too.
    pub(crate) reported_here: bool,
    /// Its attempt has ended and its output did not move yet.
    pub(crate) ended: bool,
    /// How often it was looked at in vain.
    pub(crate) looks: u32,
}

/// Jobs that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    on: bool,
    jobs: Mutex<HashMap<JobId, Due>>,
    overflown: AtomicBool,
}

impl Waiting {
    pub(super) fn on() -> Self {
        // Whatever was there before the start is found by a look at the directory.
        Self { on: true, overflown: AtomicBool::new(true), ..Self::default() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Output of a job has come.
    pub(super) fn grew(&self, job: JobId, now: Instant) {
        if self.on {
            self.put(job, |due| due.at = now + QUIET, now);
        }
    }

    /// A look at the directory has found output of a job.
    pub(crate) fn found(&self, job: JobId, now: Instant) {
        self.put(job, |_| {}, now);
    }

    fn put(&self, job: JobId, change: impl FnOnce(&mut Due), now: Instant) {
        let mut jobs = self.jobs();
        if jobs.len() >= MOST && !jobs.contains_key(&job) {
            self.overflown.store(true, Ordering::Relaxed);
            return;
        }
        let new = Due { at: now, reported_here: false, ended: false, looks: 0 };
        change(jobs.entry(job).or_insert(new));
    }

    /// Something has happened to a job at this scheduler.
    pub(super) fn heard(&self, job: JobId, event: &Event, now: Instant) {
        let reported = match event.kind {
            EventKind::Done { .. } | EventKind::Finished { .. } => true,
            EventKind::Failed { .. } | EventKind::Cancelled { .. } | EventKind::Requeued { .. } => false,
            _ => return,
        };
        if let Some(due) = self.jobs().get_mut(&job).filter(|_| self.on) {
            (due.at, due.looks) = (now + QUIET, 0);
            due.reported_here |= reported;
        }
    }

    /// Takes jobs out that are due, so many at the most.
    pub(crate) fn take(&self, most: usize, now: Instant) -> Vec<(JobId, Due)> {
        let mut jobs = self.jobs();
        let due: Vec<(JobId, Due)> =
            jobs.iter().filter(|(_, due)| due.at <= now).take(most).map(|(job, due)| (*job, *due)).collect();
        for (job, _) in &due {
            jobs.remove(job);
        }
        due
    }

    /// A job was looked at in vain. What came meanwhile counts.
    pub(crate) fn again(&self, job: JobId, before: Due, after: Duration, now: Instant) {
        let again = |due: &mut Due| {
            due.at = due.at.max(now + after);
            due.reported_here |= before.reported_here;
            due.ended |= before.ended;
            due.looks = before.looks.saturating_add(1);
        };
        self.put(job, again, now);
    }

    /// What was in the way is gone: whatever has ended is due.
    pub(crate) fn hurry(&self, now: Instant) {
        for due in self.jobs().values_mut().filter(|due| due.ended) {
            (due.at, due.looks) = (now, 0);
        }
    }

    /// Jobs whose attempts have ended and whose output is still here.
    pub(crate) fn ended(&self) -> usize {
        self.jobs().values().filter(|due| due.ended).count()
    }

    /// Whether the directory is to be looked at.
    pub(crate) fn wants_look(&self) -> bool {
        self.on && self.jobs().len() < MOST / 2 && self.overflown.swap(false, Ordering::Relaxed)
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Due>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many read the output of which job.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<JobId, usize>>);

/// While it lives, the files of a job stay.
#[derive(Debug)]
pub(crate) struct Hold {
    job: JobId,
    holds: Arc<Holds>,
}

impl Holds {
    pub(super) fn take(self: &Arc<Self>, job: JobId) -> Hold {
        *self.counts().entry(job).or_default() += 1;
        Hold { job, holds: Arc::clone(self) }
    }

    pub(super) fn any(&self, job: JobId) -> bool {
        self.counts().contains_key(&job)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<JobId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut counts = self.holds.counts();
        if let Some(count) = counts.get_mut(&self.job) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::Timestamp;

    use super::*;

    fn job(number: u8) -> JobId {
        JobId::from_random([number; 16])
    }

    #[test]
    fn a_job_is_due_when_its_output_is_quiet() {
        let (waiting, now) = (Waiting::on(), Instant::now());
        assert!(waiting.wants_look() && !waiting.wants_look(), "once, after the start");
        waiting.grew(job(1), now);
        assert_eq!(waiting.take(10, now), []);
        waiting.grew(job(1), now + QUIET / 2);
        assert_eq!(waiting.take(10, now + QUIET), []);
        let later = now + QUIET * 2;
        let (id, due) = waiting.take(10, later)[0];
        assert_eq!((id, due.reported_here), (job(1), false));
        waiting.again(id, due, QUIET * 10, later);
        assert_eq!(waiting.take(10, later + QUIET), []);
        let done = EventKind::Failed { attempt: 1, reason: muster_domain::EndReason::Timeout };
        waiting.heard(id, &Event::of_job(id, Timestamp::default(), done), later);
        let (id, due) = waiting.take(10, later + QUIET)[0];
        waiting.again(id, Due { ended: true, ..due }, QUIET * 10, later);
        assert_eq!(
            (waiting.take(10, later), waiting.ended()),
            (Vec::new(), 1),
            "its end was a reason to look"
        );
        waiting.hurry(later);
        assert_eq!(waiting.take(10, later).len(), 1);
        let off = Waiting::default();
        off.grew(job(1), now);
        assert_eq!(off.take(10, later), []);
    }

    #[test]
    fn files_stay_while_anybody_holds_them() {
        let holds = Arc::new(Holds::default());
        let (one, two) = (holds.take(job(1)), holds.take(job(1)));
        drop(one);
        assert!(holds.any(job(1)) && !holds.any(job(2)));
        drop(two);
        assert!(!holds.any(job(1)));
    }
}
