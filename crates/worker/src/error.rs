//! What can keep a worker from running.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_client::ClientError;

/// Why a worker could not start or had to stop. Trouble with a single job is never among them. Each says its cause itself,
/// once, so that it reads the same wherever it is printed.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("{name} is {value}: {why}")]
    InvalidConfig { name: &'static str, value: String, why: &'static str },
    #[error("cannot use the data directory {}: {cause}", .path.display())]
    DataDirectory { path: PathBuf, cause: io::Error },
    #[error("another worker uses the data directory {}", .path.display())]
    DataDirectoryTaken { path: PathBuf },
    #[error("cannot use the key file {}: {cause}", .path.display())]
    KeyFile { path: PathBuf, cause: io::Error },
    #[error("others can read the key file {}: run chmod 600 on it, and make a new key if others had the time", .path.display())]
    KeyFileOpen { path: PathBuf },
    #[error("isolation {wanted} cannot be had: {why}")]
    Isolation { wanted: &'static str, why: String },
    #[error("jobs cannot run as {wanted}: {why}")]
    RunAs { wanted: String, why: String },
    #[error("jobs cannot have a /tmp of their own (--private-tmp): {why}")]
    PrivateTmp { why: String },
    #[error("jobs cannot have CPUs of their own (--cpu-bind): {why}")]
    CpuBind { why: String },
    #[error("cannot start the keeper {}: {cause}", .program.display())]
    KeeperStart { program: PathBuf, cause: io::Error },
    #[error("this worker is to run containers and cannot: {reason}")]
    NoContainers { reason: String },
    #[error("the keeper did not answer: {cause}")]
    KeeperGreeting { cause: io::Error },
    #[error("cannot register with the scheduler for {} s: {cause}", .after.as_secs())]
    Register { after: Duration, cause: ClientError },
    #[error("the scheduler does not let this worker join: {cause}")]
    JoinRefused { cause: ClientError },
    #[error("the scheduler refuses this worker: {cause}")]
    RegisterRefused { cause: ClientError },
}
