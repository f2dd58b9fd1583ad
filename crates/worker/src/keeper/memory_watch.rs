//! Memory of attempts that no control group holds to their limit: it is looked at, and an attempt that holds more is
//! killed.
//!
//! This is weaker than a group: what is taken and given back between two looks is not seen, and an attempt can be far
//! over its limit for that long.

use std::fs;
use std::time::Duration;

use nix::libc;
use nix::unistd::{SysconfVar, sysconf};

use super::mark::Mark;
use super::message::OutOfMemory;
use super::process_tree::{Process, ProcessTree};
use super::table::{Entry, Life, State};

/// How often it is looked at, where any attempt has a limit.
pub(super) const ROUND: Duration = Duration::from_millis(200);

/// Whether there is anything to watch.
pub(super) fn is_needed(state: &State) -> bool {
    state.isolation.is_none() && state.jobs.values().any(|entry| watched(entry).is_some())
}

/// The first process of an attempt that runs and has a limit, and the limit.
fn watched(entry: &Entry) -> Option<(i32, u64)> {
    let limit = entry.memory_limit?;
    match entry.life {
        Life::Running { pid, .. } if entry.out_of_memory.is_none() => Some((i32::try_from(pid).ok()?, limit)),
        Life::Queued(_) | Life::Starting | Life::Running { .. } | Life::Ended(_) => None,
    }
}

/// Kills the attempts that hold more than they may.
pub(super) fn enforce(state: &mut State) {
    if !is_needed(state) {
        return;
    }
    let tree = ProcessTree::read();
    let below = tree.descendants(i32::try_from(std::process::id()).unwrap_or_default());
    for (key, entry) in &mut state.jobs {
        let Some((leader, limit_bytes)) = watched(entry) else { continue };
        let (of_guests, own): (Vec<_>, Vec<_>) = family(&tree, &below, leader)
            .into_iter()
            .map(|process| (process, held_bytes(process.pid)))
            .partition(|(process, _)| is_of_a_guest(&tree, state.guests.of(key), process.pid));
        let sum = |processes: &[(Process, u64)]| processes.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let peak_bytes = sum(&own);
        if peak_bytes + sum(&of_guests) <= limit_bytes {
            continue;
        }
        let mut killed = of_guests;
        if peak_bytes > limit_bytes {
            entry.out_of_memory = Some(OutOfMemory { limit_bytes: Some(limit_bytes), peak_bytes });
            killed.extend(own);
        }
        for (process, _) in killed {
            process.signal(libc::SIGKILL);
        }
    }
}

/// Guests are killed before the attempt that they look into.
fn is_of_a_guest(tree: &ProcessTree, guests: &[u32], pid: i32) -> bool {
    let is_guest = |pid: i32| guests.contains(&pid.unsigned_abs());
    !guests.is_empty() && (is_guest(pid) || tree.ancestors(pid).into_iter().any(is_guest))
}

/// Everything that carries the mark of the attempt; where there are no marks, what its first process has started.
fn family(tree: &ProcessTree, below: &[Process], leader: i32) -> Vec<Process> {
    if let Some(mark) = Mark::of_process(leader) {
        return below.iter().filter(|process| Mark::of_process(process.pid) == Some(mark)).copied().collect();
    }
    let mut family = tree.descendants(leader);
    family.extend(tree.find(leader));
    family
}

/// Memory of a process that it shares with no file: pages in all less those that belong to files.
fn held_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|bytes| u64::try_from(bytes).ok());
    own_pages(&text) * page.unwrap_or(4_096)
}

fn own_pages(statm: &str) -> u64 {
    let mut numbers = statm.split_whitespace().skip(1).filter_map(|number| number.parse::<u64>().ok());
    let (all, of_files) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    all.saturating_sub(of_files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_do_not_count() {
        assert_eq!(own_pages("1000 300 100 5 0 200 0\n"), 200);
        assert_eq!(own_pages(""), 0);
        let (before, block) = (held_bytes(std::process::id() as i32), vec![1_u8; 50_000_000]);
        let after = held_bytes(std::process::id() as i32);
        assert!(after >= before + 25_000_000, "{before} {after} {}", block.len());
    }
}
