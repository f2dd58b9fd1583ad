//! What else the machine does: time stolen by its host, and processor time of programs that are not ours.
//!
//! A run during which others took more than a little is flagged; its numbers are printed all the same.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::process;

/// Shares of all processors above which a run is called noisy.
const STEAL_LIMIT: f64 = 0.03;
const FOREIGN_LIMIT: f64 = 0.10;

/// Shares of the machine's processor time.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Noise {
    /// Taken by the host of this virtual machine.
    pub(crate) steal: f64,
    /// Used by processes that are not part of the measurement.
    pub(crate) foreign: f64,
}

impl Noise {
    pub(crate) fn is_noisy(self) -> bool {
        self.steal > STEAL_LIMIT || self.foreign > FOREIGN_LIMIT
    }
}

/// Watches from its creation until it is asked.
#[derive(Debug)]
pub(crate) struct Watch {
    begin: Instant,
    machine: Machine,
    family: HashMap<u32, f64>,
    marker: Option<PathBuf>,
}

impl Watch {
    /// Processes whose command line mentions `marker` are ours even when they detach themselves.
    pub(crate) fn start(marker: Option<&Path>) -> Self {
        Self {
            begin: Instant::now(),
            machine: Machine::read(),
            family: process::family(marker),
            marker: marker.map(Path::to_path_buf),
        }
    }

    pub(crate) fn finish(&self) -> Noise {
        let machine = Machine::read();
        let family = process::family(self.marker.as_deref());
        let own: f64 =
            family.iter().map(|(pid, seconds)| seconds - self.family.get(pid).copied().unwrap_or(0.0)).sum();
        let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let capacity = self.begin.elapsed().as_secs_f64() * processors as f64;
        Noise {
            steal: (machine.steal - self.machine.steal) / capacity,
            foreign: ((machine.busy - self.machine.busy - own) / capacity).max(0.0),
        }
    }
}

/// How busy the machine is while we do nothing.
pub(crate) fn before() -> Noise {
    let watch = Watch::start(None);
    thread::sleep(Duration::from_millis(500));
    watch.finish()
}

/// Seconds since boot over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Machine {
    busy: f64,
    steal: f64,
}

impl Machine {
    fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(&stat)
    }

    fn parse(stat: &str) -> Self {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let fields: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        let seconds = |index: usize| fields.get(index).copied().unwrap_or(0.0) / 100.0;
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time.
        let busy = [0, 1, 2, 5, 6].into_iter().map(seconds).sum();
        Self { busy, steal: seconds(7) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_and_stolen_time_is_not_busy_time() {
        let machine = Machine::parse("cpu  100 50 75 4000 500 50 25 75 0 0\ncpu0 1 1 1 1\n");
        assert_eq!(machine, Machine { busy: 3.0, steal: 0.75 });
        assert_eq!(Machine::parse("nonsense"), Machine::default());
    }
}
