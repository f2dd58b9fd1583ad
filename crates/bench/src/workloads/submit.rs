//! How fast jobs are taken in when nobody runs them, and what a waiting job costs in memory.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use super::cost::Costs;
use super::{Measured, Setting};
use crate::api::{self, Api};
use crate::cluster::Cluster;
use crate::metric::Metric;
use crate::process;
use crate::settings::Workload;

pub(super) const BATCH: usize = 1_000;
/// Two clients, so that one batch is read while another is being committed.
const CLIENTS: usize = 2;

pub(super) fn batches(setting: &Setting<'_>) -> Result<Measured> {
    let cluster = Cluster::scheduler(setting.ground)?;
    let body = api::true_batch(BATCH)?;
    // One batch first: buffers and caches that do not grow with the queue are no part of a job's cost.
    cluster.api()?.submit_batch(&body)?;
    let before = resident(&cluster)?;
    let count = setting.sizes.submitted_jobs / BATCH * BATCH;
    let costs = Costs::start(setting, &cluster);
    let begin = Instant::now();
    submit(cluster.address(), &body, count / BATCH, CLIENTS)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let mut measured = costs.finish(Workload::D, count);
    let growth = resident(&cluster)? - before;
    let counted = cluster.api()?.count_pending()?;
    ensure!(counted == count + BATCH, "{} jobs were submitted, {counted} are waiting", count + BATCH);
    measured.extend([(Metric::SubmitRate, rate), (Metric::SubmitMemory, growth / count as f64)]);
    Ok(measured)
}

fn resident(cluster: &Cluster) -> Result<f64> {
    process::resident_bytes(cluster.scheduler_id())
        .map(|bytes| bytes as f64)
        .context("reading the memory of the scheduler")
}

/// Submits the body that often, from several clients.
pub(super) fn submit(address: SocketAddr, body: &[u8], batches: usize, clients: usize) -> Result<()> {
    let left = AtomicUsize::new(batches);
    let client = || {
        let mut api = Api::connect(address)?;
        let take = |count: usize| count.checked_sub(1);
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            api.submit_batch_unread(body)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        clients.into_iter().try_for_each(|each| each.join().map_err(|_| anyhow!("a client panicked"))?)
    })
}
