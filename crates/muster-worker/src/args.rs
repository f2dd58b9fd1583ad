//! The flags of the worker and the environment variables that stand for them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use muster_client::Fingerprint;
use muster_logging::LogFormat;
use muster_protocol::Gpu;
use muster_worker_agent::{AllowedMount, ContainerMode, CpuLimit, GpuOffer, IsolationMode, RunAs, parse_gpu};

use crate::duration;

/// Runs jobs of a Muster scheduler on this machine.
#[derive(Debug, Default, Parser)]
#[command(name = "muster-worker", version, max_term_width = 100)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct Args {
    /// URL of the scheduler, with user:password@ where it asks for credentials
    /// [default: `http://localhost:8080`]
    #[arg(long, env = "MUSTER_SCHEDULER_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) scheduler: Option<String>,
    /// CA certificates, in PEM, that are trusted beside those of the system
    #[arg(long, env = "MUSTER_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The only certificate that is accepted from the scheduler, such as sha256:5f0c...; the scheduler logs it
    #[arg(long, env = "MUSTER_TLS_FINGERPRINT", value_name = "SHA256")]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// How many jobs run at once [default: the number of cores]
    #[arg(long, env = "MUSTER_WORKERS", value_name = "N")]
    pub(crate) workers: Option<u32>,
    /// Name of this worker [default: made up once and kept in the data directory]
    #[arg(long, env = "MUSTER_WORKER_ID", value_name = "ID")]
    pub(crate) worker_id: Option<String>,
    /// File with a join token (`muster join-token create`), which is exchanged for a key of this worker at its first start;
    /// the variable `MUSTER_JOIN_TOKEN` may hold the token itself
    #[arg(long, env = "MUSTER_JOIN_TOKEN_FILE", value_name = "FILE")]
    pub(crate) join_token_file: Option<PathBuf>,
    /// Host under which the tasks of a gang reach those on this machine; with :PORT all of them use that port
    /// [default: the address from which this machine reaches the scheduler]
    #[arg(long, env = "MUSTER_EXEC_ADDR", value_name = "HOST[:PORT]")]
    pub(crate) exec_addr: Option<String>,
    /// GPU memory on offer in all, in MiB, where GPUs are only counted [default: 0]
    #[arg(long, env = "MUSTER_VRAM_MB", value_name = "MB")]
    pub(crate) vram_mb: Option<u64>,
    /// Memory on offer, in MiB [default: what the machine has]
    #[arg(long, env = "MUSTER_MEMORY_MB", value_name = "MB")]
    pub(crate) memory_mb: Option<u64>,
    /// CPU cores on offer; fractions are allowed [default: what the machine has]
    #[arg(long, env = "MUSTER_CPUS", value_name = "N")]
    pub(crate) cpus: Option<f64>,
    /// GPUs on offer: 4x80g for four with 80 GiB each, 4 to count them only, none to offer none and hide those of the machine
    /// from jobs, or auto to ask the driver
    /// [default: auto]
    #[arg(long, env = "MUSTER_GPUS", value_name = "GPUS")]
    pub(crate) gpus: Option<GpuOffer>,
    /// One GPU on offer, by its index and memory; may be repeated, and takes the place of --gpus
    #[arg(long = "gpu", env = "MUSTER_GPU", value_name = "INDEX:MB[:UUID[:VENDOR]]", value_delimiter = ',', value_parser = parse_gpu)]
    pub(crate) gpu: Vec<Gpu>,
    /// Where the worker is, such as rack=a or zone=1; may be repeated
    #[arg(long = "label", env = "MUSTER_LABELS", value_name = "NAME=VALUE", value_delimiter = ',', value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// A tag that jobs can ask for; may be repeated
    #[arg(long = "tag", env = "MUSTER_TAGS", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,
    /// A named amount on offer, such as a number of licences; may be repeated
    #[arg(long = "counter", env = "MUSTER_COUNTERS", value_name = "NAME=N", value_delimiter = ',', value_parser = counter)]
    pub(crate) counters: Vec<(String, u64)>,
    /// Where the worker keeps its name, its socket and output on the way
    /// [default: data/worker, or data/worker-ID with --worker-id]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where jobs run that name no directory [default: the current directory]
    #[arg(long, env = "MUSTER_JOB_DIR", value_name = "DIR")]
    pub(crate) job_dir: Option<PathBuf>,
    /// A variable of the worker's environment that jobs may see, besides the usual ones; may be repeated
    #[arg(long = "pass-env", env = "MUSTER_PASS_ENV", value_name = "NAME", value_delimiter = ',')]
    pub(crate) pass_env: Vec<String>,
    /// What runs jobs that name an image: docker, podman, auto for either if there is one, or off [default: auto]
    #[arg(long, env = "MUSTER_CONTAINERS", value_name = "ENGINE")]
    pub(crate) containers: Option<ContainerMode>,
    /// The socket of Docker or Podman [default: that of `DOCKER_HOST`, else /var/run/docker.sock, else Podman's]
    #[arg(long, env = "MUSTER_CONTAINER_SOCKET", value_name = "PATH")]
    pub(crate) container_socket: Option<PathBuf>,
    /// A directory that jobs may mount into their containers, such as /data or /data:ro; may be repeated [default: none]
    #[arg(long = "allow-mount", env = "MUSTER_ALLOW_MOUNT", value_name = "DIR[:ro]", value_delimiter = ',')]
    pub(crate) allow_mount: Vec<AllowedMount>,
    /// Let nobody run programs beside jobs of this worker (muster exec)
    #[arg(long, env = "MUSTER_NO_EXEC", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_exec: bool,
    /// File with settings, in its section [worker] [default: muster.toml, if there is one]
    #[arg(long, env = "MUSTER_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What to log: a level, or directives such as info,hyper=warn [default: info]
    #[arg(long, env = "MUSTER_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// How log lines look: auto (readable on a terminal, JSON otherwise), json or human [default: auto]
    #[arg(long, env = "MUSTER_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Between two heartbeats of the jobs [default: 5s]
    #[arg(long, env = "MUSTER_JOB_HEARTBEAT_INTERVAL", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) job_heartbeat_interval: Option<Duration>,
    /// The longest that a request for jobs stays open [default: 30s]
    #[arg(long, env = "MUSTER_POLL_TIMEOUT", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) poll_timeout: Option<Duration>,
    /// Between the polite signal and the kill, for jobs that say nothing [default: 15s]
    #[arg(long, env = "MUSTER_PREEMPT_GRACE", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) preempt_grace: Option<Duration>,
    /// How long jobs may go on after the worker was told to end [default: 30s]
    #[arg(long, env = "MUSTER_DRAIN_TIMEOUT", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) drain_timeout: Option<Duration>,
    /// How long to try to register before giving up [default: 60s]
    #[arg(long, env = "MUSTER_REGISTER_TIMEOUT", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) register_timeout: Option<Duration>,
    /// The largest checkpoint that is taken from a job, in bytes [default: 268435456]
    #[arg(long, env = "MUSTER_CHECKPOINT_LIMIT", value_name = "BYTES")]
    pub(crate) checkpoint_limit: Option<u64>,
    /// Bytes of uploads that are kept for the next attempts; 0 keeps none [default: 10737418240]
    #[arg(long, env = "MUSTER_INPUT_CACHE", value_name = "BYTES")]
    pub(crate) input_cache: Option<u64>,
    /// How long the directory of a job's checkpoints is kept after its last use [default: 168h]
    #[arg(long, env = "MUSTER_CHECKPOINT_DIR_KEEP", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) checkpoint_dir_keep: Option<Duration>,
    /// The most jobs that wait here for a free slot
    #[arg(long, env = "MUSTER_MAX_AHEAD", value_name = "N", hide = true)]
    pub(crate) max_ahead: Option<u32>,
    /// How jobs are isolated and held to their limits: auto, cgroup-v2, cgroup-v1 or none [default: auto, the best that
    /// can be had; memory is watched without isolation]
    #[arg(long, env = "MUSTER_ISOLATION", value_name = "FORM")]
    pub(crate) isolation: Option<IsolationMode>,
    /// Do not start where jobs cannot be isolated
    #[arg(long, env = "MUSTER_REQUIRE_ISOLATION")]
    pub(crate) require_isolation: bool,
    /// What a job gets that asks for cores: hard, no more than these, or shares, these at least and idle cores as well
    /// [default: hard]
    #[arg(long, env = "MUSTER_CPU_LIMIT", value_name = "hard|shares")]
    pub(crate) cpu_limit: Option<CpuLimit>,
    /// The most processes and threads of one job, where jobs are isolated [default: 8192]
    #[arg(long, env = "MUSTER_MAX_PROCESSES", value_name = "N")]
    pub(crate) max_processes: Option<u64>,
    /// Give each job that asks for whole cores CPUs of its own; all others share the rest. Needs control groups
    #[arg(long, env = "MUSTER_CPU_BIND")]
    pub(crate) cpu_bind: bool,
    /// Give each attempt an empty /tmp and /var/tmp of its own, removed at its end. Jobs no longer find what lies in /tmp
    #[arg(long, env = "MUSTER_PRIVATE_TMP")]
    pub(crate) private_tmp: bool,
    /// Let programs such as sudo give a job more rights than it starts with
    #[arg(long, env = "MUSTER_ALLOW_NEW_PRIVILEGES")]
    pub(crate) allow_new_privileges: bool,
    /// Whose user jobs run as: worker, the worker's own; user:NAME, one for all, such as user:batch; or submitter, who submitted
    /// the job, if the scheduler has proven that. Others than worker need root [default: worker]
    #[arg(long, env = "MUSTER_RUN_AS", value_name = "worker|user:NAME|submitter")]
    pub(crate) run_as: Option<RunAs>,
    /// With --run-as user:NAME or submitter, let that be root; without it such jobs are refused
    #[arg(long, env = "MUSTER_ALLOW_ROOT_JOBS")]
    pub(crate) allow_root_jobs: bool,
    /// How jobs are run
    #[arg(long, value_enum, hide = true, default_value_t)]
    pub(crate) executor: ExecutorArg,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What else the program does; without any it runs jobs.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Make and list the private keys that open the secrets of jobs
    Keys(KeysArgs),
}

const KEY_EXAMPLES: &str = "\
Examples:
  muster-worker keys new                       make one more key for this worker
  muster-worker keys new --file fleet.key      make a key to copy to several workers
  muster-worker --data-dir DIR keys ls         list the keys of the worker of DIR

A key belongs into DIR/secret-keys, in a file whose name ends in .key and that only
its owner can read. The worker reads its keys when it starts; its jobs survive a
restart. A worker without a key makes one at its first start.";

/// `muster-worker keys`.
#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = KEY_EXAMPLES)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) action: KeysAction,
}

/// What can be done with keys.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum KeysAction {
    /// Make a private key and print its id and the public key
    New {
        /// Where to write the private key [default: a file in the data directory]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List the keys of this worker: id, public key and file
    Ls,
}

/// The executors; only measurements want another than the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorArg {
    #[default]
    Process,
    Fake,
}

/// Reads `name=value`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} is not of the form name=value")),
    }
}

/// Reads `name=amount`.
pub(crate) fn counter(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("{text:?} is not of the form name=amount");
    let (name, amount) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), amount.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn both_forms_of_a_flag_work() {
        let args =
            Args::parse_from(["muster-worker", "--workers=2", "--worker-id", "w", "--tag=a", "--tag", "b,c"]);
        assert_eq!((args.workers, args.worker_id.as_deref()), (Some(2), Some("w")));
        assert_eq!(args.tags, ["a", "b", "c"]);
    }

    #[test]
    fn gpus_and_labels_are_read() {
        let args = Args::parse_from([
            "muster-worker",
            "--gpus",
            "2x80g",
            "--gpu",
            "0:100:GPU-a",
            "--label",
            "rack=a",
            "--label=zone=1",
        ]);
        assert!(matches!(args.gpus, Some(GpuOffer::Given(gpus)) if gpus.len() == 2));
        assert_eq!((args.gpu[0].index, args.gpu[0].uuid.as_deref()), (0, Some("GPU-a")));
        assert_eq!(args.labels[1], ("zone".to_owned(), "1".to_owned()));
        assert!(label("rack").is_err() && label("=a").is_err() && label("rack=").is_err());
    }

    #[test]
    fn counters_have_a_name_and_an_amount() {
        assert_eq!(counter("licence=3"), Ok(("licence".to_owned(), 3)));
        assert!(counter("licence").is_err() && counter("=3").is_err() && counter("a=b").is_err());
    }
}
