//! Everything about a worker that can be set.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use muster_client::Trust;
use muster_protocol::{Gpu, Resources};

use crate::containers::ContainerSettings;
use crate::error::WorkerError;
use crate::gpus::GpuOffer;
use crate::job_user::RunAs;
use crate::keeper::{CpuLimit, IsolationForm, IsolationMode};

/// How jobs are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecutorKind {
    /// As processes of this machine.
    #[default]
    Process,
    /// Not at all: every job is done at once. For measuring the rest of the system.
    Fake,
}

/// What lets a machine become a worker. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken(String);

impl JoinToken {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinToken(..)")
    }
}

/// The settings of one worker; [`WorkerConfig::new`] gives each its default.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct WorkerConfig {
    /// Where identity, socket and output files live. One worker at a time uses it.
    pub data_dir: PathBuf,
    /// The name of the worker; without one it is made up once and kept in the data directory.
    pub worker_id: Option<String>,
    /// Exchanged for a key of this worker when it has none.
    pub join_token: Option<JoinToken>,
    /// How many jobs run at once.
    pub slots: u32,
    /// What the machine has to offer.
    pub resources: Resources,
    pub tags: Vec<String>,
    /// Its GPUs one by one; empty when it has none, or only their number is known.
    pub gpus: Vec<Gpu>,
    /// Its jobs are to see none of the GPUs that the machine may have.
    pub hides_gpus: bool,
    /// Where it is, such as `rack` and `zone`.
    pub labels: BTreeMap<String, String>,
    /// Host, with or without a port, under which the peers of a gang find this worker; when empty, the address
    /// from which it reaches the scheduler.
    pub exec_addr: String,
    /// The URL that jobs see as `MUSTER_URL`; the client's own when absent.
    pub job_url: Option<String>,
    /// Whom jobs believe at that URL.
    pub job_trust: Trust,
    /// Where jobs run that name no directory; the worker's own when absent.
    pub job_dir: Option<PathBuf>,
    /// The umask of jobs; the worker's own when absent.
    pub job_umask: Option<u32>,
    /// Variables of the worker's environment that jobs see, besides the usual ones.
    pub pass_env: Vec<String>,
    /// Whether people may run programs beside jobs (`muster exec`).
    pub lets_exec: bool,
    pub executor: ExecutorKind,
    /// How jobs are isolated from each other and held to what they asked for.
    pub isolation: IsolationMode,
    /// Without isolation the worker does not start.
    pub require_isolation: bool,
    /// What a job gets that asks for cores.
    pub cpu_limit: CpuLimit,
    /// The most processes and threads of one job, where jobs are isolated.
    pub max_processes: u64,
    /// Attempts that ask for whole cores get CPUs that no other attempt gets.
    pub cpu_bind: bool,
    /// Each attempt has a `/tmp` of its own.
    pub private_tmp: bool,
    /// Whether jobs may run in containers, and by what engine.
    pub containers: ContainerSettings,
    /// Programs may give a job more rights than it was started with, as `sudo` does.
    pub allow_new_privileges: bool,
    /// Whose user jobs run as.
    pub run_as: RunAs,
    /// Where jobs have users of their own, that may be root.
    pub allow_root_jobs: bool,
    /// The program that hosts the keeper; this one when absent.
    pub keeper_program: Option<PathBuf>,
    pub timing: Timing,
    /// The largest checkpoint that is taken from a job, in bytes.
    pub checkpoint_limit: u64,
    /// Bytes of chunks of uploads that are kept for the next attempts; 0 keeps none.
    pub input_cache: u64,
    /// The most jobs that wait here for a free slot. How many do depends on how short jobs are.
    pub max_ahead: u32,
}

/// The times that govern a worker.
#[derive(Debug, Clone)]
pub struct Timing {
    pub heartbeat: Duration,
    /// The longest that one poll stays open; a quarter of the lease at most.
    pub poll: Duration,
    /// What is taken off a lease before the fence stops the jobs.
    pub fence_safety: Duration,
    /// Between the polite signal and the kill, for jobs that say nothing.
    pub grace: Duration,
    /// How long running jobs may go on after a shutdown was asked for.
    pub shutdown: Duration,
    /// How long a first registration is tried.
    pub register: Duration,
    /// How long an end waits for its output to be delivered.
    pub log_flush: Duration,
    /// How long a job may wait here for a slot before it is handed back.
    pub hand_back: Duration,
    /// How long a keeper without agent and jobs lives.
    pub keeper_linger: Duration,
    /// How long a scheduler that does not take the artifacts of an attempt is asked again.
    pub artifacts: Duration,
    /// How long the directory of a job's checkpoints is kept after its last use.
    pub checkpoint_dirs: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            poll: Duration::from_secs(30),
            fence_safety: Duration::from_secs(2),
            grace: Duration::from_secs(15),
            shutdown: Duration::from_secs(30),
            register: Duration::from_secs(60),
            log_flush: Duration::from_secs(10),
            hand_back: Duration::from_millis(500),
            keeper_linger: Duration::from_secs(10),
            artifacts: Duration::from_secs(120),
            checkpoint_dirs: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl WorkerConfig {
    /// Takes over what is offered of GPUs, with `vram_mb` in all where they are only counted.
    pub fn offer_gpus(&mut self, offer: &GpuOffer, vram_mb: u64) {
        self.gpus = offer.devices();
        self.hides_gpus = vram_mb == 0 && offer.hides(&self.gpus);
        (self.resources.gpus, self.resources.vram_mb) = match self.gpus.as_slice() {
            [] => (offer.counted(), vram_mb),
            gpus => (gpus.len() as u64, gpus.iter().map(|gpu| gpu.vram_mb).sum()),
        };
    }

    /// A worker with a slot for each core, offering what the machine has.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let resources = crate::machine::discover();
        Self {
            data_dir: data_dir.into(),
            worker_id: None,
            join_token: None,
            slots: crate::machine::cores(),
            resources,
            tags: Vec::new(),
            gpus: Vec::new(),
            hides_gpus: false,
            labels: BTreeMap::new(),
            exec_addr: String::new(),
            job_url: None,
            job_trust: Trust::default(),
            job_dir: None,
            job_umask: None,
            pass_env: Vec::new(),
            lets_exec: true,
            executor: ExecutorKind::default(),
            isolation: IsolationMode::default(),
            require_isolation: false,
            cpu_limit: CpuLimit::default(),
            max_processes: 8_192,
            cpu_bind: false,
            private_tmp: false,
            containers: ContainerSettings::default(),
            allow_new_privileges: false,
            run_as: RunAs::default(),
            allow_root_jobs: false,
            keeper_program: None,
            timing: Timing::default(),
            checkpoint_limit: 256 << 20,
            input_cache: 10 << 30,
            max_ahead: 64,
        }
    }

    /// Says which setting cannot work, and why.
    pub fn validate(&self) -> Result<(), WorkerError> {
        let invalid = |name, value: String, why| Err(WorkerError::InvalidConfig { name, value, why });
        if self.slots == 0 {
            return invalid("workers", self.slots.to_string(), "a worker runs at least one job at a time");
        }
        if self.slots > 10_000 {
            return invalid(
                "workers",
                self.slots.to_string(),
                "at most 10000 jobs run at once on one machine",
            );
        }
        if let Some(id) = &self.worker_id
            && (id.is_empty() || id.len() > 200 || id.chars().any(char::is_control))
        {
            return invalid("worker-id", format!("{id:?}"), "it must be 1 to 200 printable characters");
        }
        if !self.resources.cpus.is_finite() || self.resources.cpus < 0.0 {
            return invalid("cpus", self.resources.cpus.to_string(), "it must be a number of cores");
        }
        let mut indices: Vec<u32> = self.gpus.iter().map(|gpu| gpu.index).collect();
        indices.sort_unstable();
        if let Some(twice) = indices.windows(2).find(|pair| pair[0] == pair[1]) {
            return invalid("gpu", twice[0].to_string(), "each GPU has an index of its own");
        }
        if self.max_processes == 0 {
            return invalid("max-processes", "0".to_owned(), "a job has at least one process");
        }
        if self.require_isolation && self.isolation == IsolationMode::Exactly(IsolationForm::None) {
            return invalid("isolation", "none".to_owned(), "--require-isolation asks for isolation");
        }
        if self.timing.heartbeat.is_zero() {
            return invalid("heartbeat", "0".to_owned(), "leases must be renewed now and then");
        }
        if self.timing.poll.is_zero() {
            return invalid("poll", "0".to_owned(), "a poll must be able to wait");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_wrong_values_are_named() {
        let config = WorkerConfig::new("data");
        config.validate().unwrap();
        let wrong = WorkerConfig { slots: 0, ..config.clone() };
        assert!(wrong.validate().unwrap_err().to_string().starts_with("workers is 0:"));
        let wrong = WorkerConfig { worker_id: Some(String::new()), ..config };
        assert!(wrong.validate().unwrap_err().to_string().starts_with("worker-id is"));
    }
}
