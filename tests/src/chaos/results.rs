//! What jobs left behind: their artifacts and their output are exact, and no container of theirs is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use muster_s3_testkit::{ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed};

use super::ledger::{ARTIFACT, artifact, printed};
use super::load::Submitted;
use super::storm::Cluster;
use crate::{Http, Settings, Worker};

/// How long output and containers may take to get where they belong, once all is calm.
const BOUND: Duration = Duration::from_secs(60);

/// What was compared, and what was wrong.
#[derive(Debug, Default)]
pub struct Judged {
    pub artifacts: usize,
    pub outputs: usize,
    pub offences: Vec<String>,
}

/// Settings of schedulers that keep artifacts and uploads in the bucket.
pub fn on_bucket(settings: Settings, bucket: &Seaweed, directory: &Path) -> Settings {
    let credentials = directory.join("credentials");
    let lines = format!("AWS_ACCESS_KEY_ID={ACCESS_KEY}\nAWS_SECRET_ACCESS_KEY={SECRET_KEY}\n");
    fs::write(&credentials, lines).expect("the test's directory is writable");
    settings
        .set("blob-store", &format!("s3://{BUCKET}/drill"))
        .set("s3-endpoint", &bucket.endpoint())
        .set("s3-credentials-file", &credentials.display().to_string())
}

/// Compares what the schedulers answer for every job that came to a good end with what it wrote. They are asked in turn: each
/// answers for all jobs.
pub fn judge(schedulers: &[Http], acknowledged: &[Submitted]) -> Judged {
    let mut judged = Judged::default();
    let deadline = Instant::now() + BOUND;
    for (number, submitted) in acknowledged.iter().enumerate().filter(|(_, one)| !one.fails) {
        let http = schedulers[number % schedulers.len()];
        for job in submitted.jobs() {
            let answer = http.get(&format!("/jobs/{job}"));
            if answer.status != 200 || answer.json()["status"] != "done" {
                // The accounts tell of it.
                continue;
            }
            let lease = answer.json()["lease"].as_u64().unwrap_or_default();
            judged.outputs += 1;
            judged.offences.extend(wrong_output(http, job, lease, deadline));
            if let Some(bytes) = submitted.artifact {
                judged.artifacts += 1;
                judged.offences.extend(wrong_artifact(http, job, lease, bytes));
            }
        }
    }
    judged
}

fn wrong_output(http: Http, job: &str, lease: u64, deadline: Instant) -> Option<String> {
    let expected = printed(job, lease);
    loop {
        let answer = http.get(&format!("/jobs/{job}/logs"));
        if answer.status == 200 && answer.text() == expected {
            return None;
        }
        if Instant::now() > deadline {
            let (status, text) = (answer.status, answer.text());
            let last: String = text.chars().rev().take(80).collect::<Vec<_>>().into_iter().rev().collect();
            let lengths = format!("{} of {} bytes", text.len(), expected.len());
            return Some(format!("output is not exact: {job}, lease {lease}: {status}, {lengths}, {last:?}"));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn wrong_artifact(http: Http, job: &str, lease: u64, bytes: usize) -> Option<String> {
    let list = http.get(&format!("/jobs/{job}/artifacts"));
    let told = list.text();
    let sizes: BTreeMap<String, u64> = match list.status {
        200 => {
            let list = list.json();
            let all = list["artifacts"].as_array().cloned().unwrap_or_default();
            let named = |one: &serde_json::Value| {
                (
                    one["name"].as_str().unwrap_or_default().to_owned(),
                    one["size"].as_u64().unwrap_or_default(),
                )
            };
            all.iter().map(named).collect()
        }
        _ => BTreeMap::new(),
    };
    if sizes != BTreeMap::from([(ARTIFACT.to_owned(), bytes as u64)]) {
        return Some(format!("an artifact is missing: {job}, lease {lease}: {told}"));
    }
    let read = http.get(&format!("/jobs/{job}/artifacts/{ARTIFACT}?redirect=false"));
    (read.body != artifact(job, lease, bytes)).then(|| {
        let (status, length) = (read.status, read.body.len());
        format!("an artifact is not exact: {job}, lease {lease}: {status}, {length} of {bytes} bytes")
    })
}

/// Containers of workers that have no job any more.
pub fn containers_left(cluster: &Cluster) -> Vec<String> {
    let deadline = Instant::now() + BOUND;
    loop {
        let left: Vec<(&str, Vec<String>)> = cluster
            .workers
            .iter()
            .map(|worker: &Worker| (worker.id(), cluster.engine.containers_of(&worker.directory())))
            .filter(|(_, containers)| !containers.is_empty())
            .collect();
        if left.is_empty() || Instant::now() > deadline {
            let told =
                |(worker, all): &(&str, Vec<String>)| format!("a container is left: {worker}, {all:?}");
            return left.iter().map(told).collect();
        }
        thread::sleep(Duration::from_millis(500));
    }
}
