//! One array of many elements: how long it takes to submit it, to look at it, and to cancel all of it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use muster_protocol::{ArrayRequest, SubmitRequest};

use super::{Measured, Setting};
use crate::api::{self, Api};
use crate::cluster::Cluster;
use crate::metric::Metric;
use crate::stats;

/// How often each read is made.
const READS: usize = 20;
/// The jobs in a page.
const PAGE: usize = 100;

pub(super) fn whole(setting: &Setting<'_>) -> Result<Measured> {
    let cluster = Cluster::scheduler(setting.ground)?;
    let mut api = cluster.api()?;
    let count = setting.sizes.submitted_jobs;
    let body = serde_json::to_vec(&ArrayRequest {
        job: SubmitRequest { name: Some("sweep".to_owned()), ..api::true_job() },
        indices: Some(format!("0-{}", count - 1)),
        ..ArrayRequest::default()
    })?;
    let begin = Instant::now();
    let id = api.submit_array(&body)?;
    let submitted = begin.elapsed().as_secs_f64();
    let list = format!("/jobs?array={id}&limit={PAGE}");
    let show = median(&mut api, &format!("/arrays/{id}"))?;
    let first = median(&mut api, &list)?;
    ensure!(api.count_page(&list)? == PAGE, "the first page is not full");
    let waiting = api.count_pending()?;
    ensure!(waiting == count, "{count} elements were submitted and {waiting} wait");
    let begin = Instant::now();
    api.order(&format!("/arrays/{id}/cancel"))?;
    let cancelled = begin.elapsed().as_secs_f64();
    let waiting = api.count_pending()?;
    ensure!(waiting == 0, "{waiting} elements still wait after the cancel");
    Ok(vec![
        (Metric::ArraySubmit, submitted),
        (Metric::ArrayShow, show),
        (Metric::ArrayList, first),
        (Metric::ArrayCancel, cancelled),
    ])
}

/// Milliseconds of a read, in the middle of several.
pub(super) fn median(api: &mut Api, path: &str) -> Result<f64> {
    let mut delays = Vec::with_capacity(READS);
    for _ in 0..READS {
        delays.push(api.timed_get(path)?.0);
    }
    stats::percentile(&delays, 0.5).context("nothing was read")
}
