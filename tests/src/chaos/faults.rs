//! What the faults of a drill excuse.
//!
//! Two things that look like broken promises cannot be kept by anybody. A machine that stands still keeps its processes, so
//! that a job which started elsewhere meanwhile finds them there. And a worker that dies in the moment between the last word
//! heard of it and the start of a round leaves the others to start without it.

use std::collections::BTreeMap;
use std::fs;

use super::ledger::Task;
use super::storm::Deed;

/// How long a machine that goes on again may take to stop what it should not have, in hundredths of a second.
const THAW: u64 = 100;
/// A round starts with those who were heard of within this time; and a start takes a moment.
const ROLL_CALL: u64 = 120;
const MOMENT: u64 = 50;

/// A fault, in hundredths of a second since boot.
#[derive(Debug, Clone)]
struct Fault {
    victim: String,
    what: &'static str,
    from: u64,
    until: u64,
}

/// The faults of a drill, and which worker had which task of a round.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    workers: BTreeMap<Task, String>,
}

/// Hundredths of a second since boot, as the ledger counts.
pub fn now() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let first = text.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
    (first.unwrap_or_default() * 100.0) as u64
}

impl Faults {
    /// Of a storm that began at `start`.
    pub fn new(deeds: &[Deed], start: u64) -> Self {
        let fault = |deed: &Deed| {
            let from = start + deed.at.as_millis() as u64 / 10;
            let until = from + deed.down.as_millis() as u64 / 10;
            Fault { victim: deed.victim.clone(), what: deed.what, from, until }
        };
        Self { faults: deeds.iter().map(fault).collect(), workers: BTreeMap::new() }
    }

    /// Notes where a task of a round was to run.
    pub fn note(&mut self, task: Task, worker: String) {
        self.workers.insert(task, worker);
    }

    /// Whether the machine of this worker stood still, or had only just gone on.
    pub fn was_frozen(&self, worker: &str, at: u64) -> bool {
        let frozen = self.on(worker).filter(|fault| fault.what == "machine frozen");
        frozen.into_iter().any(|fault| (fault.from..=fault.until + THAW).contains(&at))
    }

    /// Whether something happened to the worker of the task, or to what was to tell it, in the moment of the start.
    pub fn kept_away(&self, task: &Task, started: u64) -> bool {
        let during =
            |fault: &Fault, before: u64| fault.from <= started + MOMENT && fault.until + before >= started;
        let Some(worker) = self.workers.get(task) else { return false };
        self.on(worker).any(|fault| during(fault, ROLL_CALL + MOMENT))
            || self.faults.iter().any(|fault| !fault.victim.starts_with("worker ") && during(fault, MOMENT))
    }

    fn on(&self, worker: &str) -> impl Iterator<Item = &Fault> {
        let victim = format!("worker {worker}");
        self.faults.iter().filter(move |fault| fault.victim == victim)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn deed(at: u64, victim: &str, what: &'static str, down: u64) -> Deed {
        let (at, down) = (Duration::from_secs(at), Duration::from_secs(down));
        Deed { at, victim: victim.into(), what, down }
    }

    #[test]
    fn only_a_machine_that_stands_still_excuses_its_processes() {
        let deeds = [deed(10, "worker a", "machine frozen", 5), deed(10, "worker b", "keeper frozen", 5)];
        let faults = Faults::new(&deeds, 1_000);
        let frozen = [1_999, 2_000, 2_600, 2_601].map(|at| faults.was_frozen("a", at));
        assert_eq!(frozen, [false, true, true, false]);
        assert!(!faults.was_frozen("b", 2_100));
    }

    #[test]
    fn only_what_happens_to_its_own_worker_in_the_moment_of_the_start_excuses_a_task() {
        let deeds = [deed(10, "worker a", "agent killed", 1), deed(30, "scheduler x", "scheduler killed", 0)];
        let mut faults = Faults::new(&deeds, 0);
        let task = |index| Task { gang: "g".into(), round: 1, index, size: 2 };
        faults.note(task(0), "a".into());
        faults.note(task(1), "b".into());
        let excused = [949, 950, 1_269, 1_271, 3_000].map(|at| faults.kept_away(&task(0), at));
        assert_eq!(excused, [false, true, true, false, true]);
        assert!(!faults.kept_away(&task(1), 1_000));
    }
}
