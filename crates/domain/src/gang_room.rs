//! How much of the room that a gang needs there is, as a value that reads as a sentence.

use std::fmt;

use crate::ids::WorkerId;
use crate::resources::{Dimension, Resources, Shortfall};

/// What a gang looks for, and who has how much of it. Numbers count all workers; the lists name a few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangRoom {
    /// The fewest tasks that have to start at once.
    pub needed: u32,
    /// All tasks that wait; more than `needed` when a round may start with fewer.
    pub tasks: u32,
    /// The most tasks on one worker.
    pub per_worker: u32,
    /// Of one task.
    pub need: Resources,
    pub tags: Vec<String>,
    /// Tasks for which there is room.
    pub room: u64,
    /// Workers that have that room.
    pub fitting: u32,
    /// Some of them, with the tasks that each can take.
    pub fitting_some: Vec<(WorkerId, u32)>,
    /// Workers that carry the tags and have no room.
    pub lacking: u32,
    /// Those of them that lack the least.
    pub lacking_some: Vec<(WorkerId, Vec<Shortfall>)>,
    /// Active workers without one of the tags.
    pub untagged: u32,
}

impl GangRoom {
    /// The sentence; `now` tells busy workers from workers that are too small.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, now: bool) -> fmt::Result {
        self.write_need(f)?;
        let when = if now { "now" } else { "even when every worker is empty" };
        match (self.per_worker, self.fitting) {
            (_, 0) => write!(f, "; no worker has room {when}")?,
            (1, 1) => write!(f, "; 1 has room {when}")?,
            (1, fitting) => write!(f, "; {fitting} have room {when}")?,
            _ => write!(f, "; there is room for {} {when}", self.room)?,
        }
        self.write_fitting(f)?;
        for (worker, shortfalls) in &self.lacking_some {
            let amounts: Vec<String> = shortfalls
                .iter()
                .map(|s| amount(&s.dimension, s.needed.saturating_sub(s.available)))
                .collect();
            write!(f, "; {worker} lacks {}", amounts.join(" and "))?;
        }
        match self.lacking as usize - self.lacking_some.len().min(self.lacking as usize) {
            0 => {}
            1 => f.write_str("; 1 more worker lacks more")?,
            more => write!(f, "; {more} more workers lack as much or more")?,
        }
        match self.untagged {
            0 => Ok(()),
            1 => write!(f, "; 1 worker does not carry {}", self.tag_list()),
            many => write!(f, "; {many} workers do not carry {}", self.tag_list()),
        }
    }

    fn write_need(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = amounts(&self.need);
        let with = if each.is_empty() { String::new() } else { format!(" with {}", each.join(" and ")) };
        let least = if self.needed < self.tasks { "at least " } else { "" };
        let plural = if self.needed == 1 { "" } else { "s" };
        if self.per_worker == 1 {
            return write!(f, "needs {least}{} worker{plural}{with} at once", self.needed);
        }
        let tasks = format!("{} task{plural}{with}", self.needed);
        write!(f, "needs room for {least}{tasks} at once, at most {} on one worker", self.per_worker)
    }

    fn write_fitting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fitting_some.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self
            .fitting_some
            .iter()
            .map(|(worker, tasks)| match self.per_worker {
                1 => worker.to_string(),
                _ => format!("{worker}: {tasks}"),
            })
            .collect();
        match (self.fitting as usize).saturating_sub(names.len()) {
            0 => write!(f, " ({})", names.join(", ")),
            more => write!(f, " ({} and {more} more)", names.join(", ")),
        }
    }

    fn tag_list(&self) -> String {
        let plural = if self.tags.len() == 1 { "tag" } else { "tags" };
        format!("the {plural} {}", self.tags.join(", "))
    }
}

/// Every amount that is needed, as words.
pub(crate) fn amounts(need: &Resources) -> Vec<String> {
    // What nothing at all falls short of is what is needed.
    let all = need.shortfalls(&Resources::default());
    all.iter().map(|shortfall| amount(&shortfall.dimension, shortfall.needed)).collect()
}

pub(crate) fn amount(dimension: &Dimension, amount: u64) -> String {
    let plural = if amount == 1 { "" } else { "s" };
    match dimension {
        Dimension::CpuMillis => {
            let cpus = amount as f64 / 1e3;
            format!("{cpus} CPU{}", if amount == 1000 { "" } else { "s" })
        }
        Dimension::MemoryMb => format!("{amount} MB of memory"),
        Dimension::VramMb => format!("{amount} MB of GPU memory"),
        Dimension::Gpus => format!("{amount} GPU{plural}"),
        Dimension::Counter(name) => format!("{amount} of {name}"),
        Dimension::Slots => format!("{amount} slot{plural}"),
        Dimension::Alone => "other jobs to be gone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Reason;

    fn vram(vram_mb: u64) -> Resources {
        Resources { vram_mb, ..Resources::default() }
    }

    fn worker(name: &str) -> WorkerId {
        WorkerId::new(name)
    }

    fn room() -> GangRoom {
        GangRoom {
            needed: 4,
            tasks: 4,
            per_worker: 1,
            need: vram(8000),
            tags: Vec::new(),
            room: 3,
            fitting: 3,
            fitting_some: vec![(worker("a"), 1), (worker("b"), 1), (worker("c"), 1)],
            lacking: 1,
            lacking_some: vec![(worker("d"), vram(8000).shortfalls(&vram(5000)))],
            untagged: 0,
        }
    }

    #[test]
    fn the_sentence_names_the_need_the_room_and_what_is_missing() {
        assert_eq!(
            Reason::GangRoom(Box::new(room())).to_string(),
            "needs 4 workers with 8000 MB of GPU memory at once; 3 have room now (a, b, c); \
             d lacks 3000 MB of GPU memory"
        );
        let never = GangRoom { tags: vec!["a100".to_owned()], untagged: 2, ..room() };
        assert_eq!(
            Reason::GangImpossible(Box::new(never)).to_string(),
            "needs 4 workers with 8000 MB of GPU memory at once; 3 have room even when every worker is empty \
             (a, b, c); d lacks 3000 MB of GPU memory; 2 workers do not carry the tag a100"
        );
    }

    #[test]
    fn tasks_that_share_workers_are_counted_by_room() {
        let shared = GangRoom {
            needed: 8,
            tasks: 16,
            per_worker: 4,
            need: Resources { gpus: 1, cpu_millis: 1500, ..Resources::default() },
            room: 5,
            fitting: 20,
            fitting_some: vec![(worker("a"), 4), (worker("b"), 1)],
            lacking: 9,
            lacking_some: Vec::new(),
            ..room()
        };
        assert_eq!(
            Reason::GangRoom(Box::new(shared)).to_string(),
            "needs room for at least 8 tasks with 1.5 CPUs and 1 GPU at once, at most 4 on one worker; \
             there is room for 5 now (a: 4, b: 1 and 18 more); 9 more workers lack as much or more"
        );
    }
}
