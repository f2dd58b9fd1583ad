//! What a job in a container costs beside the container itself: the same image and program through Muster and by `docker run`.
//!
//! They take turns on one engine of their own, so that whatever else the machine does meets both.

use std::panic;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use muster_protocol::SubmitRequest;
use muster_tests::{ContainerEngine, IMAGE};

use super::{BOUND, Measured, Setting};
use crate::api::Api;
use crate::cluster::Cluster;
use crate::metric::Metric;
use crate::stats;

const POLL: Duration = Duration::from_millis(2);

/// One start at a time, from the submit until the job is told as done, and from the start of the client until its end.
pub(super) fn one_by_one(setting: &Setting<'_>) -> Result<Measured> {
    // The kit is made for tests and panics, with a sentence, when there is no Docker.
    let engine =
        panic::catch_unwind(|| ContainerEngine::start(&[])).map_err(|_| anyhow!("Docker does not start"))?;
    let mut cluster = Cluster::scheduler(setting.ground)?;
    cluster.add_container_worker(&engine.socket())?;
    let mut api = cluster.api()?;
    let argv = vec!["true".to_owned()];
    let job = SubmitRequest { argv, image: Some(IMAGE.to_owned()), ..SubmitRequest::default() };
    let body = serde_json::to_vec(&job)?;
    // The first of each finds nothing in memory.
    plain(&engine)?;
    ours(&mut api, &body)?;
    let (mut all, mut plains) = (Vec::new(), Vec::new());
    for _ in 0..setting.sizes.container_starts {
        plains.push(plain(&engine)?);
        all.push(ours(&mut api, &body)?);
    }
    api.check_done(all.len() + 1)?;
    let median = |times: &[f64]| stats::percentile(times, 0.5).context("nothing was started");
    let (ours, plain) = (median(&all)?, median(&plains)?);
    Ok(vec![
        (Metric::ContainerStart, ours),
        (Metric::ContainerPlain, plain),
        (Metric::ContainerRatio, ours / plain),
    ])
}

fn ours(api: &mut Api, body: &[u8]) -> Result<f64> {
    let begin = Instant::now();
    let id = api.submit(body)?;
    api.await_all(&[id], POLL, BOUND)?;
    Ok(begin.elapsed().as_secs_f64() * 1_000.0)
}

fn plain(engine: &ContainerEngine) -> Result<f64> {
    let begin = Instant::now();
    let output = engine.docker(&["run", "--rm", "--init", "--network", "none", IMAGE, "true"]);
    ensure!(output.status.success(), "docker run failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(begin.elapsed().as_secs_f64() * 1_000.0)
}
