//! `up`: a whole installation in one process.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use muster_worker_agent::GpuOffer;

use super::amounts;
use crate::environment;

const EXAMPLES: &str = "\
Examples:
  muster up                              SQLite in ./data, a slot for each core
  muster up --port 9000 --data-dir /var/lib/muster
  muster up --db-driver postgres --db-url postgres://muster@db/muster
  muster up --tls-self-signed            HTTPS; clients pin the fingerprint

Ctrl-C ends it: no new jobs are started, running ones may finish within the
drain timeout and are then handed back to the queue. A second Ctrl-C ends it
at once.

All other settings of muster-scheduler are taken from their variables and from
the section [scheduler] of muster.toml.";

/// `muster up`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// The directory that holds everything that is kept [default: data]
    #[arg(long, value_name = "DIR", env = environment::DATA_DIR, hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The port to listen on; 0 takes any that is free [default: 8080]
    #[arg(long, short, value_name = "PORT", env = environment::PORT, hide_env_values = true)]
    pub(crate) port: Option<u16>,
    /// The address to listen on, with or without a port [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", env = environment::LISTEN, hide_env_values = true)]
    pub(crate) listen: Option<String>,
    /// A name by which clients reach the scheduler, such as muster.example; may be repeated
    #[arg(long, value_name = "NAME", env = environment::HOSTNAME, hide_env_values = true, value_delimiter = ',')]
    pub(crate) hostname: Vec<String>,
    #[arg(long, help = "An origin whose web pages may use the scheduler, such as https://board.example; may be repeated", value_name = "ORIGIN", env = environment::ALLOW_ORIGIN, hide_env_values = true, value_delimiter = ',')]
    pub(crate) allow_origin: Vec<String>,
    /// Which users of this machine are served on loopback: same for the one who started it and root, any for all,
    /// none where a proxy stands in front; others need an account
    /// [default: same]
    #[arg(long, value_name = "USERS", env = environment::LOOPBACK, hide_env_values = true)]
    pub(crate) loopback: Option<String>,
    /// Listen beyond loopback and trust everyone who reaches the port: they can run commands without an account
    #[arg(long, env = environment::INSECURE, hide_env_values = true)]
    pub(crate) insecure: bool,
    /// The certificate to serve HTTPS with, in PEM; needs --tls-key
    #[arg(long, value_name = "FILE", env = environment::TLS_CERT, hide_env_values = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = environment::TLS_KEY, hide_env_values = true)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve HTTPS with a certificate that is made once and kept in the data directory; clients pin its fingerprint
    #[arg(long, env = environment::TLS_SELF_SIGNED, hide_env_values = true)]
    pub(crate) tls_self_signed: bool,
    /// Where jobs are kept: sqlite, postgres or memory [default: as --db-url begins, else sqlite]
    #[arg(long, value_name = "DRIVER", env = environment::DB_DRIVER, hide_env_values = true)]
    pub(crate) db_driver: Option<String>,
    /// The file (sqlite) or URL (postgres) of the database [default: muster.db in the data directory]
    #[arg(long, value_name = "URL", env = environment::DB_URL, hide_env_values = true)]
    pub(crate) db_url: Option<String>,
    #[arg(long, help = "Who goes first and who may pass: muster, or, to compare with, fifo, greedy, largest-gang, sjf, sjf-easy, easy or easy-sjbf [default: muster]", value_name = "NAME", env = environment::POLICY, hide_env_values = true)]
    pub(crate) policy: Option<String>,
    /// How long running jobs may take to finish after Ctrl-C [default: 10s]
    #[arg(long, value_name = "TIME", env = environment::DRAIN_TIMEOUT, hide_env_values = true, value_parser = amounts::duration)]
    pub(crate) drain_timeout: Option<Duration>,
    #[arg(long, help = "What to log, such as info or muster_server=debug,warn [default: warn]", value_name = "FILTER", env = environment::LOG, hide_env_values = true)]
    pub(crate) log: Option<String>,
    #[command(flatten)]
    pub(crate) worker: UpWorkerArgs,
    /// Leave the terminal
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}

/// The worker of `muster up`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "The worker")]
pub(crate) struct UpWorkerArgs {
    /// How many jobs run at the same time [default: one for each core, but at least 4]
    #[arg(long, value_name = "N", env = environment::WORKERS, hide_env_values = true)]
    pub(crate) workers: Option<u32>,
    /// Start no worker: others will connect
    #[arg(long)]
    pub(crate) no_worker: bool,
    /// CPU cores on offer [default: what the machine has]
    #[arg(long, value_name = "N", env = environment::CPUS, hide_env_values = true, value_parser = amounts::cpus)]
    pub(crate) cpus: Option<f64>,
    /// Memory on offer, such as 64G [default: what the machine has]
    #[arg(long, value_name = "SIZE", env = environment::MEMORY, hide_env_values = true, value_parser = amounts::memory_mb)]
    pub(crate) memory: Option<u64>,
    #[arg(long, help = "GPUs on offer: 4x80g for four with 80 GiB each, 4 to count them only, none, or auto to ask the driver [default: auto]", value_name = "GPUS", env = environment::GPUS, hide_env_values = true)]
    pub(crate) gpus: Option<GpuOffer>,
    /// Where the worker is, such as rack=a or zone=1; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", env = environment::LABELS, hide_env_values = true, value_delimiter = ',', value_parser = amounts::label)]
    pub(crate) label: Vec<(String, String)>,
    /// GPU memory on offer in all, such as 24G, where GPUs are only counted [default: 0]
    #[arg(long, value_name = "SIZE", env = environment::VRAM, hide_env_values = true, value_parser = amounts::memory_mb)]
    pub(crate) vram: Option<u64>,
    /// An amount of a named counter on offer; may be repeated
    #[arg(long = "counter", value_name = "NAME=N", env = environment::COUNTERS, hide_env_values = true, value_delimiter = ',', value_parser = amounts::counter)]
    pub(crate) counter: Vec<(String, u64)>,
    /// A tag that jobs can ask for; may be repeated
    #[arg(long = "tag", value_name = "TAG", env = environment::TAGS, hide_env_values = true, value_delimiter = ',')]
    pub(crate) tag: Vec<String>,
}
