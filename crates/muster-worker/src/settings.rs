//! The settings of a worker: flag, else environment, else file, else default.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use muster_client::BaseUrl;
use muster_logging::LogFormat;
use muster_protocol::Resources;
use muster_worker_agent::{
    DataDir, ExecutorKind, GpuOffer, Timing, WorkerConfig, WorkerError, discover, parse_gpu,
};

use crate::args::{Args, ExecutorArg};
use crate::config_file::{self, GpusValue, WorkerSection};
use crate::duration;

const DEFAULT_SCHEDULER: &str = "http://localhost:8080";
/// The data directories of workers that were given none.
const DEFAULT_DATA: &str = "data";
/// How many workers share a current directory without being told where to keep their data.
const MOST_DEFAULT_DIRECTORIES: u32 = 256;

/// Everything that is decided before the worker starts.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) scheduler: String,
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
        let worker = worker(args, file)?;
        worker.validate()?;
        Ok(Self { scheduler, worker, log, log_format })
    }
}

fn worker(args: Args, file: WorkerSection) -> anyhow::Result<WorkerConfig> {
    let timing = timing(&args, &file)?;
    let (resources, offer) = (resources(&args, &file), gpus(&args, &file)?);
    let vram_mb = args.vram_mb.or(file.vram_mb).unwrap_or(0);
    let worker_id = args.worker_id.or(file.worker_id);
    let data_dir = match args.data_dir.or(file.data_dir) {
        Some(given) => given,
        None => default_data_dir(worker_id.as_deref())?,
    };
    let mut config = WorkerConfig::new(data_dir);
    config.worker_id = worker_id;
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
    config.max_ahead = args.max_ahead.or(file.max_ahead).unwrap_or(config.max_ahead);
    config.executor = match args.executor {
        ExecutorArg::Process => ExecutorKind::Process,
        ExecutorArg::Fake => ExecutorKind::Fake,
    };
    config.timing = timing;
    Ok(config)
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
fn default_data_dir(worker_id: Option<&str>) -> anyhow::Result<PathBuf> {
    let base = PathBuf::from(DEFAULT_DATA);
    if let Some(id) = worker_id {
        let safe: String =
            id.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        return Ok(base.join(format!("worker-{safe}")));
    }
    let name = |number: u32| if number == 1 { "worker".to_owned() } else { format!("worker-{number}") };
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
    fn wrong_values_are_named() {
        let message = |args, file| format!("{:#}", merge(args, file).unwrap_err());
        let wrong_url = Args { scheduler: Some("ftp://nowhere".to_owned()), ..args() };
        assert!(message(wrong_url, "").contains("ftp://nowhere"));
        assert!(message(args(), "[worker]\ndrain-timeout = \"soon\"").contains("soon"));
        assert!(message(Args { workers: Some(0), ..args() }, "").contains("workers is 0"));
        assert!(message(args(), "[worker]\nlog-format = \"xml\"").contains("xml"));
    }
}
