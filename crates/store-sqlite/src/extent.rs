//! How much of a job's row an update names. An index is looked at by every update that names one of its columns, so that
//! the many updates that start and end jobs name few.
//!
//! Guarantee: a column that an update leaves out has the value that is stored. What is stored is known from the last read or
//! write of the row in the same transaction; without one all columns are named.

use muster_domain::{ClosedLease, Exit, Job, Phase, Timestamp};

/// Which columns an update names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What changes when a job starts, or is heard of.
    Run,
    /// The same, and how its last attempt ended.
    End,
    All,
}

impl Extent {
    pub(crate) const EACH: [Self; 3] = [Self::Run, Self::End, Self::All];

    /// What has to be named to bring a stored job from one state to another.
    pub(crate) fn between(stored: Option<&Mark>, new: &Mark) -> Self {
        match stored {
            Some(stored) if stored.rest == new.rest && !new.rest.has_reason => {
                if stored.ending == new.ending { Self::Run } else { Self::End }
            }
            _ => Self::All,
        }
    }
}

/// What is stored of a job in the columns that not every update names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    ending: Ending,
    rest: Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ending {
    done_at: Option<Timestamp>,
    closed: Option<ClosedLease>,
    exit: Option<Exit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rest {
    preemption_epoch: u32,
    reservation_epoch: u32,
    reserved_at: Option<Timestamp>,
    drain_started_at: Option<Timestamp>,
    waiting_on: Option<u32>,
    checkpoint_bytes: Option<u64>,
    alarm: Option<Timestamp>,
    pinned: bool,
    /// Its text is not compared.
    has_reason: bool,
}

impl Mark {
    pub(crate) fn of(job: &Job) -> Self {
        let (mut reserved_at, mut waiting_on) = (None, None);
        let mut has_reason = false;
        match &job.phase {
            // What is claimed is no longer waited for by that time.
            Phase::Reserved { reserved_at: at, claim: None, .. } => reserved_at = Some(*at),
            Phase::Blocked { needs } => waiting_on = Some(needs.unfinished()),
            Phase::Preempting { .. }
            | Phase::Preempted { .. }
            | Phase::Failed { .. }
            | Phase::Cancelled { .. } => has_reason = true,
            Phase::Pending
            | Phase::Delayed { .. }
            | Phase::Held { .. }
            | Phase::Reserved { claim: Some(_), .. }
            | Phase::Running { .. }
            | Phase::Finished { .. }
            | Phase::Done { .. } => {}
        }
        Self {
            ending: Ending { done_at: job.done_at(), closed: job.closed, exit: job.exit },
            rest: Rest {
                preemption_epoch: job.preemption_epoch,
                reservation_epoch: job.reservation_epoch,
                reserved_at,
                drain_started_at: job.drain_started_at(),
                waiting_on,
                checkpoint_bytes: job.checkpoint_bytes,
                alarm: job.alarm(),
                pinned: job.pinned,
                has_reason,
            },
        }
    }
}
