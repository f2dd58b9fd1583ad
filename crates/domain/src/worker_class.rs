//! Workers that are alike in what matters to a job or gang: how many have room, who holds the others, and until
//! when. Numbers count all workers; the lists name a few.

use std::fmt;

use crate::container::CONTAINERS;
use crate::gang_room::{amount, amounts};
use crate::ids::QueueName;
use crate::kept_room::Unit;
use crate::resources::{Resources, Shortfall};
use crate::time::Timestamp;

/// Work that holds workers of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub unit: Unit,
    pub queue: Option<QueueName>,
    pub user: Option<String>,
    /// On so many workers of the class that have no room.
    pub workers: u32,
    /// When it will have ended; `None` when nobody can say.
    pub ends: Option<Timestamp>,
}

/// One class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerClass {
    /// What each of them has at least, of the kinds that are needed.
    pub has: Resources,
    pub slots: Option<u32>,
    /// Tags that are required and that they do not carry.
    pub missing_tags: Vec<String>,
    /// What they lack even when they are empty; nothing when they could run it.
    pub lacks: Vec<Shortfall>,
    pub workers: u32,
    /// Those that would take it now, or a task of it.
    pub room: u32,
    /// Those that have room and keep it for somebody who goes first.
    pub kept: u32,
    /// Those without room.
    pub busy: u32,
    /// Those in quarantine.
    pub quarantined: u32,
    /// Those that were not heard of lately.
    pub offline: u32,
    /// When the first of the busy ones will have room, by what is known of the ends of what runs there.
    pub free_at: Option<Timestamp>,
    /// Busy ones of which nobody can say when they will have room.
    pub endless: u32,
    /// Who is on the busy ones, those on most of them first.
    pub holders: Vec<Holder>,
    pub more_holders: u32,
}

impl WorkerClass {
    /// Whether its workers could run it at all.
    pub fn is_able(&self) -> bool {
        self.missing_tags.is_empty() && self.lacks.is_empty()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unit.fmt(f)?;
        match (&self.user, &self.queue) {
            (Some(user), Some(queue)) => write!(f, " (of {user} in {queue})")?,
            (Some(user), None) => write!(f, " (of {user})")?,
            (None, Some(queue)) => write!(f, " (in {queue})")?,
            (None, None) => {}
        }
        if self.workers > 1 { write!(f, " on {}", self.workers) } else { Ok(()) }
    }
}

impl fmt::Display for WorkerClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.workers == 1 { "" } else { "s" };
        write!(f, "{} worker{plural}", self.workers)?;
        let mut has = amounts(&self.has);
        has.extend(self.slots.map(|slots| amount(&crate::resources::Dimension::Slots, slots.into())));
        if !has.is_empty() {
            write!(f, " with {}", has.join(", "))?;
        }
        if self.missing_tags.iter().any(|tag| tag == CONTAINERS) {
            return f.write_str(": without containers");
        }
        if !self.missing_tags.is_empty() {
            let tags = if self.missing_tags.len() == 1 { "tag" } else { "tags" };
            return write!(f, ": without the {tags} {}", self.missing_tags.join(", "));
        }
        if !self.lacks.is_empty() {
            let lacks: Vec<String> =
                self.lacks.iter().map(|one| amount(&one.dimension, one.needed)).collect();
            return write!(f, ": too small, {} needed", lacks.join(" and "));
        }
        self.write_state(f)
    }
}

impl WorkerClass {
    fn write_state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = [
            (self.room, "with room"),
            (self.kept, "with room that is kept for others"),
            (self.quarantined, "in quarantine"),
            (self.offline, "offline"),
        ];
        let mut parts: Vec<String> = states
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(
                |(count, state)| {
                    if count == self.workers { state.to_owned() } else { format!("{count} {state}") }
                },
            )
            .collect();
        if self.busy > 0 {
            let count = if self.busy == self.workers { String::new() } else { format!("{} ", self.busy) };
            parts.push(format!("{count}busy{}", self.until()));
        }
        write!(f, ": {}", parts.join(", "))?;
        if self.holders.is_empty() {
            return Ok(());
        }
        let holders: Vec<String> = self.holders.iter().map(ToString::to_string).collect();
        write!(f, " with {}", holders.join(", "))?;
        if self.more_holders > 0 { write!(f, " and {} more", self.more_holders) } else { Ok(()) }
    }

    fn until(&self) -> String {
        match self.free_at {
            Some(at) if self.busy == 1 => format!(" until about {}", at.to_minute()),
            Some(at) => format!(", the first until about {}", at.to_minute()),
            None => " (no end known)".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GangId, JobId};

    fn gpus(gpus: u64) -> Resources {
        Resources { gpus, ..Resources::default() }
    }

    #[test]
    fn a_class_reads_as_a_line() {
        let gang = Unit::Gang(GangId::from_random([1; 16]));
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let holder = Holder {
            unit: gang,
            queue: Some(QueueName::new("research")),
            user: Some("ann".to_owned()),
            workers: 3,
            ends: Some(at),
        };
        let busy = WorkerClass {
            has: gpus(8),
            workers: 3,
            busy: 3,
            free_at: Some(at),
            holders: vec![holder],
            ..WorkerClass::default()
        };
        assert_eq!(
            busy.to_string(),
            format!(
                "3 workers with 8 GPUs: busy, the first until about 2023-11-14 22:13 UTC with {gang} (of ann in \
                 research) on 3"
            )
        );
        let small = WorkerClass {
            has: gpus(4),
            lacks: gpus(8).shortfalls(&gpus(4)),
            workers: 12,
            ..Default::default()
        };
        assert_eq!(small.to_string(), "12 workers with 4 GPUs: too small, 8 GPUs needed");
        let holder = |byte| Holder {
            unit: Unit::Job(JobId::from_random([byte; 16])),
            queue: None,
            user: None,
            workers: 1,
            ends: None,
        };
        let mixed = WorkerClass {
            slots: Some(1),
            workers: 4,
            room: 1,
            busy: 2,
            quarantined: 1,
            endless: 2,
            holders: vec![holder(7)],
            more_holders: 1,
            ..WorkerClass::default()
        };
        let expected = format!(
            "4 workers with 1 slot: 1 with room, 1 in quarantine, 2 busy (no end known) with {} and 1 more",
            holder(7).unit
        );
        assert_eq!(mixed.to_string(), expected);
    }
}
