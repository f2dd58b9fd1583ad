//! What this machine has, as far as this process may use it.

use std::path::Path;

use muster_protocol::Resources;

/// Cores and memory of the machine, or of the container that the worker runs in.
pub fn discover() -> Resources {
    Resources { cpus: f64::from(cores()), memory_mb: memory_mb(), ..Resources::default() }
}

/// The cores that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// The name of the machine.
pub(crate) fn hostname() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

fn memory_mb() -> u64 {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let total = read("/proc/meminfo").as_deref().and_then(total_of_meminfo);
    let limit = read("/sys/fs/cgroup/memory.max").as_deref().and_then(|text| text.trim().parse().ok());
    let bytes = match (total, limit) {
        (Some(total), Some(limit)) => std::cmp::min(total, limit),
        (Some(bytes), None) | (None, Some(bytes)) => bytes,
        (None, None) => 0_u64,
    };
    bytes / (1024 * 1024)
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_something() {
        let found = discover();
        assert!(found.cpus >= 1.0 && found.memory_mb > 0, "{found:?}");
    }

    #[test]
    fn meminfo_is_in_kibibytes() {
        assert_eq!(total_of_meminfo("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 * 1024));
        assert_eq!(total_of_meminfo("nothing"), None);
    }
}
