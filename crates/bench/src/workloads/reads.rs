//! What people who look feel while many jobs are submitted: the same reads on an idle scheduler and beside the
//! load, as a ratio.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::submit::{BATCH, submit};
use super::{Measured, Setting};
use crate::api::{self, Api};
use crate::cluster::Cluster;
use crate::metric::{Form, Metric, Read, Share};
use crate::stats;

/// Clients that submit at the same time.
const CLIENTS: usize = 4;
/// Between two rounds of reads: they are to feel the load, not to be it.
const REST: Duration = Duration::from_millis(2);
/// Rounds on the idle scheduler.
const IDLE_ROUNDS: usize = 300;
const READS: [Read; 3] = [Read::Job, Read::Page, Read::Queues];

pub(super) fn under_load(setting: &Setting<'_>) -> Result<Measured> {
    let cluster = Cluster::scheduler(setting.ground)?;
    let mut api = cluster.api()?;
    let body = api::true_batch(BATCH)?;
    let id = api.submit_batch(&body)?;
    let mut idle = Delays::default();
    for _ in 0..IDLE_ROUNDS {
        idle.round(&mut api, &id)?;
    }
    let count = setting.sizes.submitted_jobs / BATCH * BATCH;
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    let (loaded, submitted) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut delays = Delays::default();
            while !over.load(Ordering::Relaxed) {
                delays.round(&mut api, &id)?;
            }
            Ok::<Delays, anyhow::Error>(delays)
        });
        let submitted = submit(cluster.address(), &body, count / BATCH, CLIENTS);
        let seconds = begin.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let loaded = reader.join().map_err(|_| anyhow!("the reader panicked"))??;
        submitted.map(|()| (loaded, seconds))
    })?;
    let waiting = cluster.api()?.count_pending()?;
    ensure!(waiting == count + BATCH, "{} jobs were submitted, {waiting} are waiting", count + BATCH);
    let mut measured = vec![(Metric::ReadSubmits, count as f64 / submitted)];
    for (place, read) in READS.into_iter().enumerate() {
        for share in [Share::Median, Share::Tail] {
            let at = |delays: &Delays| {
                stats::percentile(&delays.0[place], share.of_all()).context("nothing was read")
            };
            let (beside, alone) = (at(&loaded)?, at(&idle)?);
            measured.push((Metric::Reading(read, share, Form::Measured), beside));
            measured.push((Metric::Reading(read, share, Form::Ratio), beside / alone));
        }
    }
    Ok(measured)
}

/// Milliseconds of each read, in the order of [`READS`].
#[derive(Debug, Default)]
struct Delays([Vec<f64>; READS.len()]);

impl Delays {
    fn round(&mut self, api: &mut Api, id: &str) -> Result<()> {
        for (read, delays) in READS.into_iter().zip(&mut self.0) {
            let path = match read {
                Read::Job => format!("/jobs/{id}"),
                Read::Page => "/jobs?limit=50".to_owned(),
                Read::Queues => "/queues".to_owned(),
            };
            delays.push(api.timed_get(&path)?.0);
        }
        thread::sleep(REST);
        Ok(())
    }
}
