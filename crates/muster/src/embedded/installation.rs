//! The scheduler and the worker of `muster up`, and of `muster run` when nobody else answers.
//!
//! Guarantee: the worker stops before the scheduler, so that every job that ends or is handed back is
//! written down.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use muster_client::{Client, Fingerprint, ServiceTransport, Trust};
use muster_server::settings::StoreChoice;
use muster_server::{RunningServer, Server, ServerConfig, ServerError, TlsConfig};
use muster_store::engine::Policies;
use muster_worker_agent::{ExitSummary, GpuOffer, Shutdown, WorkerConfig, WorkerError};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::stores::StoreSettings;

/// A place beyond this machine that is kept for documentation. Nothing is sent there; only the way is looked up.
const ELSEWHERE: &str = "http://192.0.2.1";
/// A worker that takes longer is not waited for; its log says what keeps it.
const REGISTER_BOUND: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The jobs that run at once on a machine with fewer cores: enough to try a small gang on it.
const FEWEST_SLOTS: u32 = 4;

type WorkerTask = JoinHandle<Result<ExitSummary, WorkerError>>;

/// Everything that runs jobs, in this process.
#[derive(Debug)]
pub(crate) struct Embedded {
    server: RunningServer,
    url: String,
    worker: Option<WorkerTask>,
    shutdown: watch::Sender<Shutdown>,
    /// The data of a private installation, which goes with it.
    directory: Option<TempDir>,
}

/// What to start.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    pub(crate) server: ServerConfig,
    pub(crate) store: StoreSettings,
    pub(crate) listen: SocketAddr,
    pub(crate) worker: Option<WorkerConfig>,
}

impl Embedded {
    pub(crate) async fn start(installation: Installation) -> anyhow::Result<Self> {
        let store = installation.store.open().await?;
        let listen = installation.listen;
        let settings = installation.server.clone();
        let server = Server::start(installation.server, store, listen).await.map_err(explain)?;
        let url = url_of(server.addr().unwrap_or(listen), server.fingerprint().is_some());
        let host = host_of(server.addr().unwrap_or(listen)).await;
        let (shutdown, asked) = watch::channel(Shutdown::No);
        let worker = installation.worker.map(|mut config| {
            (config.job_url, config.job_trust) = for_jobs(&settings, &url, server.fingerprint());
            config.exec_addr.clone_from(&host);
            tokio::spawn(muster_worker_agent::run(config, in_process(&server, &url), asked))
        });
        Ok(Self { server, url, worker, shutdown, directory: None })
    }

    /// For one job: on a port that is free, keeping nothing, whatever the settings of others are.
    pub(crate) async fn start_private() -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("muster-").context("cannot make a temporary directory")?;
        let data_dir = directory.path().to_owned();
        let mut worker = worker_config(&data_dir);
        worker.offer_gpus(&GpuOffer::Found, 0);
        worker.timing.shutdown = Duration::ZERO;
        let store =
            StoreSettings { choice: StoreChoice::Memory, policies: Policies::default(), pool_size: 0 };
        let mut started = Self::start(Installation {
            server: ServerConfig { data_dir, ..ServerConfig::default() },
            store,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            worker: Some(worker),
        })
        .await?;
        started.directory = Some(directory);
        Ok(started)
    }

    /// The certificate that others are shown; `None` without TLS.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.server.fingerprint()
    }

    /// A client that needs no socket.
    pub(crate) fn client(&self) -> Client {
        in_process(&self.server, &self.url)
    }

    /// Asks the worker to finish, or to drop everything.
    pub(crate) fn ask(&self, shutdown: Shutdown) {
        self.shutdown.send_replace(shutdown);
    }

    /// The end of the worker, asked for or not; never, when there is none.
    pub(crate) async fn worker_end(&mut self) -> anyhow::Result<ExitSummary> {
        let Some(worker) = &mut self.worker else { return std::future::pending().await };
        let ended = worker.await;
        self.worker = None;
        Ok(ended.context("the worker broke down")??)
    }

    pub(crate) fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Stops the scheduler. Whether every open request was finished.
    pub(crate) async fn stop_server(self) -> bool {
        self.server.shutdown().await
    }

    /// Ends everything at once: the one job is over, or nobody waits for it.
    pub(crate) async fn stop_now(mut self) {
        self.ask(Shutdown::Force);
        if self.has_worker()
            && let Err(error) = self.worker_end().await
        {
            tracing::warn!(%error, "the worker did not end well");
        }
        let directory = self.directory.take();
        self.stop_server().await;
        drop(directory);
    }
}

/// Waits until a worker has been heard of since the start: ready means that jobs are run.
pub(crate) async fn registered(client: &Client, start: Timestamp) {
    let deadline = Instant::now() + REGISTER_BOUND;
    while Instant::now() < deadline {
        let workers = client.workers().await.unwrap_or_default();
        if workers.iter().any(|worker| worker.last_heartbeat >= start) {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The worker of an installation whose data is in this directory.
pub(crate) fn worker_config(data_dir: &Path) -> WorkerConfig {
    let mut config = WorkerConfig::new(data_dir.join("worker"));
    config.slots = config.slots.max(FEWEST_SLOTS);
    config
}

fn in_process(server: &RunningServer, url: &str) -> Client {
    Client::new(ServiceTransport::new(server.router(), url))
}

fn explain(error: ServerError) -> anyhow::Error {
    let in_use = matches!(&error, ServerError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse);
    let error = anyhow::Error::new(error);
    if in_use {
        error.context("is a scheduler running already? choose another port with --port")
    } else {
        error
    }
}

/// Loopback has a name that people know; an address that means all interfaces is no place to connect to.
fn url_of(address: SocketAddr, secure: bool) -> String {
    let (ip, scheme) = (address.ip(), if secure { "https" } else { "http" });
    if ip.is_loopback() || ip.is_unspecified() {
        format!("{scheme}://localhost:{}", address.port())
    } else {
        format!("{scheme}://{address}")
    }
}

/// Where jobs find the scheduler, and which certificate they trust. A certificate in files is renewed now and then, and a pin
/// would not outlive that: where the name of the scheduler is known, jobs check the name.
fn for_jobs(config: &ServerConfig, url: &str, fingerprint: Option<Fingerprint>) -> (Option<String>, Trust) {
    match (&config.tls, &config.advertise_url) {
        (TlsConfig::Files { .. }, Some(told)) => {
            (Some(told.clone()), Trust { ca_file: config.ca_file.clone(), fingerprint: None })
        }
        _ => (Some(url.to_owned()), Trust { ca_file: None, fingerprint }),
    }
}

/// Where the tasks of a gang find those of this worker: where the scheduler listens. One that listens everywhere
/// expects workers of other machines, which need the address by which this machine reaches others.
async fn host_of(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => {
            let found = muster_worker_agent::address_reaching(ELSEWHERE).await;
            found.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string())
        }
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_for_people() {
        let url = |text: &str| url_of(text.parse().unwrap(), false);
        assert_eq!(url("127.0.0.1:8080"), "http://localhost:8080");
        assert_eq!(url("0.0.0.0:80"), "http://localhost:80");
        assert_eq!(url("[::1]:80"), "http://localhost:80");
        assert_eq!(url("10.1.2.3:80"), "http://10.1.2.3:80");
        assert_eq!(url_of("127.0.0.1:8443".parse().unwrap(), true), "https://localhost:8443");
    }

    #[test]
    fn jobs_check_the_name_where_it_is_known_and_the_fingerprint_elsewhere() {
        let fingerprint = Some(Fingerprint::from_sha256([1; 32]));
        let pinned = Trust { ca_file: None, fingerprint };
        let files = TlsConfig::Files { certificate: "c".into(), key: "k".into() };
        let mut config = ServerConfig { tls: files, ca_file: Some("ca".into()), ..ServerConfig::default() };
        assert_eq!(for_jobs(&config, "https://localhost:1", fingerprint).1, pinned);
        config.advertise_url = Some("https://muster.example".to_owned());
        let named = Trust { ca_file: Some("ca".into()), fingerprint: None };
        let told = Some("https://muster.example".to_owned());
        assert_eq!(for_jobs(&config, "https://localhost:1", fingerprint), (told, named));
        config.tls = TlsConfig::SelfSigned;
        assert_eq!(for_jobs(&config, "https://localhost:1", fingerprint).1, pinned);
    }

    #[tokio::test]
    async fn tasks_of_gangs_meet_where_the_scheduler_listens() {
        let host = async |text: &str| host_of(text.parse().unwrap()).await;
        assert_eq!(host("127.0.0.1:8080").await, "127.0.0.1");
        assert_eq!(host("10.1.2.3:80").await, "10.1.2.3");
        assert_eq!(host("[fe80::1]:80").await, "[fe80::1]");
        assert!(
            !["", "0.0.0.0"].contains(&host("0.0.0.0:80").await.as_str()),
            "an address that can be reached"
        );
    }
}
