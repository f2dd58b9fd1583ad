//! The processes of this machine as the kernel lists them: who belongs to a job, and what they listen to.
//!
//! Guarantee: a process is signalled only if it still is the one that was found, however quickly the system
//! gives numbers again.

use std::collections::{BTreeSet, HashSet};
use std::fs;

use super::signals::ProcessHandle;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(super) pid: i32,
    parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Ticks since boot; with the number it names a process for good.
    pub(super) born: u64,
    /// It has ended and only waits to be collected.
    ended: bool,
}

/// All processes at one moment. One that is started while the list is read may be missing.
#[derive(Debug, Default)]
pub(super) struct ProcessTree {
    processes: Vec<Process>,
}

/// Everything alive that a process has started.
pub(crate) fn descendants(ancestor: i32) -> Vec<Process> {
    ProcessTree::read().descendants(ancestor)
}

/// The process groups that the children of a process lead or are in, without its own.
pub(crate) fn groups_below(parent: i32) -> Vec<i32> {
    ProcessTree::read().groups_below(parent)
}

impl ProcessTree {
    pub(super) fn read() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        Self { processes: pids.filter_map(Process::read).collect() }
    }

    pub(super) fn into_processes(self) -> impl Iterator<Item = Process> {
        self.processes.into_iter()
    }

    /// The living members of a process group.
    pub(super) fn group(&self, leader: i32) -> Vec<Process> {
        self.processes.iter().filter(|process| process.group == leader && !process.ended).copied().collect()
    }

    /// Everything that a process has started, and what that has started, as long as the chain lives.
    pub(super) fn descendants(&self, ancestor: i32) -> Vec<Process> {
        let mut found: Vec<Process> = Vec::new();
        let mut parents = HashSet::from([ancestor]);
        loop {
            let before = found.len();
            for process in &self.processes {
                if parents.contains(&process.parent) && parents.insert(process.pid) {
                    found.push(*process);
                }
            }
            if found.len() == before {
                found.retain(|process| !process.ended);
                return found;
            }
        }
    }

    fn groups_below(&self, parent: i32) -> Vec<i32> {
        let own = self.find(parent).map(|process| process.group);
        let children = self.processes.iter().filter(|process| process.parent == parent && !process.ended);
        let groups: BTreeSet<i32> = children.map(|process| process.group).collect();
        // In a container made by somebody else a group may have its number there only, which is 0 here.
        groups.into_iter().filter(|group| *group > 1 && Some(*group) != own).collect()
    }

    /// The numbers of a process's parent, of the parent's parent, and so on.
    pub(super) fn ancestors(&self, pid: i32) -> Vec<i32> {
        let mut chain = Vec::new();
        let mut current = pid;
        while let Some(process) = self.processes.iter().find(|process| process.pid == current) {
            if process.parent <= 1 || chain.contains(&process.parent) {
                break;
            }
            chain.push(process.parent);
            current = process.parent;
        }
        chain
    }

    pub(super) fn find(&self, pid: i32) -> Option<Process> {
        self.processes.iter().find(|process| process.pid == pid).copied()
    }
}

impl Process {
    pub(super) fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name of the program stands in brackets and may hold anything, brackets too.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            born: fields.get(19)?.parse().ok()?,
            ended: matches!(fields.first()?.chars().next()?, 'Z' | 'X' | 'x'),
        })
    }

    /// Whether the process has a handler for a signal.
    pub(super) fn catches(self, signal: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        caught(&status) & 1_u64.checked_shl(signal.unsigned_abs().wrapping_sub(1)).unwrap_or(0) != 0
    }

    pub(crate) fn signal(self, signal: i32) {
        let handle = ProcessHandle::open(self.pid);
        // Only what is looked at after the handle was taken is true of what the handle holds.
        if Self::read(self.pid).is_some_and(|now| now.born == self.born) {
            handle.signal(self.pid, signal);
        }
    }
}

/// The signals with a handler, one bit each.
fn caught(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32) -> Process {
        Process { pid, parent, group, session: group, born: 1, ended: false }
    }

    #[test]
    fn a_program_may_have_any_name() {
        let stat = "7 (a) S (b) Z 3 5 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let parsed = Process::parse(7, stat).unwrap();
        assert_eq!(parsed, Process { pid: 7, parent: 3, group: 5, session: 6, born: 4711, ended: true });
        assert_eq!(Process::parse(7, "7 (cut"), None);
    }

    #[test]
    fn groups_and_descent_are_two_things() {
        let mut gone = process(14, 10, 10);
        gone.ended = true;
        let processes =
            vec![process(13, 12, 13), process(10, 1, 10), process(11, 10, 10), process(12, 11, 10), gone];
        let tree = ProcessTree { processes };
        let pids = |found: Vec<Process>| {
            let mut pids: Vec<i32> = found.into_iter().map(|process| process.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(tree.group(10)), [10, 11, 12]);
        assert_eq!(pids(tree.descendants(10)), [11, 12, 13], "one of them has a group of its own");
        assert_eq!(tree.ancestors(13), [12, 11, 10]);
        assert_eq!(tree.ancestors(99), [] as [i32; 0]);
    }

    #[test]
    fn handlers_are_read_from_the_mask() {
        assert_eq!(caught("Name:\tx\nSigCgt:\t0000000000000a00\n"), 1 << 9 | 1 << 11);
        assert_eq!(caught("Name:\tx\n"), 0);
        let own = ProcessTree::read().find(std::process::id() as i32).unwrap();
        assert!(!own.catches(64), "nobody here handles the last real-time signal");
    }
}
