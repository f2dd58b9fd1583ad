//! How long an idle system takes from a submit to the start of the process.

use std::env;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use muster_protocol::SubmitRequest;

use super::{BOUND, Measured, Setting};
use crate::cluster::{Cluster, Executor};
use crate::metric::Metric;
use crate::stamp::{self, Stamps};
use crate::stats;

const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
/// Long enough for everything that a job leaves to do to be over.
const REST: Duration = Duration::from_millis(20);

/// One job at a time; the next is submitted when the one before is done and everything has come to rest.
pub(super) fn idle_dispatch(setting: &Setting<'_>) -> Result<Measured> {
    let cluster = Cluster::start(setting.ground, setting.slots, Executor::Process)?;
    let socket = cluster.directory().join("stamps");
    let stamps = Stamps::listen(&socket, PATIENCE)?;
    let own = env::current_exe()?.into_os_string().into_string();
    let own = own.ok().context("the path of this program is not text")?;
    let argv = vec![own, stamp::MODE.to_owned(), socket.display().to_string()];
    let body = serde_json::to_vec(&SubmitRequest { argv, ..SubmitRequest::default() })?;
    let mut api = cluster.api()?;
    let mut delays = Vec::with_capacity(setting.sizes.latency_jobs);
    for _ in 0..setting.sizes.latency_jobs {
        std::thread::sleep(REST);
        let begin = SystemTime::now();
        let id = api.submit(&body)?;
        let delay = stamps.next_after(begin).context("waiting for the job to start")?;
        delays.push(delay.as_secs_f64() * 1_000.0);
        api.await_all(&[id], POLL, BOUND)?;
    }
    api.check_done(delays.len())?;
    let at = |share| stats::percentile(&delays, share).context("no job was run");
    Ok(vec![(Metric::LatencyMedian, at(0.5)?), (Metric::LatencyTail, at(0.99)?)])
}
