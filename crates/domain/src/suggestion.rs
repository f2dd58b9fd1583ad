//! Changes that would let work start, as values that read as sentences. The planner gives only those that its own
//! placement has tried.

use std::fmt;

use crate::amounts::Quantity;
use crate::gang_room::amount;
use crate::ids::{QueueName, WorkerId};
use crate::kept_room::Unit;
use crate::resources::Dimension;
use crate::time::{Span, Timestamp};
use crate::topology::TopologyMode;

/// One change, of the work, of a queue or of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It asks for less of one kind.
    Less { dimension: Dimension, from: u64, to: u64 },
    /// A round of the gang may start with fewer tasks.
    FewerTasks { from: u32, to: u32 },
    /// More tasks of the gang may share a worker.
    MoreOnOne { from: u32, to: u32 },
    /// It does not require these tags.
    WithoutTags { tags: Vec<String> },
    /// It shares its worker with others.
    NotExclusive,
    /// Where its tasks are is only a wish.
    Anywhere { label: String, mode: TopologyMode },
    /// It ends before the room is wanted that is kept for others.
    TimeLimit { limit: Span, unit: Unit, until: Timestamp },
    /// It is more important: it goes before these, and those stop for it.
    Priority { from: i32, to: i32, before: Vec<Unit>, stops: Vec<Unit> },
    /// It may be stopped, and so may borrow.
    Preemptible,
    /// The queue starts jobs again.
    Resume { queue: QueueName },
    /// More jobs of the queue, or of one user of it, run at once.
    MoreRunning { queue: QueueName, user: Option<String>, from: u32, to: u32 },
    /// More jobs of the key run at once.
    MoreOfKey { key: String, from: u32, to: u32 },
    /// The queue may borrow more, or has more of its own: kind, from, to.
    MoreQuota { queue: QueueName, borrow: bool, amounts: Vec<(Dimension, u64, u64)> },
    /// The worker gets work again.
    Release { worker: WorkerId },
}

impl Change {
    /// Stable word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Less { .. } => "less",
            Self::FewerTasks { .. } => "fewer_tasks",
            Self::MoreOnOne { .. } => "more_tasks_per_worker",
            Self::WithoutTags { .. } => "without_tags",
            Self::NotExclusive => "not_exclusive",
            Self::Anywhere { .. } => "anywhere",
            Self::TimeLimit { .. } => "time_limit",
            Self::Priority { .. } => "priority",
            Self::Preemptible => "preemptible",
            Self::Resume { .. } => "resume_queue",
            Self::MoreRunning { user: None, .. } => "more_running",
            Self::MoreRunning { user: Some(_), .. } => "more_running_per_user",
            Self::MoreOfKey { .. } => "more_concurrency",
            Self::MoreQuota { borrow: true, .. } => "more_borrowing",
            Self::MoreQuota { borrow: false, .. } => "more_quota",
            Self::Release { .. } => "release_worker",
        }
    }
}

/// A change, or two that help only together, and where the work would start after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    pub change: Change,
    /// Where the first alone does not help, nor this one.
    pub also: Option<Change>,
    /// Some of the workers; none when room must be made there first.
    pub workers: Vec<WorkerId>,
    pub more_workers: u32,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.change.fmt(f)?;
        if let Some(also) = &self.also {
            write!(f, " and {also}")?;
        }
        if let Change::Priority { stops, .. } = self.also.as_ref().unwrap_or(&self.change)
            && !stops.is_empty()
        {
            let names: Vec<String> = stops.iter().take(3).map(ToString::to_string).collect();
            write!(f, " it would start as soon as {} had stopped for it", names.join(", "))?;
            return match stops.len().saturating_sub(names.len()) {
                0 => Ok(()),
                more => write!(f, " ({more} more too)"),
            };
        }
        f.write_str(" it would start now")?;
        if self.workers.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.workers.iter().map(WorkerId::as_str).collect();
        write!(f, " on {}", names.join(", "))?;
        if self.more_workers > 0 { write!(f, " and {} more", self.more_workers) } else { Ok(()) }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Less { dimension, from, to } => {
                write!(f, "with {} instead of {}", amount(dimension, *to), Quantity(dimension, *from))
            }
            Self::FewerTasks { from, to } => write!(f, "with --gang-min {to} instead of {from}"),
            Self::MoreOnOne { from, to } => write!(f, "with --tasks-per-worker {to} instead of {from}"),
            Self::WithoutTags { tags } if tags.len() == 1 => write!(f, "without the tag {}", tags.join(", ")),
            Self::WithoutTags { tags } => write!(f, "without the tags {}", tags.join(", ")),
            Self::NotExclusive => f.write_str("without --exclusive"),
            Self::Anywhere { label, mode } => {
                write!(f, "if it were only preferred, not required, to {mode} its tasks by {label},")
            }
            Self::TimeLimit { limit, unit, until } => {
                let minutes = limit.as_micros() / 60_000_000;
                let seconds = limit.as_micros() / 1_000_000;
                let limit = if minutes >= 1 { format!("{minutes}m") } else { format!("{seconds}s") };
                write!(
                    f,
                    "with --timeout {limit} it could pass {unit}, whose room is wanted at {}:",
                    until.to_minute()
                )
            }
            Self::Priority { to, .. } => write!(f, "with priority {to}"),
            Self::Preemptible => f.write_str("if it were preemptible, and so could borrow,"),
            Self::Resume { queue } => write!(f, "if queue {queue} were resumed"),
            Self::MoreRunning { queue, user: None, to, .. } => {
                write!(f, "if queue {queue} let {to} jobs run at once")
            }
            Self::MoreRunning { queue, user: Some(user), to, .. } => {
                write!(f, "if queue {queue} let {to} jobs of {user} run at once")
            }
            Self::MoreOfKey { key, to, .. } => write!(f, "with at most {to} of {key:?} at once"),
            Self::MoreQuota { queue, borrow, amounts } => {
                let more: Vec<String> =
                    amounts.iter().map(|(kind, from, to)| amount(kind, to.saturating_sub(*from))).collect();
                let what = if *borrow { "might borrow" } else { "had" };
                write!(f, "if queue {queue} {what} {} more", more.join(" and "))
            }
            Self::Release { worker } => write!(f, "if {worker} were released from quarantine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GangId, JobId};

    fn text(change: Change) -> String {
        Suggestion { change, also: None, workers: vec![WorkerId::new("w3")], more_workers: 0 }.to_string()
    }

    #[test]
    fn two_changes_read_as_one_sentence() {
        let resume = Change::Resume { queue: QueueName::new("lab") };
        let less = Change::Less { dimension: Dimension::Gpus, from: 8, to: 4 };
        let workers = vec![WorkerId::new("w3")];
        let both = Suggestion { change: resume, also: Some(less), workers, more_workers: 0 };
        let expected = "if queue lab were resumed and with 4 GPUs instead of 8 it would start now on w3";
        assert_eq!(both.to_string(), expected);
    }

    #[test]
    fn changes_read_as_sentences() {
        let less = Change::Less { dimension: Dimension::Gpus, from: 8, to: 4 };
        assert_eq!(text(less), "with 4 GPUs instead of 8 it would start now on w3");
        let tag = Change::WithoutTags { tags: vec!["a100".to_owned()] };
        assert_eq!(text(tag), "without the tag a100 it would start now on w3");
        let unit = Unit::Gang(GangId::from_random([1; 16]));
        let until = Timestamp::from_micros(1_700_000_000_000_000);
        let limit = Change::TimeLimit { limit: Span::from_secs(1_830), unit, until };
        let expected = format!(
            "with --timeout 30m it could pass {unit}, whose room is wanted at 2023-11-14 22:13 UTC: it would start \
             now on w3"
        );
        assert_eq!(text(limit), expected);
        let stops = vec![Unit::Job(JobId::from_random([2; 16]))];
        let expected = format!("with priority 6 it would start as soon as {} had stopped for it", stops[0]);
        assert_eq!(text(Change::Priority { from: 0, to: 6, before: Vec::new(), stops }), expected);
        let amounts = vec![(Dimension::Gpus, 8, 16)];
        let more = Change::MoreQuota { queue: QueueName::new("lab"), borrow: true, amounts };
        assert_eq!(text(more), "if queue lab might borrow 8 GPUs more it would start now on w3");
    }
}
