//! What it costs that callers prove who they are: the same work on a scheduler that trusts the connection and on one that is
//! shown tokens, in turn, so that both meet the same minutes of a noisy machine.

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use super::throughput::{BATCH, NOOP_SLOTS, POLL};
use super::{BOUND, CONNECTIONS, Measured, Setting};
use crate::api;
use crate::cluster::{Cluster, Executor, Ground};
use crate::metric::{Gauge, Load, Metric};
use crate::process;
use crate::settings::StoreKind;
use crate::stats;

/// Pairs of one run with tokens and one without; which goes first changes each time.
const PAIRS: usize = 5;

/// Jobs a second, and seconds of the scheduler's processor time a job.
#[derive(Debug, Clone, Copy)]
struct Run {
    rate: f64,
    processor: f64,
}

pub(super) fn cost(setting: &Setting<'_>) -> Result<Measured> {
    if setting.ground.kind == StoreKind::Memory {
        return Ok(Measured::new());
    }
    let mut measured = Measured::new();
    for load in [Load::Noop, Load::Submit] {
        let (mut with, mut rates, mut processors) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            let first = run(setting, load, pair % 2 == 0)?;
            let second = run(setting, load, pair % 2 != 0)?;
            let (tokens, plain) = if pair % 2 == 0 { (first, second) } else { (second, first) };
            with.push(tokens.rate);
            rates.push(tokens.rate / plain.rate);
            processors.push(tokens.processor / plain.processor);
        }
        for (gauge, values) in
            [(Gauge::Rate, with), (Gauge::RateRatio, rates), (Gauge::ProcessorRatio, processors)]
        {
            let middle = stats::percentile(&values, 0.5).context("nothing was measured")?;
            measured.push((Metric::Tokens(load, gauge), middle));
        }
    }
    Ok(measured)
}

fn run(setting: &Setting<'_>, load: Load, tokens: bool) -> Result<Run> {
    match load {
        Load::Noop => no_operation(setting, tokens),
        Load::Submit => submits(setting, tokens),
    }
}

fn scheduler(ground: &Ground, tokens: bool) -> Result<Cluster> {
    if tokens { Cluster::with_accounts(ground) } else { Cluster::scheduler(ground) }
}

fn no_operation(setting: &Setting<'_>, tokens: bool) -> Result<Run> {
    let count = setting.sizes.noop_jobs / BATCH * BATCH;
    let mut cluster = scheduler(setting.ground, tokens)?;
    cluster.add_worker(NOOP_SLOTS, Executor::Fake)?;
    let mut api = cluster.api()?;
    let body = api::true_batch(BATCH)?;
    let measured = timed(&cluster, count, || {
        let mut last = String::new();
        for _ in 0..count / BATCH {
            last = api.submit_batch(&body)?;
        }
        api.await_all(&[last], POLL, BOUND)
    })?;
    api.check_done(count)?;
    Ok(measured)
}

fn submits(setting: &Setting<'_>, tokens: bool) -> Result<Run> {
    let each = setting.sizes.jobs / CONNECTIONS;
    let cluster = scheduler(setting.ground, tokens)?;
    let body = serde_json::to_vec(&api::true_job())?;
    let client = || {
        let mut api = cluster.api()?;
        (0..each).try_for_each(|_| api.submit(&body).map(drop))
    };
    let measured = timed(&cluster, each * CONNECTIONS, || {
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(client)).collect();
            clients.into_iter().try_for_each(|each| each.join().map_err(|_| anyhow!("a client panicked"))?)
        })
    })?;
    let waiting = cluster.api()?.count_pending()?;
    ensure!(waiting == each * CONNECTIONS, "{waiting} jobs are waiting");
    Ok(measured)
}

fn timed(cluster: &Cluster, count: usize, work: impl FnOnce() -> Result<()>) -> Result<Run> {
    let scheduler = [cluster.scheduler_id()];
    let before = process::processor_seconds(&scheduler);
    let begin = Instant::now();
    work()?;
    let seconds = begin.elapsed().as_secs_f64();
    let processor = (process::processor_seconds(&scheduler) - before) / count as f64;
    Ok(Run { rate: count as f64 / seconds, processor })
}
