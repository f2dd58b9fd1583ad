//! What a job has had so far: time in which it ran, and time in which it waited for its turn.
//!
//! Guarantee: each moment counts once at the most, as one or the other, whatever way a job takes.

use crate::job::Job;
use crate::time::Timestamp;

/// How a job stood before something happened to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    running_since: Option<Timestamp>,
    waiting_since: Option<Timestamp>,
}

impl Before {
    pub(super) fn of(job: &Job) -> Self {
        Self { running_since: job.running_since(), waiting_since: job.waiting_since() }
    }

    /// Adds up what came to an end. Whoever gives its place up is no longer pinned: it has had its turn, and
    /// becomes pinned again if it has still waited for longer than it ran.
    pub(super) fn settle(self, job: &mut Job, now: Timestamp) {
        if let Some(since) = self.running_since.filter(|_| job.running_since().is_none()) {
            job.served = job.served + now.since(since);
            job.pinned = false;
        }
        if let Some(since) = self.waiting_since.filter(|since| job.waiting_since() != Some(*since)) {
            job.waited = job.waited + now.since(since);
        }
        job.pinned &= !job.is_terminal();
    }
}
