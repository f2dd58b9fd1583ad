//! Brings a worker up, serves, and takes it down.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_client::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use super::agent_loop::{Agent, Retry};
use super::artifacts::Artifacts;
use super::calls::Calls;
use super::checkpoints::Checkpoints;
use super::containers::Containers;
use super::drain::{Drain, ExitSummary, Shutdown};
use super::held::HeldJobs;
use super::isolation;
use super::joining;
use super::pace::Pace;
use super::preparation::Preparations;
use super::registration;
use super::rounds::Rounds;
use super::terminals::Terminals;
use crate::attempt_files::{AttemptFiles, attempt_directory, checkpoint_directory};
use crate::backoff::Backoff;
use crate::config::{ExecutorKind, WorkerConfig};
use crate::data_dir::{DataDir, make_own_directory};
use crate::environment::JobEnvironment;
use crate::error::WorkerError;
use crate::executor::{self, Executor, KeeperOptions};
use crate::job_user::{JobUsers, RunAs};
use crate::keeper::{Adopted, Isolation, ToKeeper, output_directory, result_directory};
use crate::logs::{Logs, LogsConfig};
use crate::secret_keys;

/// The waits between attempts to reach the scheduler.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(super) const RETRY_MOST: Duration = Duration::from_secs(3);
/// The most reports of one request.
pub(super) const REPORTS_PER_CALL: usize = 512;
/// The most leases that one request renews.
pub(super) const BEATS_PER_CALL: usize = 5_000;
/// How long the claim may take that an order has overtaken.
pub(super) const EARLY_STOP: Duration = Duration::from_secs(3);
/// The life of a lease until the scheduler has said otherwise.
const LEASE_TTL: Duration = Duration::from_secs(30);
/// How long the keeper may take to end.
const KEEPER_END: Duration = Duration::from_secs(6);

/// Runs a worker until it is told to end.
///
/// Returns an error only when the worker cannot start, or cannot run jobs any more; a scheduler that goes
/// away later is waited for.
pub async fn run(
    config: WorkerConfig,
    client: Client,
    mut shutdown: watch::Receiver<Shutdown>,
) -> Result<ExitSummary, WorkerError> {
    config.validate()?;
    let directory = DataDir::take(&config.data_dir)?;
    let worker_id = directory.worker_id(config.worker_id.as_deref())?;
    make_folders(directory.path())?;
    let joined = joining::admitted(client, &config, &directory, &worker_id, &mut shutdown).await?;
    let Some(client) = joined else { return Ok(ExitSummary::default()) };
    let (job_users, isolation) = choose(&config, &worker_id, directory.path())?;
    let keeper = keeper_options(&config, &directory, &client, &worker_id, isolation);
    let (executor, adopted) = connect(keeper.as_ref()).await?;
    check_keeper(&config, &job_users, &executor)?;
    let mut rounds = Rounds::new(&config);
    let mut containers = Containers::start(&config, &executor, directory.path()).await?;
    let secret_keys = secret_keys::keys_at_start(directory.path())?;
    let mut identity = registration::request(&config, &worker_id);
    registration::equip(&mut identity, &secret_keys, keeper.is_some().then_some(executor.isolation));
    identity.ports = rounds.register();
    identity.containers = containers.announce();
    if registration::first(&client, &identity, &config, &mut shutdown).await? && adopted.is_empty() {
        executor.send(ToKeeper::Shutdown);
        return Ok(ExitSummary::default());
    }
    rounds.registered();
    let mut agent = Agent {
        terminals: Terminals::new(client.clone(), keeper.as_ref(), config.lets_exec),
        job_dir: job_dir(&config),
        attempts: keeper.as_ref().map_or_else(AttemptFiles::default, |_| AttemptFiles::new(directory.path())),
        checkpoint_dir: checkpoint_directory(directory.path()),
        job_users,
        artifacts: Artifacts::new(client.clone(), config.timing.artifacts, config.job_trust.clone()),
        checkpoints: Checkpoints::new(client.clone(), config.checkpoint_limit),
        preparations: Preparations::new(client.clone(), directory.path(), config.input_cache),
        containers,
        identity,
        secret_keys,
        keeper,
        executor,
        logs: Logs::start(client.clone(), logs_config(&config, &directory)),
        calls: Calls::new(client, worker_id, config.timing.heartbeat.max(Duration::from_secs(1))),
        held: HeldJobs::default(),
        ready: VecDeque::new(),
        early_stops: HashMap::new(),
        pace: Pace::new(config.slots, config.max_ahead),
        rounds,
        drain: Drain::new(),
        lease_ttl: LEASE_TTL,
        lease_is_known: false,
        log_limit: 0,
        fence_ns: None,
        next_beat: Instant::now(),
        handed_back: Instant::now(),
        poll_retry: retry(),
        report_retry: retry(),
        beat_retry: retry(),
        go_retry: retry(),
        register_retry: retry(),
        unregistered: false,
        registering: false,
        config,
    };
    agent.take_over(adopted);
    agent.on_shutdown(*shutdown.borrow());
    let summary = agent.serve(&mut shutdown).await?;
    end_keeper(agent).await;
    Ok(summary)
}

fn logs_config(config: &WorkerConfig, directory: &DataDir) -> LogsConfig {
    LogsConfig { directory: output_directory(directory.path()), flush: config.timing.log_flush }
}

/// What runs the jobs, and those that it has already.
async fn connect(keeper: Option<&KeeperOptions>) -> Result<(Executor, Vec<Adopted>), WorkerError> {
    match keeper {
        Some(options) => executor::connect(options).await,
        None => Ok((executor::fake(), Vec::new())),
    }
}

/// The folders of what jobs leave, which only this worker reads.
fn make_folders(directory: &Path) -> Result<(), WorkerError> {
    let folders = [output_directory, result_directory, checkpoint_directory, attempt_directory];
    for folder in folders.map(|name| name(directory)) {
        make_own_directory(&folder)
            .map_err(|cause| WorkerError::DataDirectory { path: folder.clone(), cause })?;
    }
    Ok(())
}

/// Whose user jobs run as, and how they are isolated; with an executor that runs nothing they have no user.
fn choose(
    config: &WorkerConfig,
    worker_id: &str,
    data_dir: &Path,
) -> Result<(JobUsers, Isolation), WorkerError> {
    let run_as = if config.executor == ExecutorKind::Fake { &RunAs::Worker } else { &config.run_as };
    let users = JobUsers::choose(run_as, config.allow_root_jobs, worker_id, data_dir)?;
    if users.are_others() {
        tracing::info!(%run_as, "jobs run as other users than the worker");
    }
    Ok((users, isolation::choose(config, data_dir)?))
}

/// A keeper from before may isolate jobs in another way, or run them as its own user.
fn check_keeper(config: &WorkerConfig, users: &JobUsers, executor: &Executor) -> Result<(), WorkerError> {
    isolation::check(config, executor)?;
    if !users.are_others() || executor.changes_users {
        return Ok(());
    }
    let why = "the keeper from before is of an older version and runs jobs as its own user; start again when they have ended";
    Err(WorkerError::RunAs { wanted: config.run_as.to_string(), why: why.to_owned() })
}

fn keeper_options(
    config: &WorkerConfig,
    directory: &DataDir,
    client: &Client,
    worker_id: &str,
    isolation: Isolation,
) -> Option<KeeperOptions> {
    if config.executor == ExecutorKind::Fake {
        return None;
    }
    let environment = JobEnvironment {
        url: config.job_url.clone().unwrap_or_else(|| client.url().to_owned()),
        trust: config.job_trust.clone(),
        worker_id: worker_id.to_owned(),
        worker_dir: directory.path().to_string_lossy().into_owned(),
    };
    Some(KeeperOptions {
        directory: directory.path().to_owned(),
        program: config.keeper_program.clone(),
        slots: config.slots,
        umask: config.job_umask,
        env: environment.shared(&config.pass_env),
        linger: config.timing.keeper_linger,
        isolation,
        no_new_privileges: !config.allow_new_privileges,
    })
}

/// Relative directories of jobs are taken from here, wherever the keeper is.
fn job_dir(config: &WorkerConfig) -> PathBuf {
    let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    match &config.job_dir {
        Some(directory) => current.join(directory),
        None => current,
    }
}

fn retry() -> Retry {
    Retry { backoff: Backoff::new(RETRY_FIRST, RETRY_MOST), after: Instant::now() }
}

impl Agent {
    /// Goes on with the jobs that the keeper has, and removes the files of all others.
    fn take_over(&mut self, jobs: Vec<Adopted>) {
        self.attempts.remove_strangers(&jobs.iter().map(|job| job.key.clone()).collect::<Vec<_>>());
        self.adopt(jobs);
    }
}

/// Waits until the keeper has killed what is left and is gone.
async fn end_keeper(mut agent: Agent) {
    agent.executor.send(ToKeeper::Shutdown);
    if agent.keeper.is_some() {
        let gone = async {
            while let Some(event) = agent.executor.next().await {
                if matches!(event, executor::ExecutorEvent::Lost(_)) {
                    break;
                }
            }
        };
        if tokio::time::timeout(KEEPER_END, gone).await.is_err() {
            tracing::warn!("the keeper has not ended in time");
        }
    }
}
