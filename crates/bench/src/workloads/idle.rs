//! What scheduler and worker cost when there is nothing to do.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Measured, Setting};
use crate::cluster::{Cluster, Executor};
use crate::metric::Metric;
use crate::process;

/// What start-up leaves to do is over after this.
const SETTLE: Duration = Duration::from_secs(1);
const MEBIBYTE: f64 = 1024.0 * 1024.0;

pub(super) fn at_rest(setting: &Setting<'_>) -> Result<Measured> {
    let cluster = Cluster::start(setting.ground, setting.slots, Executor::Process)?;
    thread::sleep(SETTLE);
    let mut all = cluster.worker_ids();
    all.push(cluster.scheduler_id());
    let begin = Instant::now();
    let before = process::processor_seconds(&all);
    thread::sleep(setting.sizes.idle);
    let used = process::processor_seconds(&all) - before;
    let percent = 100.0 * used / begin.elapsed().as_secs_f64();
    Ok(vec![
        (Metric::IdleProcessor, percent),
        (Metric::IdleSchedulerMemory, mebibytes(&[cluster.scheduler_id()])),
        (Metric::IdleMemory, mebibytes(&all)),
        (Metric::StartUp, cluster.start_up.as_secs_f64() * 1_000.0),
    ])
}

fn mebibytes(pids: &[u32]) -> f64 {
    let bytes: u64 = pids.iter().filter_map(|pid| process::resident_bytes(*pid)).sum();
    bytes as f64 / MEBIBYTE
}
