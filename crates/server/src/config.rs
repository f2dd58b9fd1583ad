//! Every number that an operator may change, with the defaults of the original system.
//!
//! Guarantee: nothing else in the crate holds a timeout or a limit that a request can meet.

use std::path::PathBuf;
use std::time::Duration;

use muster_blob::{Place, S3Credentials};
use muster_domain::ArtifactBounds;
use muster_domain::access::UserRole;
use muster_domain::limits::{LeaseTerms, Timeouts};
use muster_domain::{DeliveryPolicy, Span};
use muster_store::engine::{Policies, Policy};

use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::gate::Origin;
use crate::uploads::UploadConfig;
use crate::webhooks::Target;

const MIB: usize = 1024 * 1024;

/// Longer than a restart or an upgrade of schedulers and of their database usually takes.
pub(crate) const DISCONNECT_KEEP: Duration = Duration::from_secs(180);

/// Bounds on what a request may carry. Beyond them it is answered with 400 or 413 and the bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in the body of a single request.
    pub body: usize,
    /// Bytes in the body of `POST /jobs/batch`.
    pub batch_body: usize,
    /// Elements of `POST /jobs/batch`.
    pub batch_items: usize,
    /// Batches that are read and decoded at the same time; the others wait unread.
    pub batches_at_once: usize,
    /// Bytes of a command line, or of all arguments together.
    pub command: usize,
    /// Bytes of all names and values of a job's environment together.
    pub env: usize,
    /// Bytes of a name, a tag, a queue, a key or a worker's id.
    pub name: usize,
    /// Bytes of a working directory.
    pub path: usize,
    /// Tags of a job or of a worker.
    pub tags: usize,
    /// Named counters of a job or of a worker.
    pub counters: usize,
    /// Dependencies of one job.
    pub dependencies: usize,
    /// Reports and heartbeats, each, in one sync.
    pub sync_items: usize,
    /// Bytes of a checkpoint.
    pub checkpoint: usize,
    /// Bytes of a checkpoint up to which it is also handed over in the environment.
    pub checkpoint_env: usize,
    /// Bytes of one stream of one attempt that are kept, half from its beginning and half from its end.
    pub log_stream: u64,
    /// The most jobs in one page of a list, and in one claim.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 * MIB,
            batch_body: 64 * MIB,
            batch_items: 100_000,
            batches_at_once: 4,
            command: 128 * 1024,
            env: 256 * 1024,
            name: 256,
            path: 4096,
            tags: 64,
            counters: 64,
            dependencies: 10_000,
            sync_items: 10_000,
            checkpoint: 256 * MIB,
            checkpoint_env: 64 * 1024,
            log_stream: 64 * MIB as u64,
            page: 1_000,
        }
    }
}

/// How deliveries to webhooks behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    pub policy: DeliveryPolicy,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// Whether receivers on this machine and in private networks are allowed. `None` allows those on this machine to
    /// a scheduler that only this machine reaches.
    pub allow_private: Option<bool>,
    /// Receivers that are allowed wherever they are.
    pub allow: Vec<Target>,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            policy: DeliveryPolicy::default(),
            timeout: Duration::from_secs(10),
            allow_private: None,
            allow: Vec::new(),
        }
    }
}

/// Which users of its own machine a scheduler on loopback serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoopbackUsers {
    /// The one who started it, and root.
    #[default]
    Same,
    Any,
    /// Nobody by the connection alone: callers show who they are.
    None,
}

/// Which workers may do their work without a credential, as those of the original system do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LegacyWorkers {
    /// Those whose connection is trusted: of the user of the scheduler on loopback, or of everyone where the operator says so.
    #[default]
    Loopback,
    /// Every worker shows its key, also on loopback.
    None,
    /// Everyone who reaches the port.
    Any,
}

/// Who may reach a scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    pub loopback: LoopbackUsers,
    /// Everyone who reaches an address beyond loopback is trusted.
    pub insecure: bool,
    pub legacy_workers: LegacyWorkers,
    /// Names by which it is known, beside those of loopback and its address.
    pub hostnames: Vec<String>,
    /// Origins whose pages may use it.
    pub origins: Vec<Origin>,
}

/// Whether connections are encrypted, and with which certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TlsConfig {
    #[default]
    Off,
    /// In PEM; looked at again when they change.
    Files { certificate: PathBuf, key: PathBuf },
    /// One that the scheduler makes in its data directory.
    SelfSigned,
}

/// A group of a provider, and the role that it gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleOfGroup {
    pub group: String,
    pub role: UserRole,
}

/// The provider through which people may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcConfig {
    pub issuer: String,
    pub client_id: String,
    /// `None` for a public client.
    pub client_secret_file: Option<PathBuf>,
    /// Where browsers reach the schedulers; the advertised URL when absent.
    pub public_url: Option<String>,
    pub name_claim: String,
    pub groups_claim: String,
    pub roles: Vec<RoleOfGroup>,
    /// Of users in none of the groups; `None` refuses them.
    pub default_role: Option<UserRole>,
    /// With blanks between.
    pub scopes: String,
}

/// Where large results lie, and how much of them is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobConfig {
    /// `None` for the folder `blobs` of the data directory.
    pub place: Option<Place>,
    /// `None` for S3 of AWS.
    pub endpoint: Option<String>,
    /// The endpoint by which clients and workers reach the same bucket; `endpoint` when absent.
    pub public_endpoint: Option<String>,
    /// Whether workers send to S3 by themselves, where it checks what comes.
    pub direct: bool,
    pub region: String,
    /// Whether buckets are named in the path of URLs; `None` where an endpoint is named.
    pub path_style: Option<bool>,
    pub credentials: Option<S3Credentials>,
    /// Read instead of `credentials`.
    pub credentials_file: Option<PathBuf>,
    /// Bytes of one artifact; `None` sets no bound.
    pub artifact_limit: Option<u64>,
    pub bounds: ArtifactBounds,
    /// How long artifacts are kept while their jobs are; `None` as long as those.
    pub retention: Option<Duration>,
    /// How old an object must be that nothing names before it is removed.
    pub sweep_after: Duration,
    /// Whether objects that nothing names are looked for at all.
    pub sweeps: bool,
}

impl BlobConfig {
    /// Whether all schedulers find the same in it: it was named, and is not a part of the data directory.
    pub(crate) fn is_shared(&self) -> bool {
        self.place.is_some()
    }
}

impl Default for BlobConfig {
    fn default() -> Self {
        Self {
            place: None,
            endpoint: None,
            public_endpoint: None,
            direct: true,
            region: "us-east-1".to_owned(),
            path_style: None,
            credentials: None,
            credentials_file: None,
            artifact_limit: None,
            bounds: ArtifactBounds { files: Some(10_000), ..ArtifactBounds::default() },
            retention: None,
            sweep_after: Duration::from_secs(86_400),
            sweeps: true,
        }
    }
}

/// How a scheduler behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where the output of jobs is kept. Schedulers that share a store may share it; otherwise they read from each other.
    pub data_dir: PathBuf,
    /// Where other schedulers on the same store reach this one; where it listens when absent.
    pub advertise_url: Option<String>,
    /// How long silence is borne before something is taken for lost.
    pub timeouts: Timeouts,
    /// How long a worker that reaches no scheduler keeps a job that says nothing about it.
    pub disconnect_keep: Duration,
    /// The longest pause between two passes of the reaper.
    pub reaper_interval: Duration,
    /// The pause between two passes of the planner's safety net.
    pub planner_interval: Duration,
    /// How often parked requests are tried again although nothing woke them.
    pub safety_tick: Duration,
    /// Bounds on uploads, and how long they are kept.
    pub uploads: UploadConfig,
    /// How long finished jobs are kept; `None` keeps them for ever.
    pub retention: Option<Duration>,
    /// Where finished jobs are written before they are removed; `None` removes them without a trace.
    pub archive_dir: Option<PathBuf>,
    /// How long the output of finished jobs is kept while the jobs are; `None` keeps it as long as them.
    pub log_retention: Option<Duration>,
    /// Bytes of output of all jobs together beyond which the oldest goes; `None` sets no bound.
    pub log_total: Option<u64>,
    /// How long a reader of live output may leave it unread before it is let go.
    pub log_reader_timeout: Duration,
    /// After how long without a byte a terminal in a running job is closed; zero never.
    pub terminal_idle: Duration,
    /// How long a reader of events may leave them unread before it is let go.
    pub event_reader_timeout: Duration,
    /// How long lines of the audit log are kept; `None` keeps them for ever.
    pub audit_retention: Option<Duration>,
    /// The pause between two passes of the retention.
    pub retention_interval: Duration,
    /// How long the store may take to answer before the scheduler calls itself not ready.
    pub readiness_timeout: Duration,
    /// The longest a claim may wait, whatever it asks for.
    pub long_poll_max: Duration,
    /// Time between the polite signal and the kill when a job does not say.
    pub grace: Duration,
    /// Requests for a change that may wait for the store before new ones are turned away.
    pub queue_capacity: usize,
    /// Jobs that may wait in all; a submit beyond it is turned away. `None` sets no bound.
    pub max_queued: Option<u64>,
    /// Whether jobs enter only queues that an operator made.
    pub closed_queues: bool,
    pub bounds: Bounds,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread.
    pub write_timeout: Duration,
    /// How long open requests may take to finish at shutdown.
    pub drain_timeout: Duration,
    pub webhooks: WebhookConfig,
    pub blobs: BlobConfig,
    pub access: Access,
    pub tls: TlsConfig,
    /// Authorities beside those of the machine that vouch for other schedulers and for receivers of webhooks.
    pub ca_file: Option<PathBuf>,
    /// `None` where there are only accounts of the scheduler's own.
    pub oidc: Option<OidcConfig>,
    /// The policies that the store was given, to tell people about.
    pub policies: Policies,
    pub limits: Limits,
    /// What tells it the time: the machine's clock, but in simulations.
    pub clock: Clock,
}

impl ServerConfig {
    /// For workers that stop a job by themselves before its lease ends.
    pub(crate) fn lease_terms(&self) -> LeaseTerms {
        LeaseTerms { shortest: self.timeouts.job_heartbeat, keep: Span::from(self.disconnect_keep) }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            advertise_url: None,
            timeouts: Timeouts::default(),
            disconnect_keep: DISCONNECT_KEEP,
            reaper_interval: Duration::from_secs(10),
            planner_interval: Duration::from_secs(5),
            safety_tick: Duration::from_secs(5),
            uploads: UploadConfig::default(),
            retention: None,
            archive_dir: None,
            log_retention: None,
            audit_retention: Some(Duration::from_secs(365 * 86_400)),
            log_total: None,
            log_reader_timeout: Duration::from_secs(30),
            terminal_idle: Duration::from_secs(8 * 3600),
            event_reader_timeout: Duration::from_secs(30),
            retention_interval: Duration::from_secs(3600),
            readiness_timeout: Duration::from_secs(1),
            long_poll_max: Duration::from_secs(60),
            grace: Duration::from_secs(15),
            queue_capacity: 16_384,
            max_queued: Some(10_000_000),
            closed_queues: false,
            bounds: Bounds::default(),
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            webhooks: WebhookConfig::default(),
            blobs: BlobConfig::default(),
            access: Access::default(),
            tls: TlsConfig::default(),
            ca_file: None,
            oidc: None,
            policies: Policy::default().into(),
            limits: Limits::default(),
            clock: Clock::of_this_machine(),
        }
    }
}
