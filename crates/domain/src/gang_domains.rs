//! How far the domains of a label are from holding a gang, as a value that reads as a sentence.

use std::fmt;

use crate::topology::TopologyMode;

/// What a gang wants of the values of a label, and which of them come closest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangDomains {
    pub label: String,
    pub mode: TopologyMode,
    /// The fewest tasks that have to start at once.
    pub needed: u32,
    /// Values that have too little room.
    pub domains: u32,
    /// Those of them that come closest, with the tasks that each has room for and those that it has not.
    pub closest: Vec<(String, u64, u64)>,
    /// Workers that could take part but do not carry the label.
    pub unlabelled: u32,
}

impl GangDomains {
    /// The sentence; `now` tells busy workers from domains that are too small.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, now: bool) -> fmt::Result {
        let (label, needed) = (&self.label, self.needed);
        match self.mode {
            TopologyMode::Pack => write!(f, "needs room for {needed} tasks with one value of {label}")?,
            TopologyMode::Spread => write!(f, "needs room for {needed} tasks, as many with each {label}")?,
        }
        let when = if now { "now" } else { "even when every worker is empty" };
        if self.domains == 0 {
            write!(f, "; no worker that could run one carries the label {label}")?;
        }
        for (place, (value, room, lacks)) in self.closest.iter().enumerate() {
            let when = if place == 0 { format!(" {when}") } else { String::new() };
            write!(f, "; {label}={value} has room for {room}{when} and lacks {lacks}")?;
        }
        match (self.domains as usize).saturating_sub(self.closest.len()) {
            0 => {}
            more => write!(f, "; {more} more lack as much or more")?,
        }
        match self.unlabelled {
            0 => Ok(()),
            1 => write!(f, "; 1 worker has no label {label}"),
            many => write!(f, "; {many} workers have no label {label}"),
        }
    }
}
