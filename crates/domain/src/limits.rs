//! Bounds and defaults that every part agrees on. Configuration may lower or raise the defaults.

use crate::spec::OnDisconnect;
use crate::time::Span;

/// Attempts in all when the submitter says nothing.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 3;
/// The most attempts a job may ask for.
pub const MAX_ATTEMPTS: u32 = 1_000;

/// How many jobs beyond its slots a worker may hold queued locally, so that a slot never waits for the network.
pub const MAX_AHEAD: u32 = 64;

/// How much longer than its timeout an attempt may run before the scheduler orders the stop that its
/// worker should have made.
pub const OVERRUN_SLACK: Span = Span::from_secs(2);

/// An exit that was reported without proof is believed when no heartbeat contradicts it for this long: two
/// heartbeat periods of the original worker and some slack.
pub const EXIT_EVIDENCE: Span = Span::from_secs(12);

/// The most that a worker may take to prepare a task (its checkpoint may have to be fetched) while it is heard of.
pub const PREPARATION: Span = Span::from_secs(15 * 60);

/// The pause before the next round of a gang of which a task could not be prepared.
pub const UNPREPARED_PAUSE: Span = Span::from_secs(5);

/// The most tasks that a gang may have.
pub const MAX_GANG: u32 = 4_096;

/// The most queues from the root of a tree down to its lowest one.
pub const MAX_QUEUE_DEPTH: usize = 16;

/// A job that was lost with this many workers, one after the other, is held.
pub const POISON_AFTER: usize = 3;

/// The longest that a job may ask to be kept by a worker that reaches no scheduler.
pub const MAX_KEEP: Span = Span::from_secs(7 * 24 * 3600);

/// How long leases last of workers that stop a job by themselves before its lease ends.
///
/// A worker cannot tell a scheduler that is away from a network that is cut. So it stops a job before the scheduler may
/// hand it out again: a job that is to outlive a longer outage is started again as much later when it is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Of jobs that are to be stopped soon; no lease is shorter.
    pub shortest: Span,
    /// Of jobs that say nothing about it.
    pub keep: Span,
}

impl LeaseTerms {
    /// How long a lease on such a job lasts without a sign of life.
    pub fn lease_of(self, wish: Option<OnDisconnect>) -> Span {
        let wished = match wish {
            Some(OnDisconnect::Stop) => self.shortest,
            Some(OnDisconnect::Keep(span)) => span,
            None => self.keep,
        };
        wished.max(self.shortest)
    }
}

/// How long the scheduler waits before it takes something for lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Silence of a running job after which its lease is taken away.
    pub job_heartbeat: Span,
    /// Silence of a worker after which it is shown as offline.
    pub worker_stale: Span,
    /// Time a stop order may stay unanswered before the process is taken for gone.
    pub preempt: Span,
    /// Time a worker has to claim what was reserved for it.
    pub reservation: Span,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            job_heartbeat: Span::from_secs(30),
            worker_stale: Span::from_secs(60),
            preempt: Span::from_secs(45),
            reservation: Span::from_secs(30),
        }
    }
}
