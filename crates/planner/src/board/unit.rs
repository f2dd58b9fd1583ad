//! What waits or runs: a job, or a gang as a whole.

use muster_domain::{Span, Timestamp};

use super::ids::{QueueId, ShapeId};
use super::nodes::Places;

/// A job or gang as its owner describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Of one task.
    pub shape: ShapeId,
    /// All of them start together or none.
    pub tasks: u32,
    pub queue: QueueId,
    /// Higher is more important.
    pub priority: i32,
    pub submit: Timestamp,
    /// Decides between equals: smaller is older. No two units share one.
    pub seq: u64,
    /// How long it will run, as far as anybody knows.
    pub estimate: Option<Span>,
    /// Whether it may be stopped for others.
    pub preemptible: bool,
}

/// Time in the service of a unit, kept over all its runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Past {
    /// How long it has run.
    pub ran: Span,
    /// How long it has waited.
    pub waited: Span,
    /// What of its runs would have to be done again when it is stopped now is counted from here; `None` when
    /// it can go on where it was.
    pub saved_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Gone,
    Waiting,
    Running,
}

/// A unit with all that the board knows about it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) unit: Unit,
    pub(crate) class: u32,
    /// All its tasks, in GPUs or thousandths of a core.
    pub(crate) size: u64,
    pub(crate) state: State,
    /// Waits or runs since then.
    pub(crate) since: Timestamp,
    pub(crate) past: Past,
    pub(crate) level: u8,
    /// Goes first in its level, and is not stopped for reasons of level.
    pub(crate) pinned: bool,
    /// Those for which it was stopped, by `seq`.
    pub(crate) stopped_for: Vec<u64>,
    /// Its position among those that run.
    pub(crate) position: u32,
    /// Where it runs.
    pub(crate) places: Places,
    /// When it is expected to end.
    pub(crate) end: Option<Timestamp>,
}
