//! How fast dependencies are released: a chain, and a fan out and in.

use std::time::{Duration, Instant};

use anyhow::Result;
use muster_protocol::{BatchItem, SubmitRequest};

use super::{BOUND, Measured, Setting};
use crate::api;
use crate::cluster::{Cluster, Executor};
use crate::metric::Metric;

const POLL: Duration = Duration::from_millis(5);

pub(super) fn chain_and_fan(setting: &Setting<'_>) -> Result<Measured> {
    let chain = timed(setting, &chain(setting.sizes.chain))?;
    let fan = timed(setting, &fan(setting.sizes.fan))?;
    Ok(vec![(Metric::Chain, chain), (Metric::Fan, fan)])
}

/// Seconds from the submit of the whole graph to the end of its last job.
fn timed(setting: &Setting<'_>, graph: &[BatchItem]) -> Result<f64> {
    let cluster = Cluster::start(setting.ground, setting.slots, Executor::Process)?;
    let mut api = cluster.api()?;
    let body = serde_json::to_vec(graph)?;
    let begin = Instant::now();
    let last = api.submit_batch(&body)?;
    api.await_all(&[last], POLL, BOUND)?;
    let seconds = begin.elapsed().as_secs_f64();
    api.check_done(graph.len())?;
    Ok(seconds)
}

fn item(reference: &str, depends_on: Vec<String>) -> BatchItem {
    BatchItem { reference: Some(reference.to_owned()), job: SubmitRequest { depends_on, ..api::true_job() } }
}

/// Each job waits for the one before.
fn chain(length: usize) -> Vec<BatchItem> {
    let before = |index: usize| index.checked_sub(1).map(|before| before.to_string());
    (0..length).map(|index| item(&index.to_string(), before(index).into_iter().collect())).collect()
}

/// One job, then `width` that wait for it, then one that waits for them all.
fn fan(width: usize) -> Vec<BatchItem> {
    let names: Vec<String> = (0..width).map(|index| index.to_string()).collect();
    let mut items = vec![item("first", Vec::new())];
    items.extend(names.iter().map(|name| item(name, vec!["first".to_owned()])));
    items.push(item("last", names));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_of_a_chain_but_the_first_waits_for_its_predecessor() {
        let items = chain(3);
        let waits: Vec<&[String]> = items.iter().map(|item| item.job.depends_on.as_slice()).collect();
        assert_eq!(waits, [&[][..], &["0".to_owned()][..], &["1".to_owned()][..]]);
    }

    #[test]
    fn a_fan_opens_and_closes() {
        let items = fan(3);
        assert_eq!(items.len(), 5);
        assert!(items[1..4].iter().all(|item| item.job.depends_on == ["first"]));
        assert_eq!(items[4].job.depends_on.len(), 3);
    }
}
