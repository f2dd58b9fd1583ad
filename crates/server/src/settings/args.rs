//! Every flag of a scheduler, with its variable and its default.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use muster_domain::Span;
use muster_domain::limits::Timeouts;
use muster_logging::LogFormat;
use muster_planner::Scoring;
use muster_store::engine::{Policies, Policy};

use super::access::AccessArgs;
use super::blobs::BlobArgs;
use super::bounds::BoundArgs;
use super::oidc::OidcArgs;
use super::policy::PolicyArgs;
use super::pools::PoolSettings;
use super::tls::TlsArgs;
use super::uploads::UploadArgs;
use super::values::{
    Driver, ListenAddress, Mode, QueueNames, Retention, SizeLimit, any_duration, positive, scoring,
};
use super::webhooks::WebhookArgs;
use crate::config::{DISCONNECT_KEEP, Limits, ServerConfig};
use crate::error::ServerError;

/// The settings of a scheduler.
#[derive(Debug, Clone, Args)]
pub struct SchedulerArgs {
    /// A file with the settings below, under `[scheduler]` [default: muster.toml when it is there]
    #[arg(long, value_name = "FILE", env = "MUSTER_CONFIG")]
    pub config: Option<PathBuf>,
    /// What to run; a scheduler with its own workers is started by `muster up`
    #[arg(long, env = "MUSTER_MODE", default_value = "scheduler")]
    pub mode: Mode,
    /// The port to listen on
    #[arg(long, env = "MUSTER_PORT", default_value = "8080")]
    pub port: u16,
    /// The address to listen on, with or without a port. Other machines reach a scheduler only when it
    /// listens on more than loopback, which needs --insecure
    #[arg(long, value_name = "ADDRESS", env = "MUSTER_LISTEN", default_value = "127.0.0.1")]
    pub listen: ListenAddress,
    /// Where jobs are kept: sqlite, postgres or memory [default: as --db-url begins, else sqlite]
    #[arg(long, value_name = "DRIVER", env = "MUSTER_DB_DRIVER")]
    pub db_driver: Option<Driver>,
    /// The file (sqlite) or URL (postgres) of the database [default: muster.db in the data directory]
    #[arg(long, value_name = "URL", env = "MUSTER_DB_URL", hide_env_values = true)]
    pub db_url: Option<String>,
    /// The URL of the database when the driver is postgres and no --db-url is given
    #[arg(long, value_name = "URL", env = "MUSTER_PG_URL", hide_env_values = true, hide = true)]
    pub pg_url: Option<String>,
    /// Connections to PostgreSQL
    #[arg(long, value_name = "N", env = "MUSTER_PG_POOL_SIZE", default_value = "10",
          value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub pg_pool_size: u16,
    /// The directory for the database and for the output of jobs
    #[arg(long, value_name = "DIR", env = "MUSTER_DATA_DIR", default_value = "data")]
    pub data_dir: PathBuf,
    /// URL under which other schedulers on the same database reach this one, to read output that it keeps
    /// [default: the address that it listens on]
    #[arg(long, value_name = "URL", env = "MUSTER_ADVERTISE_URL")]
    pub advertise_url: Option<String>,
    /// How the best of several fitting workers is chosen: best-fit or spread
    #[arg(long, env = "MUSTER_SCORING", default_value = "best-fit", value_parser = scoring)]
    pub scoring: Scoring,
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// What `[[pools]]` of the file says
    #[arg(long, value_name = "TOML", hide = true, default_value = "")]
    pub pools: PoolSettings,
    /// Silence of a running job after which it is taken from its worker, unless its lease is longer (--disconnect-keep)
    #[arg(long, value_name = "TIME", env = "MUSTER_JOB_HEARTBEAT_TIMEOUT", default_value = "30s", value_parser = positive)]
    pub job_heartbeat_timeout: Duration,
    /// How long a worker that reaches no scheduler keeps running jobs, and so how long lost ones wait before they start
    /// elsewhere; a job can say otherwise with --on-disconnect
    /// [default: 3m, or the job heartbeat timeout where that is not 30s]
    #[arg(long, value_name = "TIME", env = "MUSTER_DISCONNECT_KEEP", value_parser = positive)]
    pub disconnect_keep: Option<Duration>,
    /// Silence of a worker after which it is shown as offline
    #[arg(long, value_name = "TIME", env = "MUSTER_WORKER_STALE_TIMEOUT", default_value = "60s", value_parser = positive)]
    pub worker_stale_timeout: Duration,
    /// Time after which an unanswered stop order counts as obeyed
    #[arg(long, value_name = "TIME", env = "MUSTER_PREEMPT_TIMEOUT", default_value = "45s", value_parser = positive)]
    pub preempt_timeout: Duration,
    /// How long a worker has to claim a task of a gang that was placed on it
    #[arg(long, value_name = "TIME", env = "MUSTER_RESERVATION_TIMEOUT", default_value = "30s", value_parser = positive)]
    pub reservation_timeout: Duration,
    /// Time between the polite signal and the kill when a job does not say
    #[arg(long, value_name = "TIME", env = "MUSTER_PREEMPT_GRACE", default_value = "15s", value_parser = any_duration)]
    pub preempt_grace: Duration,
    /// The longest pause between two passes over what may be overdue
    #[arg(long, value_name = "TIME", env = "MUSTER_REAPER_INTERVAL", default_value = "10s", value_parser = positive)]
    pub reaper_interval: Duration,
    /// The pause between two passes of the planner's safety net
    #[arg(long, value_name = "TIME", env = "MUSTER_ADMISSION_INTERVAL", default_value = "5s", value_parser = positive)]
    pub admission_interval: Duration,
    /// How often waiting claims are tried again although nothing woke them
    #[arg(long, value_name = "TIME", env = "MUSTER_SAFETY_TICK", default_value = "5s", value_parser = positive)]
    pub safety_tick: Duration,
    /// The longest a claim may wait
    #[arg(long, value_name = "TIME", env = "MUSTER_LONG_POLL_MAX", default_value = "60s", value_parser = positive)]
    pub long_poll_max: Duration,
    /// How long finished jobs and their output are kept, or off
    #[arg(long, value_name = "TIME", env = "MUSTER_RETENTION", default_value = "off")]
    pub retention: Retention,
    /// How long the audit log is kept, or off to keep all of it
    #[arg(long, value_name = "TIME", env = "MUSTER_AUDIT_RETENTION", default_value = "365d")]
    pub audit_retention: Retention,
    /// Where finished jobs are written before they are removed: one line of JSON each, in a file for each day
    #[arg(long, value_name = "DIR", env = "MUSTER_ARCHIVE_DIR")]
    pub archive_dir: Option<PathBuf>,
    /// The pause between two passes that remove what is older
    #[arg(long, value_name = "TIME", env = "MUSTER_RETENTION_INTERVAL", default_value = "1h", value_parser = positive)]
    pub retention_interval: Duration,
    /// Jobs that may wait in all before submits are turned away with 429; 0 sets no bound
    #[arg(long, value_name = "N", env = "MUSTER_MAX_QUEUED", default_value_t = 10_000_000)]
    pub max_queued: u64,
    /// Which queues jobs may enter: open for any, closed for those that an operator made (`muster queue set`). Schedulers
    /// on one store must have the same setting
    #[arg(long, value_name = "SET", env = "MUSTER_QUEUES", default_value = "open")]
    pub queues: QueueNames,
    /// How long open requests may take to finish at the end
    #[arg(long, value_name = "TIME", env = "MUSTER_DRAIN_TIMEOUT", default_value = "10s", value_parser = any_duration)]
    pub drain_timeout: Duration,
    /// How long a client may take to send the head of a request, to shake hands, and to leave a connection idle
    #[arg(long, value_name = "TIME", env = "MUSTER_HEADER_TIMEOUT", default_value = "30s", value_parser = positive)]
    pub header_timeout: Duration,
    /// How long a client may take to send a body
    #[arg(long, value_name = "TIME", env = "MUSTER_BODY_TIMEOUT", default_value = "60s", value_parser = positive)]
    pub body_timeout: Duration,
    /// How long a client may take to read the next 64 KiB of an answer, or all that there is
    #[arg(long, value_name = "TIME", env = "MUSTER_WRITE_TIMEOUT", default_value = "60s", value_parser = positive)]
    pub write_timeout: Duration,
    /// Bytes in the body of a single request
    #[arg(long, value_name = "BYTES", env = "MUSTER_BODY_LIMIT", default_value_t = Limits::default().body)]
    pub body_limit: usize,
    /// Bytes in the body of a batch
    #[arg(long, value_name = "BYTES", env = "MUSTER_BATCH_BODY_LIMIT", default_value_t = Limits::default().batch_body)]
    pub batch_body_limit: usize,
    /// Jobs in a batch
    #[arg(long, value_name = "N", env = "MUSTER_BATCH_LIMIT", default_value_t = Limits::default().batch_items)]
    pub batch_limit: usize,
    /// Bytes of a checkpoint
    #[arg(long, value_name = "BYTES", env = "MUSTER_CHECKPOINT_LIMIT", default_value_t = Limits::default().checkpoint)]
    pub checkpoint_limit: usize,
    /// Bytes that are kept of one stream of one attempt: half of them from its beginning, half from its end
    #[arg(long, value_name = "BYTES", env = "MUSTER_LOG_LIMIT", default_value_t = Limits::default().log_stream)]
    pub log_limit: u64,
    /// How long the output of finished jobs is kept while the jobs are, or off
    #[arg(long, value_name = "TIME", env = "MUSTER_LOG_RETENTION", default_value = "off")]
    pub log_retention: Retention,
    /// How much output of all jobs together is kept, such as 50G, or off; the oldest of finished jobs goes first
    #[arg(long, value_name = "SIZE", env = "MUSTER_LOG_TOTAL_LIMIT", default_value = "off")]
    pub log_total_limit: SizeLimit,
    /// How long a reader of live output may leave it unread before it is let go; it can go on where it was
    #[arg(long, value_name = "TIME", env = "MUSTER_LOG_READER_TIMEOUT", default_value = "30s", value_parser = positive)]
    pub log_reader_timeout: Duration,
    /// After how long without input or output a terminal in a running job is closed; 0s never closes it
    #[arg(long, value_name = "TIME", env = "MUSTER_TERMINAL_IDLE", default_value = "8h", value_parser = any_duration)]
    pub terminal_idle: Duration,
    /// How long a reader of the events may leave them unread before it is let go; it can go on where it was
    #[arg(long, value_name = "TIME", env = "MUSTER_EVENT_READER_TIMEOUT", default_value = "30s", value_parser = positive)]
    pub event_reader_timeout: Duration,
    #[command(flatten)]
    pub blobs: BlobArgs,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub oidc: OidcArgs,
    #[command(flatten)]
    pub webhooks: WebhookArgs,
    #[command(flatten)]
    pub uploads: UploadArgs,
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// How logs are written: json, human, or auto for human on a terminal
    #[arg(long, env = "MUSTER_LOG_FORMAT", default_value = "auto")]
    pub log_format: LogFormat,
    #[arg(
        long,
        help = "What to log, such as info or muster_server=debug,warn",
        value_name = "FILTER",
        env = "MUSTER_LOG",
        default_value = "info"
    )]
    pub log: String,
}

impl SchedulerArgs {
    /// Where to listen.
    pub fn socket(&self) -> SocketAddr {
        self.listen.socket(self.port)
    }

    /// Refuses settings that contradict each other.
    pub fn check(&self) -> Result<(), ServerError> {
        self.tls.check()?;
        self.oidc.check()
    }

    /// What the store is told about the order of work and about making room.
    pub fn policies(&self) -> Policies {
        self.pools.over(Policy { scoring: self.scoring, ..self.policy.policy() })
    }

    /// Whoever wants silence to be noticed sooner or later than usual, and says no more, means all workers.
    fn disconnect_keep(&self) -> Duration {
        let usual = Span::from(self.job_heartbeat_timeout) == Timeouts::default().job_heartbeat;
        let unsaid = if usual { DISCONNECT_KEEP } else { self.job_heartbeat_timeout };
        self.disconnect_keep.unwrap_or(unsaid)
    }

    /// How the server behaves.
    pub fn server_config(&self) -> ServerConfig {
        let timeouts = Timeouts {
            job_heartbeat: Span::from(self.job_heartbeat_timeout),
            worker_stale: Span::from(self.worker_stale_timeout),
            preempt: Span::from(self.preempt_timeout),
            reservation: Span::from(self.reservation_timeout),
        };
        let limits = Limits {
            body: self.body_limit,
            batch_body: self.batch_body_limit,
            batch_items: self.batch_limit,
            checkpoint: self.checkpoint_limit,
            log_stream: self.log_limit,
            ..Limits::default()
        };
        ServerConfig {
            data_dir: self.data_dir.clone(),
            timeouts,
            advertise_url: self.advertise_url.clone(),
            disconnect_keep: self.disconnect_keep(),
            reaper_interval: self.reaper_interval,
            planner_interval: self.admission_interval,
            safety_tick: self.safety_tick,
            retention: self.retention.0,
            archive_dir: self.archive_dir.clone().filter(|directory| !directory.as_os_str().is_empty()),
            log_retention: self.log_retention.0,
            audit_retention: self.audit_retention.0,
            log_total: self.log_total_limit.0,
            log_reader_timeout: self.log_reader_timeout,
            terminal_idle: self.terminal_idle,
            event_reader_timeout: self.event_reader_timeout,
            retention_interval: self.retention_interval,
            max_queued: (self.max_queued > 0).then_some(self.max_queued),
            closed_queues: self.queues == QueueNames::Closed,
            long_poll_max: self.long_poll_max,
            grace: self.preempt_grace,
            header_timeout: self.header_timeout,
            body_timeout: self.body_timeout,
            write_timeout: self.write_timeout,
            drain_timeout: self.drain_timeout,
            webhooks: self.webhooks.config(),
            blobs: self.blobs.config(),
            uploads: self.uploads.config(),
            bounds: self.bounds.config(),
            access: self.access.config(),
            tls: self.tls.config(),
            ca_file: self.tls.authorities(),
            oidc: self.oidc.config(),
            policies: self.policies(),
            limits,
            ..ServerConfig::default()
        }
    }
}
