//! Which leases may write: asked once and remembered for a moment, so that a stream of uploads is not a
//! stream of reads of the store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_domain::{JobId, Lease};

/// A lease that has ended writes into files of its own, so that a late refusal does no harm.
const MEMORY: Duration = Duration::from_secs(5);
/// Leases that are remembered; beyond it all are asked for again.
const MOST: usize = 100_000;

/// Leases that were found to be in order.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    known: Mutex<HashMap<JobId, (Lease, Instant)>>,
}

impl Admissions {
    /// Whether the lease was admitted a moment ago.
    pub(crate) fn has(&self, job: JobId, lease: Lease, now: Instant) -> bool {
        let known = self.known();
        known.get(&job).is_some_and(|(known, until)| *known == lease && now < *until)
    }

    pub(crate) fn admit(&self, job: JobId, lease: Lease, now: Instant) {
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(job, (lease, now + MEMORY));
    }

    /// Something has happened to the job.
    pub(super) fn forget(&self, job: JobId) {
        self.known().remove(&job);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<JobId, (Lease, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admission_ends_with_time_and_with_events() {
        let admissions = Admissions::default();
        let (job, now) = (JobId::from_random([1; 16]), Instant::now());
        assert!(!admissions.has(job, Lease(1), now));
        admissions.admit(job, Lease(1), now);
        assert!(admissions.has(job, Lease(1), now));
        assert!(!admissions.has(job, Lease(2), now));
        assert!(!admissions.has(job, Lease(1), now + MEMORY));
        admissions.forget(job);
        assert!(!admissions.has(job, Lease(1), now));
    }
}
