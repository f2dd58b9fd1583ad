//! Many jobs that write thousands of lines a second, and what that does to calls that have nothing to do with it.
//!
//! The same jobs run twice, first silent and then writing, with the same calls beside them: the ratio of the
//! two shows what the output costs others, whatever else the machine does.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use muster_protocol::{BatchItem, SubmitRequest};

use super::{BOUND, Measured, Setting};
use crate::cluster::{Cluster, Executor};
use crate::lines;
use crate::metric::Metric;
use crate::stats;

const JOBS: usize = 32;
/// Lines a second of each job.
const RATE: u64 = 1_000;
/// How long the jobs go on after the calls, so that all run meanwhile.
const MARGIN: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);
/// Between two rounds of calls: they are to be felt, not to be the load.
const REST: Duration = Duration::from_millis(5);

pub(super) fn beside_control(setting: &Setting<'_>) -> Result<Measured> {
    let silent = phase(setting, 0)?;
    let writing = phase(setting, RATE)?;
    let at = |delays: &[f64], share| stats::percentile(delays, share).context("no call was made");
    let ratio = |share| Ok::<f64, anyhow::Error>(at(&writing.delays, share)? / at(&silent.delays, share)?);
    Ok(vec![
        (Metric::LogLines, writing.lines_per_second),
        (Metric::LogControlMedian, at(&writing.delays, 0.5)?),
        (Metric::LogControlMedianRatio, ratio(0.5)?),
        (Metric::LogControlTail, at(&writing.delays, 0.99)?),
        (Metric::LogControlTailRatio, ratio(0.99)?),
    ])
}

struct Phase {
    lines_per_second: f64,
    /// Milliseconds that each call took.
    delays: Vec<f64>,
}

fn phase(setting: &Setting<'_>, rate: u64) -> Result<Phase> {
    let cluster = Cluster::start(setting.ground, JOBS, Executor::Process)?;
    let mut api = cluster.api()?;
    let duration = setting.sizes.idle + MARGIN;
    let last = api.submit_batch(&batch(rate, duration)?)?;
    let deadline = Instant::now() + BOUND;
    while api.count_running()? < JOBS {
        ensure!(Instant::now() < deadline, "the jobs did not start");
        std::thread::sleep(POLL);
    }
    let begin = Instant::now();
    let mut delays = Vec::new();
    while begin.elapsed() < setting.sizes.idle {
        delays.extend(api.control_round()?);
        std::thread::sleep(REST);
    }
    api.await_all(&[last], POLL, BOUND)?;
    let expected = JOBS as u64 * lines::total(rate, duration) * lines::LINE_BYTES as u64;
    let kept = kept_bytes(&cluster.directory().join("data/logs"))?;
    ensure!(kept == expected, "the jobs wrote {expected} bytes and {kept} were kept");
    let lines = (JOBS as u64 * lines::total(rate, duration)) as f64;
    Ok(Phase { lines_per_second: lines / duration.as_secs_f64(), delays })
}

fn batch(rate: u64, duration: Duration) -> Result<Vec<u8>> {
    let own = env::current_exe()?.into_os_string().into_string();
    let own = own.ok().context("the path of this program is not text")?;
    let argv = vec![own, lines::MODE.to_owned(), rate.to_string(), duration.as_millis().to_string()];
    let job = SubmitRequest { argv, ..SubmitRequest::default() };
    Ok(serde_json::to_vec(&vec![BatchItem { reference: None, job }; JOBS])?)
}

/// Bytes of output below a directory, without the lists of times beside them.
fn kept_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            bytes += kept_bytes(&entry.path())?;
        } else if !entry.file_name().to_string_lossy().ends_with(".times") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
