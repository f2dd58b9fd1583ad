//! The settings of a worker: flag, else environment, else file, else default.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use muster_client::{BaseUrl, Trust};
use muster_logging::LogFormat;
use muster_protocol::Resources;
use muster_worker_agent::{
    ContainerMode, ContainerSettings, DataDir, ExecutorKind, GpuOffer, JoinToken, Timing, WorkerConfig,
    WorkerError, discover, parse_gpu,
};

use crate::args::{Args, ExecutorArg};
use crate::config_file::{self, GpusValue, WorkerSection};
use crate::duration;

const DEFAULT_SCHEDULER: &str = "http://localhost:8080";
/// The data directories of workers that were given none.
const DEFAULT_DATA: &str = "data";
const DEFAULT_NAME: &str = "worker";
/// How many workers share a current directory without being told where to keep their data.
const MOST_DEFAULT_DIRECTORIES: u32 = 256;

/// Everything that is decided before the worker starts.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) scheduler: String,
    pub(crate) trust: Trust,
    pub(crate) worker: WorkerConfig,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
}

impl Settings {
    pub(crate) fn resolve(args: Args) -> anyhow::Result<Self> {
        let file = config_file::load(args.config.as_deref())?;
        Self::merge(args, file)
    }

    fn merge(args: Args, file: WorkerSection) -> anyhow::Result<Self> {
        let scheduler =
            args.scheduler.clone().or(file.scheduler.clone()).unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned());
        BaseUrl::parse(&scheduler).context("the value of --scheduler is wrong")?;
        let log = args.log.clone().or(file.log.clone()).unwrap_or_else(|| "info".to_owned());
        let log_format = match (args.log_format, &file.log_format) {
            (Some(format), _) => format,
            (None, Some(text)) => {
                text.parse().map_err(|error| anyhow!("log-format in the file is wrong: {error}"))?
            }
            (None, None) => LogFormat::Auto,
        };
        let trust = trust(&args, &file)?;
        let mut worker = worker(args, file)?;
        worker.job_trust = trust.clone();
        worker.validate()?;
        Ok(Self { scheduler, trust, worker, log, log_format })
    }
}

/// The data directory whose keys are meant: that of a worker which may run, so that it is not taken.
pub(crate) fn key_data_dir(args: &Args) -> anyhow::Result<PathBuf> {
    let file = config_file::load(args.config.as_deref())?;
    let worker_id = args.worker_id.clone().or(file.worker_id);
    let named = args.data_dir.clone().or(file.data_dir);
    let usual = || match &worker_id {
        Some(id) => named_data_dir(id),
        None => PathBuf::from(DEFAULT_DATA).join(DEFAULT_NAME),
    };
    Ok(named.unwrap_or_else(usual))
}

/// Whom the worker and its jobs believe at the URL of the scheduler.
fn trust(args: &Args, file: &WorkerSection) -> anyhow::Result<Trust> {
    let fingerprint = match (args.tls_fingerprint, &file.tls_fingerprint) {
        (Some(given), _) => Some(given),
        (None, Some(text)) => Some(text.parse().context("tls-fingerprint in the file is wrong")?),
        (None, None) => None,
    };
    Ok(Trust { ca_file: args.ca_file.clone().or_else(|| file.ca_file.clone()), fingerprint })
}

fn worker(args: Args, file: WorkerSection) -> anyhow::Result<WorkerConfig> {
    let timing = timing(&args, &file)?;
    let isolation = chosen("isolation", args.isolation, file.isolation.as_deref())?;
    let cpu_limit = chosen("cpu-limit", args.cpu_limit, file.cpu_limit.as_deref())?;
    let run_as = chosen("run-as", args.run_as.clone(), file.run_as.as_deref())?;
    let (resources, offer) = (resources(&args, &file), gpus(&args, &file)?);
    let vram_mb = args.vram_mb.or(file.vram_mb).unwrap_or(0);
    let containers = containers(&args, &file)?;
    let worker_id = args.worker_id.or(file.worker_id);
    let data_dir = match args.data_dir.or(file.data_dir) {
        Some(given) => given,
        None => default_data_dir(worker_id.as_deref())?,
    };
    let mut config = WorkerConfig::new(data_dir);
    config.worker_id = worker_id;
    config.join_token = join_token(args.join_token_file.or(file.join_token_file))?;
    config.slots = args.workers.or(file.workers).unwrap_or(config.slots);
    config.resources = resources;
    config.offer_gpus(&offer, vram_mb);
    config.labels = if args.labels.is_empty() { file.labels } else { args.labels.into_iter().collect() };
    config.tags = if args.tags.is_empty() { file.tags } else { args.tags };
    config.exec_addr = args.exec_addr.or(file.exec_addr).unwrap_or_default();
    config.job_dir = args.job_dir.or(file.job_dir);
    config.pass_env = if args.pass_env.is_empty() { file.pass_env } else { args.pass_env };
    config.checkpoint_limit =
        args.checkpoint_limit.or(file.checkpoint_limit).unwrap_or(config.checkpoint_limit);
    config.input_cache = args.input_cache.or(file.input_cache).unwrap_or(config.input_cache);
    config.max_ahead = args.max_ahead.or(file.max_ahead).unwrap_or(config.max_ahead);
    config.allow_new_privileges = args.allow_new_privileges || file.allow_new_privileges;
    config.run_as = run_as.unwrap_or_default();
    config.allow_root_jobs = args.allow_root_jobs || file.allow_root_jobs;
    config.isolation = isolation.unwrap_or(config.isolation);
    config.require_isolation = args.require_isolation || file.require_isolation;
    config.cpu_limit = cpu_limit.unwrap_or(config.cpu_limit);
    config.max_processes = args.max_processes.or(file.max_processes).unwrap_or(config.max_processes);
    config.cpu_bind = args.cpu_bind || file.cpu_bind;
    config.private_tmp = args.private_tmp || file.private_tmp;
    config.lets_exec = !(args.no_exec || file.no_exec);
    config.executor = match args.executor {
        ExecutorArg::Process => ExecutorKind::Process,
        ExecutorArg::Fake => ExecutorKind::Fake,
    };
    config.containers = containers;
    config.timing = timing;
    Ok(config)
}

/// A word that stands for one of several values: of the flag, else of the file.
fn chosen<T: FromStr<Err = String>>(
    name: &str,
    flag: Option<T>,
    file: Option<&str>,
) -> anyhow::Result<Option<T>> {
    match (flag, file) {
        (Some(given), _) => Ok(Some(given)),
        (None, Some(text)) => {
            text.parse().map(Some).map_err(|error| anyhow!("{name} in the file is wrong: {error}"))
        }
        (None, None) => Ok(None),
    }
}

/// Whether jobs may run in containers, by what engine, and what they may mount there.
fn containers(args: &Args, file: &WorkerSection) -> anyhow::Result<ContainerSettings> {
    let wrong = |name: &str, why: String| anyhow!("{name} in the file is wrong: {why}");
    let mode = match (args.containers, &file.containers) {
        (Some(mode), _) => mode,
        (None, Some(text)) => text.parse().map_err(|why| wrong("containers", why))?,
        (None, None) => ContainerMode::default(),
    };
    let socket = args.container_socket.clone().or_else(|| file.container_socket.clone());
    let allowed_mounts = if args.allow_mount.is_empty() {
        let read = file.allow_mount.iter().map(|text| text.parse().map_err(|why| wrong("allow-mount", why)));
        read.collect::<anyhow::Result<_>>()?
    } else {
        args.allow_mount.clone()
    };
    Ok(ContainerSettings { mode, socket, allowed_mounts })
}

/// The join token of the environment, or else of the file. It is no argument: others see the arguments of a process.
fn join_token(file: Option<PathBuf>) -> anyhow::Result<Option<JoinToken>> {
    let token = match (std::env::var("MUSTER_JOIN_TOKEN"), file) {
        (Ok(token), _) => token,
        (Err(_), Some(file)) => std::fs::read_to_string(&file)
            .with_context(|| format!("the join token cannot be read from {}", file.display()))?,
        (Err(_), None) => return Ok(None),
    };
    Ok(Some(token.trim()).filter(|token| !token.is_empty()).map(JoinToken::new))
}

fn resources(args: &Args, file: &WorkerSection) -> Resources {
    let found = discover();
    let counters = if args.counters.is_empty() {
        file.counters.clone()
    } else {
        args.counters.iter().cloned().collect()
    };
    Resources {
        cpus: args.cpus.or(file.cpus).unwrap_or(found.cpus),
        memory_mb: args.memory_mb.or(file.memory_mb).unwrap_or(found.memory_mb),
        counters,
        ..found
    }
}

/// Devices one by one before their number, a flag before the file. Where GPU memory was given as one sum and nothing
/// was said of GPUs, they stay a sum, as it was always meant.
fn gpus(args: &Args, file: &WorkerSection) -> anyhow::Result<GpuOffer> {
    if !args.gpu.is_empty() {
        return Ok(GpuOffer::Given(args.gpu.clone()));
    }
    if let Some(offer) = &args.gpus {
        return Ok(offer.clone());
    }
    if !file.gpu.is_empty() {
        let read =
            |text: &String| parse_gpu(text).map_err(|error| anyhow!("gpu in the file is wrong: {error}"));
        return Ok(GpuOffer::Given(file.gpu.iter().map(read).collect::<anyhow::Result<_>>()?));
    }
    match &file.gpus {
        Some(GpusValue::Count(count)) => Ok(GpuOffer::Counted(*count)),
        Some(GpusValue::Text(text)) => {
            text.parse().map_err(|error| anyhow!("gpus in the file is wrong: {error}"))
        }
        None if args.vram_mb.or(file.vram_mb).is_some() => Ok(GpuOffer::None),
        None => Ok(GpuOffer::Found),
    }
}

fn timing(args: &Args, file: &WorkerSection) -> anyhow::Result<Timing> {
    let default = Timing::default();
    let choose =
        |name: &str, flag: Option<Duration>, text: &Option<String>, default: Duration| match (flag, text) {
            (Some(given), _) => Ok(given),
            (None, Some(text)) => {
                duration::parse(text).map_err(|error| anyhow!("{name} in the file is wrong: {error}"))
            }
            (None, None) => Ok(default),
        };
    Ok(Timing {
        heartbeat: choose(
            "job-heartbeat-interval",
            args.job_heartbeat_interval,
            &file.job_heartbeat_interval,
            default.heartbeat,
        )?,
        poll: choose("poll-timeout", args.poll_timeout, &file.poll_timeout, default.poll)?,
        grace: choose("preempt-grace", args.preempt_grace, &file.preempt_grace, default.grace)?,
        shutdown: choose("drain-timeout", args.drain_timeout, &file.drain_timeout, default.shutdown)?,
        register: choose(
            "register-timeout",
            args.register_timeout,
            &file.register_timeout,
            default.register,
        )?,
        checkpoint_dirs: choose(
            "checkpoint-dir-keep",
            args.checkpoint_dir_keep,
            &file.checkpoint_dir_keep,
            default.checkpoint_dirs,
        )?,
        ..default
    })
}

/// Several workers may be started in one directory without a word about their data. Each takes the first
/// place that is free, so that a worker that is started again finds its own.
/// The data directory of a worker with a name.
fn named_data_dir(id: &str) -> PathBuf {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let safe: String = id.chars().map(safe).collect();
    PathBuf::from(DEFAULT_DATA).join(format!("{DEFAULT_NAME}-{safe}"))
}

fn default_data_dir(worker_id: Option<&str>) -> anyhow::Result<PathBuf> {
    let base = PathBuf::from(DEFAULT_DATA);
    if let Some(id) = worker_id {
        return Ok(named_data_dir(id));
    }
    let name = |number: u32| {
        if number == 1 { DEFAULT_NAME.to_owned() } else { format!("{DEFAULT_NAME}-{number}") }
    };
    for number in 1..=MOST_DEFAULT_DIRECTORIES {
        let candidate = base.join(name(number));
        match DataDir::take(&candidate) {
            Ok(_) => return Ok(candidate),
            Err(WorkerError::DataDirectoryTaken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(anyhow!("all default data directories are in use; give this worker one with --data-dir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(args: Args, file: &str) -> anyhow::Result<Settings> {
        Settings::merge(args, config_file::parse(file).unwrap())
    }

    fn args() -> Args {
        Args { data_dir: Some("d".into()), ..Args::default() }
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = "[worker]\nworkers = 4\nmemory-mb = 100\ndrain-timeout = \"7s\"\ntags = [\"x\"]";
        let settings = merge(Args { workers: Some(2), ..args() }, file).unwrap();
        assert_eq!(settings.worker.slots, 2);
        assert_eq!(settings.worker.resources.memory_mb, 100);
        assert_eq!(settings.worker.timing.shutdown, Duration::from_secs(7));
        assert_eq!(settings.worker.timing.heartbeat, Duration::from_secs(5));
        assert_eq!(settings.worker.tags, ["x"]);
        assert_eq!(settings.scheduler, DEFAULT_SCHEDULER);
    }

    #[test]
    fn gpus_are_told_apart_or_counted() {
        let offered = |args, file| {
            let worker = merge(args, file).unwrap().worker;
            (worker.gpus.len(), worker.resources.gpus, worker.resources.vram_mb)
        };
        let flag = |text: &str| Args { gpus: Some(text.parse().unwrap()), ..args() };
        assert_eq!(offered(flag("2x80g"), "[worker]\ngpus = 5"), (2, 2, 163_840));
        assert_eq!(offered(flag("none"), "[worker]\ngpus = 5"), (0, 0, 0));
        assert_eq!(offered(args(), "[worker]\ngpus = 5\nvram-mb = 100"), (0, 5, 100));
        assert_eq!(offered(args(), "[worker]\nvram-mb = 100"), (0, 0, 100));
        assert_eq!(offered(args(), "[worker]\ngpu = [\"0:10\", \"3:20:GPU-x\"]"), (2, 2, 30));
        let twice = merge(args(), "[worker]\ngpu = [\"0:10\", \"0:20\"]").unwrap_err();
        assert!(format!("{twice:#}").contains("gpu is 0"), "{twice:#}");
        let labels = merge(args(), "[worker]\n[worker.labels]\nrack = \"a\"").unwrap().worker.labels;
        assert_eq!(labels["rack"], "a");
    }

    #[test]
    fn the_worker_and_its_jobs_believe_the_same() {
        let (first, second) = (format!("sha256:{}", "a".repeat(64)), format!("sha256:{}", "b".repeat(64)));
        let file = format!("[worker]\nca-file = \"ca.pem\"\ntls-fingerprint = \"{first}\"");
        let settings = merge(args(), &file).unwrap();
        assert_eq!(settings.trust.fingerprint.map(|pin| pin.to_string()), Some(first));
        assert_eq!(settings.trust.ca_file, Some("ca.pem".into()));
        assert_eq!(settings.worker.job_trust, settings.trust);
        let flag = Args { tls_fingerprint: Some(second.parse().unwrap()), ..args() };
        let settings = merge(flag, &file).unwrap();
        assert_eq!(settings.trust.fingerprint.map(|pin| pin.to_string()), Some(second));
        let wrong = merge(args(), "[worker]\ntls-fingerprint = \"abc\"").unwrap_err();
        assert!(format!("{wrong:#}").contains("\"abc\" is no fingerprint"), "{wrong:#}");
    }

    #[test]
    fn wrong_values_are_named() {
        let message = |args, file| format!("{:#}", merge(args, file).unwrap_err());
        let wrong_url = Args { scheduler: Some("ftp://nowhere".to_owned()), ..args() };
        assert!(message(wrong_url, "").contains("ftp://nowhere"));
        assert!(message(args(), "[worker]\ndrain-timeout = \"soon\"").contains("soon"));
        assert!(message(Args { workers: Some(0), ..args() }, "").contains("workers is 0"));
        assert!(message(args(), "[worker]\nisolation = \"jail\"").contains("none of auto"));
        assert!(message(args(), "[worker]\ncpu-limit = \"soft\"").contains("neither hard nor shares"));
        let none = Args { isolation: Some("none".parse().unwrap()), require_isolation: true, ..args() };
        assert!(message(none, "").contains("isolation is none"));
        assert!(message(Args { max_processes: Some(0), ..args() }, "").contains("max-processes is 0"));
        assert!(message(args(), "[worker]\nlog-format = \"xml\"").contains("xml"));
    }
}
