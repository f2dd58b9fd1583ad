//! What the kernel counts of a group.

use std::path::Path;

use super::files::Kept;

/// The files in which a group is counted, kept open.
#[derive(Debug)]
pub(super) enum Counters {
    First {
        cpu: Option<Kept>,
        peak: Option<Kept>,
        memory: Option<Kept>,
        oom: Option<Kept>,
    },
    Second {
        cpu: Option<Kept>,
        peak: Option<Kept>,
        memory: Option<Kept>,
        oom: Option<Kept>,
        io: Option<Kept>,
    },
}

/// What was counted up to a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    /// Processor time in all.
    pub(super) cpu_us: Option<u64>,
    /// The part of it in the kernel, where that is counted as exactly as the whole.
    pub(super) system_us: Option<u64>,
    pub(super) peak_bytes: Option<u64>,
    /// What is held now.
    pub(super) memory_bytes: Option<u64>,
    /// Processes killed for want of memory.
    pub(super) oom_kills: u64,
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
}

impl Counters {
    /// Of a group of the first form, whose controllers lie in different places.
    pub(super) fn first(place: impl Fn(&str) -> std::path::PathBuf) -> Self {
        let open = |controller: &str, file: &str| Kept::open(&place(controller).join(file));
        Self::First {
            cpu: open("cpuacct", "cpuacct.usage"),
            peak: Kept::open_both(&place("memory").join("memory.max_usage_in_bytes")),
            memory: open("memory", "memory.usage_in_bytes"),
            oom: open("memory", "memory.oom_control"),
        }
    }

    pub(super) fn second(group: &Path) -> Self {
        let open = |file: &str| Kept::open(&group.join(file));
        Self::Second {
            cpu: open("cpu.stat"),
            peak: Kept::open_both(&group.join("memory.peak")).or_else(|| open("memory.peak")),
            memory: open("memory.current"),
            oom: open("memory.events"),
            io: open("io.stat"),
        }
    }

    pub(super) fn read(&self) -> Count {
        let number = |file: &Option<Kept>| file.as_ref().and_then(Kept::number);
        let field = |file: &Option<Kept>, name: &str| file.as_ref()?.field(name);
        match self {
            Self::First { cpu, peak, memory, oom } => Count {
                cpu_us: number(cpu).map(|ns| ns / 1_000),
                peak_bytes: number(peak),
                memory_bytes: number(memory),
                oom_kills: field(oom, "oom_kill").unwrap_or(0),
                ..Count::default()
            },
            Self::Second { cpu, peak, memory, oom, io } => {
                let cpu = |name: &str| field(cpu, name);
                let io = io.as_ref().and_then(|io| io.with_text(|text| Some(transferred(text))));
                Count {
                    cpu_us: cpu("usage_usec"),
                    system_us: cpu("system_usec"),
                    peak_bytes: number(peak),
                    memory_bytes: number(memory),
                    oom_kills: field(oom, "oom_kill").unwrap_or(0),
                    read_bytes: io.map(|(read, _)| read),
                    written_bytes: io.map(|(_, written)| written),
                }
            }
        }
    }

    /// Begins to look for the peak anew. Says whether this kernel can.
    pub(super) fn reset_peak(&self) -> bool {
        match self {
            Self::First { peak, .. } => peak.as_ref().is_some_and(|peak| peak.put("0")),
            Self::Second { peak, .. } => peak.as_ref().is_some_and(|peak| peak.put("reset")),
        }
    }
}

/// Bytes read and written, over all devices: `8:0 rbytes=4096 wbytes=0 rios=1 ...` on a line for each.
fn transferred(text: &str) -> (u64, u64) {
    let sum = |name: &str| {
        let values = text.split_whitespace().filter_map(|word| word.strip_prefix(name));
        values.filter_map(|value| value.parse::<u64>().ok()).sum()
    };
    (sum("rbytes="), sum("wbytes="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_added_up() {
        let text = "8:0 rbytes=4096 wbytes=10 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=4 wbytes=0 rios=1\n";
        assert_eq!(transferred(text), (4_100, 10));
        assert_eq!(transferred(""), (0, 0));
    }

    #[test]
    fn what_the_kernel_does_not_count_is_absent() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("cpu.stat"), "usage_usec 5\nuser_usec 3\nsystem_usec 2\n").unwrap();
        std::fs::write(root.path().join("memory.events"), "oom 2\noom_kill 1\n").unwrap();
        let counters = Counters::second(root.path());
        let count = counters.read();
        assert_eq!((count.cpu_us, count.system_us, count.oom_kills), (Some(5), Some(2), 1));
        assert_eq!((count.peak_bytes, count.read_bytes), (None, None));
        assert!(!counters.reset_peak());
    }
}
