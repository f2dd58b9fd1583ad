//! What to measure: the command line and the sizes that follow from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Measure scheduler and worker on this machine, beside what the machine can do without them.
#[derive(Debug, Clone, Parser)]
#[command(name = "muster-bench", version)]
pub(crate) struct Settings {
    /// Smaller workloads, for a first impression
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', value_name = "a,b,...")]
    pub(crate) only: Vec<Workload>,
    /// How often each workload is run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// The stores to measure, one after another
    #[arg(long, value_delimiter = ',', default_value = "sqlite,postgres", value_name = "STORE,...")]
    pub(crate) store: Vec<StoreKind>,
    /// Finished jobs in the store of workload h: 1,000,000, or 100,000 with --quick, when absent. Ten million
    /// need about 8 GB of disk
    #[arg(long, value_name = "N")]
    pub(crate) history: Option<usize>,
    /// Jobs at a time on the worker, and processes at a time in the bare spawn loop; the number of processors
    /// when absent
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
    /// Where the data of the measured store is put; the system's directory for temporary files when absent
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,
    /// Write every single measurement to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Append the figures that are compared from one run to the next to this file, and say which of them were lost
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    pub(crate) trend: Option<PathBuf>,
    /// Leave out the limits and the peers
    #[arg(long)]
    pub(crate) bare: bool,
}

/// The workloads, by the letters that the documentation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// Jobs that exec /bin/true, submitted in one batch, to the last completion
    A,
    /// The same, one HTTP request for each job from eight connections
    B,
    /// Idle dispatch latency: submit to the start of the process
    C,
    /// Submit only, in batches of 1,000; memory per queued job
    D,
    /// A chain of 200 and a fan 1-1000-1
    E,
    /// Idle processor time and memory, time until ready
    F,
    /// Jobs that do nothing at all, through the whole path
    G,
    /// Claims, submits, lists and retention beside millions of finished jobs (SQLite)
    H,
    /// What tokens cost: no-op jobs and submits with them and without
    K,
    /// Jobs that write thousands of lines a second, and the latency of other calls beside them
    L,
    /// An array of many elements: submitted, looked at, cancelled
    M,
    /// Planning on the store by itself: large clusters, long queues
    P,
    /// Reads while many jobs are submitted
    R,
    /// The store by itself, without HTTP and without a worker
    S,
    /// Tasks that start together: a gang that waits for its last slot, and one that starts again
    T,
    /// A large artifact from a worker to S3 and back
    V,
    /// Starts of a container beside `docker run`
    W,
}

impl Workload {
    pub(crate) const ALL: [Self; 17] = [
        Self::A,
        Self::B,
        Self::C,
        Self::D,
        Self::E,
        Self::F,
        Self::G,
        Self::H,
        Self::K,
        Self::L,
        Self::M,
        Self::P,
        Self::R,
        Self::S,
        Self::T,
        Self::V,
        Self::W,
    ];

    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
            Self::G => "g",
            Self::H => "h",
            Self::K => "k",
            Self::L => "l",
            Self::M => "m",
            Self::P => "p",
            Self::R => "r",
            Self::S => "s",
            Self::T => "t",
            Self::V => "v",
            Self::W => "w",
        }
    }
}

/// A store that the scheduler can be started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
    Memory,
}

impl StoreKind {
    /// The word that the scheduler's `--db-driver` takes.
    pub(crate) fn driver(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Memory => "memory",
        }
    }
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) jobs: usize,
    pub(crate) latency_jobs: usize,
    pub(crate) submitted_jobs: usize,
    pub(crate) noop_jobs: usize,
    pub(crate) chain: usize,
    pub(crate) fan: usize,
    /// Finished jobs that lie in the store.
    pub(crate) history: usize,
    pub(crate) idle: Duration,
    pub(crate) spawns: usize,
    /// How often a gang of 8 starts, and starts again.
    pub(crate) gang_rounds: usize,
    /// How often a gang of 64 starts.
    pub(crate) large_gang_rounds: usize,
    /// One of so many parts of each size of the planning workload, and how many changes are timed.
    pub(crate) planning_part: usize,
    pub(crate) planning_changes: usize,
    pub(crate) limit: Duration,
    /// The size of the artifact that goes there and back.
    pub(crate) artifact_mib: usize,
    /// How often a container is started in each way.
    pub(crate) container_starts: usize,
}

impl Settings {
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let asked = |workload: &Workload| self.only.is_empty() || self.only.contains(workload);
        Workload::ALL.into_iter().filter(asked).collect()
    }

    pub(crate) fn slots(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.slots.map_or_else(processors, |slots| slots as usize)
    }

    pub(crate) fn sizes(&self) -> Sizes {
        if self.quick {
            return Sizes {
                jobs: 2_000,
                latency_jobs: 50,
                submitted_jobs: 20_000,
                noop_jobs: 10_000,
                chain: 50,
                fan: 200,
                history: self.history.unwrap_or(100_000),
                idle: Duration::from_secs(2),
                spawns: 800,
                gang_rounds: 5,
                large_gang_rounds: 2,
                planning_part: 10,
                planning_changes: 20,
                limit: Duration::from_millis(300),
                artifact_mib: 200,
                container_starts: 10,
            };
        }
        Sizes {
            jobs: 10_000,
            latency_jobs: 200,
            submitted_jobs: 100_000,
            noop_jobs: 50_000,
            chain: 200,
            fan: 1_000,
            history: self.history.unwrap_or(1_000_000),
            idle: Duration::from_secs(5),
            spawns: 2_500,
            gang_rounds: 30,
            large_gang_rounds: 10,
            planning_part: 1,
            planning_changes: 100,
            limit: Duration::from_secs(1),
            artifact_mib: 1_024,
            container_starts: 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_and_stores_are_chosen_by_name() {
        let line = ["muster-bench", "--only", "t,d,a", "--store", "memory,postgres", "--runs", "5"];
        let settings = Settings::try_parse_from(line).unwrap();
        assert_eq!(settings.workloads(), vec![Workload::A, Workload::D, Workload::T]);
        assert_eq!(settings.store, vec![StoreKind::Memory, StoreKind::Postgres]);
        assert_eq!(settings.runs, 5);
        assert!(Settings::try_parse_from(["muster-bench", "--only", "z"]).is_err());
        assert!(Settings::try_parse_from(["muster-bench", "--runs", "0"]).is_err());
    }

    #[test]
    fn everything_is_measured_when_nothing_is_chosen() {
        let settings = Settings::try_parse_from(["muster-bench"]).unwrap();
        assert_eq!(settings.workloads(), Workload::ALL.to_vec());
        assert!(settings.slots() >= 1);
    }
}
