//! What `muster up` comes to: its own flags and variables, then `[up]` of the file, then the settings of a
//! scheduler from their variables and `[scheduler]`, then the defaults.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use muster_protocol::Resources;
use muster_server::settings::{self, SchedulerArgs};
use muster_worker_agent::{GpuOffer, WorkerConfig};

use crate::args::{UpArgs, UpWorkerArgs, program};
use crate::embedded::worker_config;

/// The section of the file with the flags of `muster up`.
const SECTION: &str = "up";
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);
/// A person at a terminal wants to see what goes wrong, not everything that happens.
const DEFAULT_LOG: &str = "warn";

/// A scheduler and perhaps a worker in this process.
#[derive(Debug, Clone)]
pub(crate) struct UpSettings {
    pub(crate) scheduler: SchedulerArgs,
    /// `None` for no worker.
    pub(crate) worker: Option<WorkerConfig>,
    pub(crate) log: String,
}

/// The program with the values of the file as defaults of the flags of `muster up`.
pub(crate) fn with_file(config: Option<&Path>) -> Result<clap::Command, clap::Error> {
    let mut program = program();
    let Some(up) = program.find_subcommand("up").cloned() else { return Ok(program) };
    match settings::apply_file(up, SECTION, config) {
        Ok(up) => Ok(program.mut_subcommand("up", |_| up)),
        Err(error) => Err(program.error(clap::error::ErrorKind::ValueValidation, error)),
    }
}

impl UpSettings {
    pub(crate) fn resolve(
        args: &UpArgs,
        config: Option<&Path>,
        ca_file: Option<&Path>,
    ) -> Result<Self, clap::Error> {
        let command = SchedulerArgs::augment_args(clap::Command::new("muster up"));
        let found = settings::matches(command, "scheduler", scheduler_arguments(args, config, ca_file))?;
        let scheduler = SchedulerArgs::from_arg_matches(&found)?;
        let worker = (!args.worker.no_worker).then(|| worker(args, &scheduler));
        Ok(Self { scheduler, worker, log: args.log.clone().unwrap_or_else(|| DEFAULT_LOG.to_owned()) })
    }
}

/// What was said to us, said to a scheduler.
fn scheduler_arguments(args: &UpArgs, config: Option<&Path>, ca_file: Option<&Path>) -> Vec<OsString> {
    let port = args.port.map(|port| port.to_string());
    let list = |values: &[String]| (!values.is_empty()).then(|| values.join(",").into());
    let values: [(&str, Option<OsString>); 13] = [
        ("config", config.map(Into::into)),
        ("data-dir", args.data_dir.as_ref().map(Into::into)),
        ("port", port.map(Into::into)),
        ("listen", args.listen.as_ref().map(Into::into)),
        ("hostname", list(&args.hostname)),
        ("allow-origin", list(&args.allow_origin)),
        ("loopback", args.loopback.as_ref().map(Into::into)),
        ("tls-cert", args.tls_cert.as_ref().map(Into::into)),
        ("tls-key", args.tls_key.as_ref().map(Into::into)),
        ("ca-file", ca_file.map(Into::into)),
        ("db-driver", args.db_driver.as_ref().map(Into::into)),
        ("db-url", args.db_url.as_ref().map(Into::into)),
        ("policy", args.policy.as_ref().map(Into::into)),
    ];
    let mut arguments = vec![OsString::from("muster up")];
    for (name, value) in values {
        if let Some(value) = value {
            let mut argument = OsString::from(format!("--{name}="));
            argument.push(value);
            arguments.push(argument);
        }
    }
    if args.insecure {
        arguments.push("--insecure".into());
    }
    if args.tls_self_signed {
        arguments.push("--tls-self-signed".into());
    }
    arguments
}

fn worker(args: &UpArgs, scheduler: &SchedulerArgs) -> WorkerConfig {
    let mut config = worker_config(&scheduler.data_dir);
    config.slots = args.worker.workers.unwrap_or(config.slots);
    config.resources = offered(&args.worker, &config.resources);
    // GPU memory that was given as one sum, without a word of GPUs, stays a sum.
    let unsaid = if args.worker.vram.is_some() { GpuOffer::None } else { GpuOffer::Found };
    config.offer_gpus(args.worker.gpus.as_ref().unwrap_or(&unsaid), args.worker.vram.unwrap_or(0));
    config.labels = args.worker.label.iter().cloned().collect();
    config.tags.clone_from(&args.worker.tag);
    config.timing.shutdown = args.drain_timeout.unwrap_or(DEFAULT_DRAIN);
    config.timing.grace = scheduler.preempt_grace;
    config.checkpoint_limit = scheduler.checkpoint_limit as u64;
    config
}

fn offered(args: &UpWorkerArgs, found: &Resources) -> Resources {
    Resources {
        cpus: args.cpus.unwrap_or(found.cpus),
        memory_mb: args.memory.unwrap_or(found.memory_mb),
        counters: args.counter.iter().cloned().collect(),
        ..found.clone()
    }
}

#[cfg(test)]
mod tests {
    use muster_server::settings::StoreChoice;
    use muster_server::{LoopbackUsers, TlsConfig};

    use super::*;
    use crate::args::{Cli, Command};

    /// Resolves as the program does, with a file of this content.
    fn resolve(arguments: &[&str], file: &str) -> Result<UpSettings, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("muster.toml");
        std::fs::write(&path, file).unwrap();
        let words = ["muster", "up"].iter().chain(arguments);
        let matches = with_file(Some(&path)).and_then(|program| program.try_get_matches_from(words));
        let cli =
            matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| error.to_string())?;
        let Command::Up(args) = cli.command else { return Err("not up".to_owned()) };
        UpSettings::resolve(&args, Some(&path), None).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults() {
        let settings = resolve(&[], "").unwrap();
        assert_eq!(settings.scheduler.socket().to_string(), "127.0.0.1:8080");
        assert_eq!(settings.scheduler.store().unwrap(), StoreChoice::Sqlite("data/muster.db".into()));
        let worker = settings.worker.unwrap();
        assert!(worker.slots >= 4 && worker.data_dir == Path::new("data/worker"));
    }

    #[test]
    fn a_flag_beats_the_file_and_up_beats_the_scheduler() {
        let file = "[up]\ndata-dir = \"there\"\nworkers = 7\ndrain-timeout = \"2m\"\ntag = \"a,b\"\n\
                    [scheduler]\nport = 1\ndata-dir = \"elsewhere\"\nreaper-interval = \"3s\"";
        let settings = resolve(&["--data-dir", "here", "--gpus", "2"], file).unwrap();
        assert_eq!(settings.scheduler.store().unwrap(), StoreChoice::Sqlite("here/muster.db".into()));
        assert_eq!(settings.scheduler.socket().port(), 1);
        assert_eq!(settings.scheduler.reaper_interval, Duration::from_secs(3));
        let worker = settings.worker.unwrap();
        assert_eq!((worker.slots, worker.timing.shutdown), (7, Duration::from_secs(120)));
        assert_eq!((worker.tags.join("+"), worker.resources.gpus), ("a+b".to_owned(), 2));
        assert_eq!(resolve(&[], file).unwrap().scheduler.data_dir, Path::new("there"));
    }

    #[test]
    fn who_is_trusted_is_said_by_flag_or_file() {
        let access = |arguments: &[&str], file: &str| {
            let config = resolve(arguments, file).unwrap().scheduler.server_config();
            (config.access.loopback, config.access.insecure)
        };
        assert_eq!(access(&[], ""), (LoopbackUsers::Same, false));
        assert_eq!(access(&["--loopback", "any", "--insecure"], ""), (LoopbackUsers::Any, true));
        for section in ["up", "scheduler"] {
            let file = format!("[{section}]\nloopback = \"any\"\ninsecure = true");
            assert_eq!(access(&[], &file), (LoopbackUsers::Any, true), "{section}");
        }
    }

    #[test]
    fn certificates_are_named_by_flag_or_file() {
        let tls = |arguments: &[&str], file: &str| {
            let settings = resolve(arguments, file).unwrap().scheduler;
            settings.check().map(|()| settings.server_config().tls).map_err(|error| error.to_string())
        };
        let files = TlsConfig::Files { certificate: "c".into(), key: "k".into() };
        assert_eq!(tls(&[], ""), Ok(TlsConfig::Off));
        assert_eq!(tls(&["--tls-cert", "c", "--tls-key", "k"], ""), Ok(files.clone()));
        assert_eq!(tls(&["--tls-self-signed"], ""), Ok(TlsConfig::SelfSigned));
        for section in ["up", "scheduler"] {
            let file = format!("[{section}]\ntls-cert = \"c\"\ntls-key = \"k\"");
            assert_eq!(tls(&[], &file), Ok(files.clone()), "{section}");
            let file = format!("[{section}]\ntls-self-signed = true");
            assert_eq!(tls(&[], &file), Ok(TlsConfig::SelfSigned), "{section}");
        }
        assert!(tls(&["--tls-cert", "c"], "").unwrap_err().contains("--tls-key"));
    }

    #[test]
    fn wrong_values_are_named() {
        let cases = [
            (&["--loopback", "some"][..], "", "some"),
            (&["--db-driver", "oracle"], "", "oracle"),
            (&["--listen", "here"], "", "here"),
            (&[], "[up]\ndrain-timeout = \"soon\"", "soon"),
            (&[], "[up]\ndatadir = \"x\"", "datadir"),
            (&[], "[scheduler]\nprot = 1", "prot"),
        ];
        for (arguments, file, named) in cases {
            let error = resolve(arguments, file).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn no_worker_when_asked_for() {
        assert!(resolve(&["--no-worker"], "").unwrap().worker.is_none());
        assert!(resolve(&[], "[up]\nno-worker = true").unwrap().worker.is_none());
    }
}
