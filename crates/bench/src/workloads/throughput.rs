//! How many jobs a second go all the way: submitted, claimed, run, reported, on disk.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::cost::Costs;
use super::{BOUND, CONNECTIONS, Measured, Setting};
use crate::api;
use crate::cluster::{Cluster, Executor};
use crate::metric::Metric;
use crate::settings::Workload;

pub(super) const POLL: Duration = Duration::from_millis(20);
/// Jobs that do nothing need no processor each: enough of them at a time that none waits for a round trip.
pub(super) const NOOP_SLOTS: usize = 256;
pub(super) const BATCH: usize = 1_000;

/// All jobs in one request.
pub(super) fn one_batch(setting: &Setting<'_>) -> Result<Measured> {
    let count = setting.sizes.jobs;
    let cluster = Cluster::start(setting.ground, setting.slots, Executor::Process)?;
    let mut api = cluster.api()?;
    let body = api::true_batch(count)?;
    let costs = Costs::start(setting, &cluster);
    let begin = Instant::now();
    let last = api.submit_batch(&body)?;
    api.await_all(&[last], POLL, BOUND)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let mut measured = vec![(Metric::BatchRate, rate)];
    measured.extend(costs.finish(Workload::A, count));
    api.check_done(count)?;
    Ok(measured)
}

/// A request for each job, from several connections at once.
pub(super) fn one_request_each(setting: &Setting<'_>) -> Result<Measured> {
    let count = setting.sizes.jobs / CONNECTIONS * CONNECTIONS;
    let cluster = Cluster::start(setting.ground, setting.slots, Executor::Process)?;
    let body = serde_json::to_vec(&api::true_job())?;
    let costs = Costs::start(setting, &cluster);
    let begin = Instant::now();
    let last = submit_from_all(&cluster, &body, count / CONNECTIONS)?;
    let mut api = cluster.api()?;
    api.await_all(&last, POLL, BOUND)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let mut measured = vec![(Metric::SingleRate, rate)];
    measured.extend(costs.finish(Workload::B, count));
    api.check_done(count)?;
    Ok(measured)
}

/// Submits `each` jobs from every connection and returns the last id of each.
fn submit_from_all(cluster: &Cluster, body: &[u8], each: usize) -> Result<Vec<String>> {
    thread::scope(|scope| {
        let submit = || {
            let mut api = cluster.api()?;
            let mut last = String::new();
            for _ in 0..each {
                last = api.submit(body)?;
            }
            Ok(last)
        };
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(submit)).collect();
        clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?).collect()
    })
}

/// Jobs without a process: what scheduler, store and worker cost by themselves.
pub(super) fn no_operation(setting: &Setting<'_>) -> Result<Measured> {
    let count = setting.sizes.noop_jobs / BATCH * BATCH;
    let cluster = Cluster::start(setting.ground, NOOP_SLOTS, Executor::Fake)?;
    let mut api = cluster.api()?;
    let body = api::true_batch(BATCH)?;
    let costs = Costs::start(setting, &cluster);
    let begin = Instant::now();
    let mut last = String::new();
    for _ in 0..count / BATCH {
        last = api.submit_batch(&body)?;
    }
    api.await_all(&[last], POLL, BOUND)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let mut measured = vec![(Metric::NoopRate, rate)];
    measured.extend(costs.finish(Workload::G, count));
    api.check_done(count)?;
    Ok(measured)
}
