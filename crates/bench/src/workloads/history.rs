//! What a long history costs: the same work on an empty store and beside millions of finished jobs, as a ratio;
//! then retention removes a part of them while others go on.
//!
//! The history is put into the SQLite file directly, as copies of one job that has really been run, so that it
//! does not take hours. The other stores are left out.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::array::median;
use super::submit::{BATCH, submit};
use super::{BOUND, Measured, Setting};
use crate::api;
use crate::cluster::{Cluster, Executor};
use crate::history;
use crate::metric::{Beside, Form, Metric};
use crate::settings::StoreKind;
use crate::stats;

const CLIENTS: usize = 2;
const SLOTS: usize = 256;
const POLL: Duration = Duration::from_millis(20);
/// How long retention is watched.
const WATCHED: Duration = Duration::from_secs(5);
/// Between two rounds of calls beside it.
const REST: Duration = Duration::from_millis(5);

pub(super) fn beside(setting: &Setting<'_>) -> Result<Measured> {
    if setting.ground.kind != StoreKind::Sqlite {
        return Ok(Vec::new());
    }
    let (empty, _) = work(setting, setting.ground.new_directory()?)?;
    let directory = setting.ground.new_directory()?;
    let begin = Instant::now();
    history::fill(&directory.path().join("muster.db"), setting.sizes.history)?;
    let filled = setting.sizes.history as f64 / begin.elapsed().as_secs_f64();
    let (full, directory) = work(setting, directory)?;
    let mut measured = vec![(Metric::HistoryFill, filled)];
    for ((beside, with), (_, without)) in full.into_iter().zip(empty) {
        measured.push((Metric::History(beside, Form::Measured), with));
        measured.push((Metric::History(beside, Form::Ratio), with / without));
    }
    measured.extend(removal(setting, directory)?);
    Ok(measured)
}

/// What is measured on both stores, in the same order; hands the directory back.
fn work(setting: &Setting<'_>, directory: TempDir) -> Result<(Vec<(Beside, f64)>, TempDir)> {
    let mut cluster = Cluster::in_directory(setting.ground, directory, &[])?;
    let mut api = cluster.api()?;
    let count = setting.sizes.noop_jobs / BATCH * BATCH;
    let body = api::true_batch(BATCH)?;
    let begin = Instant::now();
    submit(cluster.address(), &body, count / BATCH, CLIENTS)?;
    let submitted = count as f64 / begin.elapsed().as_secs_f64();
    let last = api.submit_batch(&body)?;
    let begin = Instant::now();
    cluster.add_worker(SLOTS, Executor::Fake)?;
    api.await_all(&[last], POLL, BOUND)?;
    let done = (count + BATCH) as f64 / begin.elapsed().as_secs_f64();
    let mut values = vec![(Beside::Submit, submitted), (Beside::Done, done)];
    for (beside, path) in [
        (Beside::Page, "/jobs?limit=50"),
        (Beside::Waiting, "/jobs?status=pending&limit=50"),
        (Beside::Failed, "/jobs?status=failed&limit=50"),
        (Beside::Queues, "/queues"),
    ] {
        values.push((beside, median(&mut api, path)?));
    }
    Ok((values, cluster.end()?))
}

/// Retention on the same store, and the calls of others beside it.
fn removal(setting: &Setting<'_>, directory: TempDir) -> Result<Measured> {
    let file = directory.path().join("muster.db");
    let cluster = Cluster::in_directory(setting.ground, directory, &[])?;
    let before = calls(&cluster)?;
    let directory = cluster.end()?;
    let count = history::count(&file)?;
    let settings = ["--retention", "1h", "--retention-interval", "1h"];
    let cluster = Cluster::in_directory(setting.ground, directory, &settings)?;
    let begin = Instant::now();
    let during = calls(&cluster)?;
    let elapsed = begin.elapsed().as_secs_f64();
    let directory = cluster.end()?;
    let removed = count.saturating_sub(history::count(&file)?);
    drop(directory);
    ensure!(removed > 0, "retention removed nothing");
    Ok(vec![
        (Metric::HistoryRemoval, removed as f64 / elapsed),
        (Metric::HistoryRemovalTail, during),
        (Metric::HistoryRemovalTailRatio, during / before),
    ])
}

/// The 99th of a hundred delays of submits, reads and cancels.
fn calls(cluster: &Cluster) -> Result<f64> {
    let mut api = cluster.api()?;
    let begin = Instant::now();
    let mut delays = Vec::new();
    while begin.elapsed() < WATCHED {
        delays.extend(api.control_round()?);
        thread::sleep(REST);
    }
    stats::percentile(&delays, 0.99).context("no call was made")
}
