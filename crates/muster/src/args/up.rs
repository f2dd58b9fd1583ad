//! `up`: a whole installation in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::amounts;
use crate::environment;

const EXAMPLES: &str = "\
Examples:
  muster up                              SQLite in ./data, a slot for each core
  muster up --port 9000 --data-dir /var/lib/muster
  muster up --db-driver postgres --db-url postgres://muster@db/muster

Ctrl-C ends it: no new jobs are started, running ones may finish within the
drain timeout and are then handed back to the queue. A second Ctrl-C ends it
at once.";

/// `muster up`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// The directory that holds everything that is kept [default: data]
    #[arg(long, value_name = "DIR", env = environment::DATA_DIR, hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The port to listen on, instead of that of the address; 0 takes any that is free [default: 8080]
    #[arg(long, short, value_name = "PORT", env = environment::PORT, hide_env_values = true)]
    pub(crate) port: Option<u16>,
    /// The address to listen on, with its port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = environment::LISTEN, hide_env_values = true)]
    pub(crate) listen: Option<SocketAddr>,
    /// How many jobs run at the same time [default: one for each core]
    #[arg(long, value_name = "N", env = environment::WORKERS, hide_env_values = true, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) workers: Option<u32>,
    /// Start no worker: others will connect
    #[arg(long)]
    pub(crate) no_worker: bool,
    /// Where jobs are kept: sqlite, postgres or memory [default: sqlite]
    #[arg(long, value_name = "DRIVER", env = environment::DB_DRIVER, hide_env_values = true)]
    pub(crate) db_driver: Option<String>,
    /// The file (sqlite) or URL (postgres) of the database [default: muster.db in the data directory]
    #[arg(long, value_name = "URL", env = environment::DB_URL, hide_env_values = true)]
    pub(crate) db_url: Option<String>,
    /// How long running jobs may take to finish after Ctrl-C [default: 10s]
    #[arg(long, value_name = "TIME", env = environment::DRAIN_TIMEOUT, hide_env_values = true, value_parser = amounts::duration)]
    pub(crate) drain_timeout: Option<Duration>,
    #[arg(long, help = "What to log, such as info or muster_server=debug,warn [default: warn]", value_name = "FILTER", env = environment::LOG, hide_env_values = true)]
    pub(crate) log: Option<String>,
    /// Leave the terminal
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}
