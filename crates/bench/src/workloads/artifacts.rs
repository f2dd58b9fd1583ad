//! One large artifact from a worker to S3 and back, beside a plain copy of the same file to the same S3.
//!
//! Both ways are measured in the same minute: the ratio shows what a scheduler, its checks and its rows cost, whatever else
//! the machine does.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::panic;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use muster_protocol::SubmitRequest;
use muster_s3_testkit::{ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed};

use super::{BOUND, Measured, Setting};
use crate::cluster::{Cluster, Executor};
use crate::metric::Metric;
use crate::process;

const MIB: usize = 1024 * 1024;
const POLL: Duration = Duration::from_millis(20);

pub(super) fn there_and_back(setting: &Setting<'_>) -> Result<Measured> {
    // The kit is made for tests and panics, with a sentence, when the server is not installed.
    let server = panic::catch_unwind(Seaweed::start).map_err(|_| anyhow!("SeaweedFS does not start"))?;
    let directory = setting.ground.new_directory()?;
    let source = directory.path().join("source");
    write_source(&source, setting.sizes.artifact_mib)?;
    let plain = plain_copy(&server, &source, &directory.path().join("plain"))?;

    let credentials = directory.path().join("credentials");
    fs::write(&credentials, format!("AWS_ACCESS_KEY_ID={ACCESS_KEY}\nAWS_SECRET_ACCESS_KEY={SECRET_KEY}\n"))?;
    let (place, endpoint) = (format!("s3://{BUCKET}/bench"), server.endpoint());
    let credentials = credentials.to_str().context("the path of the data is no text")?;
    let settings = ["--blob-store", &place, "--s3-endpoint", &endpoint, "--s3-credentials-file", credentials];
    let mut cluster = Cluster::in_directory(setting.ground, setting.ground.new_directory()?, &settings)?;
    cluster.add_worker(1, Executor::Process)?;
    let pids: Vec<u32> = cluster.worker_ids().into_iter().chain([cluster.scheduler_id()]).collect();
    let before: Vec<u64> = pids.iter().map(|pid| process::peak_bytes(*pid).unwrap_or(0)).collect();

    // A second name for the same bytes: the job itself takes no time.
    let command = format!("ln '{}' \"$MUSTER_ARTIFACTS\"/large", source.display());
    let job = SubmitRequest { command, ..SubmitRequest::default() };
    let mut api = cluster.api()?;
    let begin = Instant::now();
    let id = api.submit(&serde_json::to_vec(&job)?)?;
    api.await_all(std::slice::from_ref(&id), POLL, BOUND)?;
    let up = begin.elapsed();
    let grown = pids.iter().zip(before).map(|(pid, before)| {
        process::peak_bytes(*pid).unwrap_or(0).saturating_sub(before) as f64 / MIB as f64
    });
    let grown = grown.fold(0.0, f64::max);
    let output = directory.path().join("out");
    let begin = Instant::now();
    let mut get = Command::new(process::binary("muster")?);
    get.args(["--url", &format!("http://{}", cluster.address()), "artifacts", "get", &id, "-o"]).arg(&output);
    ensure!(get.stdout(Stdio::null()).status()?.success(), "muster artifacts get failed");
    let down = begin.elapsed();
    ensure!(same(&source, &output.join("large"))?, "what came back is not what was left");
    let ours = up + down;
    Ok(vec![
        (Metric::ArtifactRate, 2.0 * setting.sizes.artifact_mib as f64 / ours.as_secs_f64()),
        (Metric::ArtifactShare, plain.as_secs_f64() / ours.as_secs_f64()),
        (Metric::ArtifactMemory, grown),
    ])
}

/// Bytes that no disk and no network makes smaller.
fn write_source(path: &Path, mib: usize) -> Result<()> {
    let mut random = File::open("/dev/urandom")?.take((mib * MIB) as u64);
    let mut file = File::create(path)?;
    std::io::copy(&mut random, &mut file)?;
    file.flush()?;
    Ok(file.sync_all()?)
}

/// The file up and down again, as one request each, with nothing checked.
fn plain_copy(server: &Seaweed, source: &Path, back: &Path) -> Result<Duration> {
    let url = format!("{}/{BUCKET}/plain", server.endpoint());
    let curl = |arguments: &[&str], file: &Path| {
        let mut command = Command::new("curl");
        command.args(["-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user"]);
        command.arg(format!("{ACCESS_KEY}:{SECRET_KEY}")).args(arguments).arg(file).arg(&url);
        let status = command.stdout(Stdio::null()).status().context("curl makes the plain copy")?;
        ensure!(status.success(), "the plain copy failed");
        Ok(())
    };
    let begin = Instant::now();
    curl(&["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-T"], source)?;
    curl(&["-o"], back)?;
    let took = begin.elapsed();
    ensure!(same(source, back)?, "the plain copy is not the same");
    fs::remove_file(back)?;
    Ok(took)
}

fn same(one: &Path, other: &Path) -> Result<bool> {
    Ok(Command::new("cmp").arg("-s").arg(one).arg(other).status()?.success())
}
