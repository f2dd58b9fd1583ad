//! The control group that an engine has made for a container, as somebody sees it who may only read.
//!
//! Guarantees: only a group that is named after the container is read; what the kernel does not count is absent and never zero.

use std::fs;
use std::path::{Path, PathBuf};

use muster_protocol::Usage;

use super::counters::Counters;
use super::files::{Kept, processes};
use super::hierarchies::Hierarchies;

/// Where this kernel counts input and output in the first form.
const BLOCK_BYTES: &str = "blkio.throttle.io_service_bytes_recursive";

/// What is counted of one container, kept open.
#[derive(Debug)]
pub(crate) struct ContainerGroup {
    counters: Counters,
    /// Apart from all time only in the first form.
    system: Option<Kept>,
    io: Option<Kept>,
    /// Where its processes are listed.
    place: PathBuf,
}

impl ContainerGroup {
    /// The group of a container whose processes need not be known: engines make it in one of the groups below the uppermost one.
    pub(crate) fn named_after(container: &str) -> Option<Self> {
        let tops = Hierarchies::tops().ok()?;
        let top = tops.of("cpuacct").map(|(_, path)| path.as_path());
        let top = top.or_else(|| tops.unified.as_ref().map(|own| own.path.as_path()))?;
        let names = [
            container.to_owned(),
            format!("docker-{container}.scope"),
            format!("libpod-{container}"),
            format!("libpod-{container}.scope"),
        ];
        let parents = fs::read_dir(top)
            .ok()?
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below = parents.flat_map(|parent| names.iter().map(move |name| parent.path().join(name)));
        let found = below.into_iter().find(|path| path.is_dir())?;
        Self::open(&tops, found.strip_prefix(top).ok()?)
    }

    /// The group that a process is in, if that is the container's.
    pub(crate) fn of_process(pid: i32, container: &str) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = groups
            .lines()
            .filter_map(|line| line.splitn(3, ':').nth(2))
            .find(|path| path.contains(container))?;
        let parts = Path::new(path).components();
        // Engines make groups of their own inside.
        let mut whole = PathBuf::new();
        for part in parts.skip(1) {
            whole.push(part);
            if part.as_os_str().to_string_lossy().contains(container) {
                break;
            }
        }
        Self::open(&Hierarchies::tops().ok()?, &whole)
    }

    fn open(tops: &Hierarchies, below: &Path) -> Option<Self> {
        let separate = |controller: &str| tops.of(controller).map(|(_, top)| top.join(below));
        if let Some(place) = separate("cpuacct").filter(|place| place.is_dir()) {
            let counters = Counters::first(|controller| separate(controller).unwrap_or_default());
            let system = Kept::open(&place.join("cpuacct.usage_sys"));
            let io = separate("blkio").and_then(|group| Kept::open(&group.join(BLOCK_BYTES)));
            return Some(Self { counters, system, io, place });
        }
        let place = tops.unified.as_ref().map(|own| own.path.join(below)).filter(|place| place.is_dir())?;
        Some(Self { counters: Counters::second(&place), system: None, io: None, place })
    }

    /// What was used so far; `None` once the group is gone.
    pub(crate) fn read(&self) -> Option<Usage> {
        let count = self.counters.read();
        let cpu_us = count.cpu_us?;
        let system_us = count.system_us.or_else(|| self.system.as_ref()?.number().map(|ns| ns / 1_000));
        let moved = self.io.as_ref().and_then(|io| io.with_text(|text| Some(transferred(text))));
        Some(Usage {
            cpu_user_ms: Some(cpu_us.saturating_sub(system_us.unwrap_or(0)) / 1_000),
            cpu_system_ms: system_us.map(|us| us / 1_000),
            peak_memory_bytes: count.peak_bytes,
            read_bytes: count.read_bytes.or(moved.map(|(read, _)| read)),
            written_bytes: count.written_bytes.or(moved.map(|(_, written)| written)),
            peak_gpu_memory_bytes: None,
        })
    }

    /// Whether one of its processes was killed for want of memory.
    pub(crate) fn lacked_memory(&self) -> bool {
        self.counters.read().oom_kills > 0
    }

    /// The first process of the container: the one that is number 1 there.
    pub(crate) fn first_process(&self) -> Option<i32> {
        processes(&self.place).into_iter().find(|pid| is_first(*pid))
    }
}

/// Whether a process has the number 1 where it lives.
fn is_first(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| {
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        numbers.len() > 1 && numbers.last() == Some(&"1")
    })
}

/// Bytes read and written, over all devices: `8:0 Read 4096` on a line for each.
fn transferred(text: &str) -> (u64, u64) {
    let sum = |kind: &str| {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines
            .filter(|words| words.len() == 3 && words[1] == kind)
            .filter_map(|words| words[2].parse::<u64>().ok())
            .sum()
    };
    (sum("Read"), sum("Write"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_added_up_in_the_first_form_too() {
        let text = "8:0 Read 4096\n8:0 Write 10\n8:0 Total 4106\n8:16 Read 4\n8:16 Write 1\nTotal 4111\n";
        assert_eq!(transferred(text), (4_100, 11));
        assert_eq!(transferred(""), (0, 0));
    }

    #[test]
    fn a_process_of_something_else_has_no_group_here() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(ContainerGroup::of_process(own, &"f".repeat(64)).is_none());
        assert!(ContainerGroup::named_after(&"f".repeat(64)).is_none());
        assert!(!is_first(own));
    }

    #[test]
    fn a_group_that_is_gone_counts_nothing() {
        let root = tempfile::tempdir().unwrap();
        let tops = Hierarchies::of_top(root.path());
        std::fs::create_dir(root.path().join("c")).unwrap();
        std::fs::write(root.path().join("c/cpu.stat"), "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\n")
            .unwrap();
        let group = ContainerGroup::open(&tops, Path::new("c")).unwrap();
        let used = group.read().unwrap();
        assert_eq!((used.cpu_user_ms, used.cpu_system_ms, used.peak_memory_bytes), (Some(3), Some(2), None));
        std::fs::write(root.path().join("c/cpu.stat"), "").unwrap();
        assert_eq!(group.read(), None);
    }
}
