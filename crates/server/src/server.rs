//! A scheduler from start to shutdown.
//!
//! Guarantees: when [`Server::start`] returns, the scheduler answers; [`RunningServer::shutdown`] takes
//! no longer than the drain timeout plus a moment, and stops in this order: no new connections, parked
//! requests answered, open requests finished, loops stopped, leadership given up, store closed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use muster_store::{Store, StoreExt as _};
use muster_tls::{Fingerprint, Trust, roots_of};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::admission::Admission;
use crate::app::{App, Shared};
use crate::archive::Archive;
use crate::batcher::{Batcher, CommitterParts};
use crate::blobs::Blobs;
use crate::clock::Clock;
use crate::config::{Access, ServerConfig, TlsConfig};
use crate::dispatcher::Dispatcher;
use crate::error::ServerError;
use crate::file_limit;
use crate::gate::Gate;
use crate::guarded::GuardedStore;
use crate::health::StoreHealth;
use crate::journal::Journal;
use crate::leadership::Leadership;
use crate::listener::{self, Connections};
use crate::logs::LogStore;
use crate::metrics::Metrics;
use crate::oidc::Provider;
use crate::peers::Peers;
use crate::terminals::Terminals;
use crate::tls::Tls;
use crate::wake::{self, WakeHub};
use crate::webhooks::{Reach, Sender};
use crate::{artifacts, ids, loops, routes};

/// How long the start waits for the store's clock.
const TIME_BOUND: Duration = Duration::from_secs(2);
/// What the loops and the store get to finish after the requests have.
const CLOSING_BOUND: Duration = Duration::from_secs(5);

/// Where a scheduler listens.
#[derive(Debug)]
pub enum Listen {
    Address(SocketAddr),
    /// A socket that is bound already.
    Socket(TcpListener),
    /// Nowhere: it is reached through [`RunningServer::router`] only.
    InProcess,
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<TcpListener> for Listen {
    fn from(listener: TcpListener) -> Self {
        Self::Socket(listener)
    }
}

/// Starts schedulers.
#[derive(Debug)]
pub struct Server;

/// A scheduler that serves. Dropping it tells its tasks to end without waiting for them; see
/// [`shutdown`](Self::shutdown) for an orderly end.
#[derive(Debug)]
pub struct RunningServer {
    addr: Option<SocketAddr>,
    app: Shared,
    router: Router,
    stages: Stages,
    connections: Option<Connections>,
    background: Vec<JoinHandle<()>>,
    committer: JoinHandle<()>,
}

/// The signals of the shutdown, one after the other.
#[derive(Debug)]
struct Stages {
    closing: watch::Sender<bool>,
    loops: watch::Sender<bool>,
    committer: watch::Sender<bool>,
}

impl Stages {
    fn new() -> Self {
        let unsaid = || watch::Sender::new(false);
        Self { closing: unsaid(), loops: unsaid(), committer: unsaid() }
    }
}

/// Resolves when the signal is given or its owner is gone.
async fn given(mut signal: watch::Receiver<bool>) {
    let _ = signal.wait_for(|given| *given).await;
}

impl Server {
    /// Starts a scheduler on `store`. Must be called within a tokio runtime.
    pub async fn start(
        mut config: ServerConfig,
        store: Arc<dyn Store>,
        listen: impl Into<Listen>,
    ) -> Result<RunningServer, ServerError> {
        file_limit::fit(&mut config);
        let listener = bind(listen.into(), &config, store.as_ref()).await?;
        let addr = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let data_dir = |source| ServerError::DataDir { path: config.data_dir.clone(), source };
        let (logs, tls) = (open_logs(&config).map_err(data_dir)?, Tls::open(&config, addr)?);
        // Boxed: what S3 is asked would make every caller of this large.
        let blobs = Box::pin(Blobs::open(&config)).await?;
        let (url, trust) = (advertised(&config, addr), trust(&config)?);
        let peers = Peers::open(&config.data_dir, url, &trust).map_err(data_dir)?;
        let (metrics, hub) = (Arc::new(Metrics::new()?), Arc::new(WakeHub::new()));
        let health = Arc::new(StoreHealth::new(config.clock.clone()));
        let store = GuardedStore::wrap(store, &health);
        ask_the_time(store.as_ref(), &config.clock, &health).await;
        let parts = CommitterParts {
            clock: config.clock.clone(),
            store: Arc::clone(&store),
            metrics: Arc::clone(&metrics),
            hub: Arc::clone(&hub),
            health: Arc::clone(&health),
            ended: Arc::clone(&logs) as Arc<dyn crate::batcher::EndListener>,
        };
        let (batcher, committer) = Batcher::new(config.queue_capacity, parts);
        let (shared, tick) =
            ((Arc::clone(&store), Arc::clone(&hub), Arc::clone(&metrics)), config.safety_tick);
        let dispatcher = Dispatcher::new(shared.0, batcher.clone(), shared.1, shared.2, tick);
        let (dispatcher, stages) = (dispatcher.at_most(config.bounds.long_polls), Stages::new());
        let app = Arc::new(App {
            gate: Gate::new(&known_as(&config), addr, tls.is_some()),
            admission: Admission::new(config.max_queued, config.closed_queues),
            batches: Semaphore::new(config.limits.batches_at_once.max(1)),
            uploads: Arc::new(Semaphore::new(artifacts::uploads_at_once(&blobs))),
            blobs,
            webhooks: Sender::new(&config, Reach::new(&config.webhooks, addr)),
            terminals: Terminals::new(config.bounds.terminals),
            event_readers: Arc::new(Semaphore::new(config.bounds.event_readers)),
            bodies: Arc::new(Semaphore::new(config.bounds.body_memory.min(Semaphore::MAX_PERMITS))),
            tokens: crate::tokens::Tokens::default(),
            upload_places: crate::uploads::Places::default(),
            credentials: crate::identity::Credentials::default(),
            guesses: crate::passwords::Guesses::default(),
            archive: open_archive(&config)?,
            oidc: open_provider(&config, addr, &trust)?,
            tls,
            peers,
            config,
            store,
            batcher,
            dispatcher: Arc::new(dispatcher),
            hub,
            health,
            metrics,
            leadership: Leadership::default(),
            journal: Journal::new(),
            logs,
            instance_id: ids::instance(),
            started: Instant::now(),
            closing: stages.closing.subscribe(),
        });
        let router = routes::router(Arc::clone(&app));
        let committer = tokio::spawn(committer.run(given(stages.committer.subscribe())));
        let background = spawn_background(&app, &stages);
        let closing = || stages.closing.subscribe();
        let connections = listener.map(|it| listener::serve(it, router.clone(), &app, closing()));
        Ok(RunningServer { addr, app, router, stages, connections, background, committer })
    }
}

/// Once, for a bounded time; it is asked again later.
async fn ask_the_time(store: &dyn Store, clock: &Clock, health: &StoreHealth) {
    let asked = loops::store_time::ask(store, clock, health);
    if tokio::time::timeout(TIME_BOUND, asked).await.is_err() {
        tracing::warn!("the store did not tell the time yet; the machine's clock serves until it does");
    }
}

/// The names by which the scheduler is known; the one that it tells the others is among them.
fn known_as(config: &ServerConfig) -> Access {
    let public = config.oidc.as_ref().and_then(|oidc| oidc.public_url.as_ref());
    let told = config.advertise_url.iter().chain(public).filter_map(|url| url.parse::<http::Uri>().ok());
    let mut access = config.access.clone();
    access.hostnames.extend(told.filter_map(|url| url.host().map(str::to_owned)));
    access
}

fn open_provider(
    config: &ServerConfig,
    addr: Option<SocketAddr>,
    trust: &Trust,
) -> Result<Option<Arc<Provider>>, ServerError> {
    let Some(oidc) = &config.oidc else { return Ok(None) };
    let provider = Provider::open(oidc, advertised(config, addr), trust)?;
    let (issuer, redirect) = (provider.issuer(), provider.redirect_uri());
    tracing::info!(
        issuer,
        redirect,
        "people may log in through a provider, which must know this redirect URI"
    );
    Ok(Some(Arc::new(provider)))
}

/// Whom this scheduler believes when it connects to others. A file that cannot be used is found now and not later.
fn trust(config: &ServerConfig) -> Result<Trust, ServerError> {
    if let Some(path) = &config.ca_file {
        roots_of(path).map_err(ServerError::CaFile)?;
    }
    Ok(Trust { ca_file: config.ca_file.clone(), fingerprint: None })
}

/// Where other schedulers reach this one: as said, or where it listens.
fn advertised(config: &ServerConfig, addr: Option<SocketAddr>) -> Option<String> {
    let said = config.advertise_url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
    said.or_else(|| {
        let addr = addr?;
        let scheme = if config.tls == TlsConfig::Off { "http" } else { "https" };
        if addr.ip().is_unspecified() {
            let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
            return Some(format!("{scheme}://{name}:{}", addr.port()));
        }
        Some(format!("{scheme}://{addr}"))
    })
}

fn open_logs(config: &ServerConfig) -> std::io::Result<Arc<LogStore>> {
    let logs = LogStore::open(&config.data_dir, config.limits.log_stream, config.bounds.log_readers)?;
    Ok(Arc::new(if config.blobs.is_shared() { logs.moving() } else { logs }))
}

fn open_archive(config: &ServerConfig) -> Result<Option<Archive>, ServerError> {
    let Some(path) = &config.archive_dir else { return Ok(None) };
    if config.retention.is_none() {
        tracing::warn!("nothing is archived while --retention is off");
    }
    let opened = Archive::open(path);
    opened.map(Some).map_err(|source| ServerError::ArchiveDir { path: path.clone(), source })
}

async fn bind(
    listen: Listen,
    config: &ServerConfig,
    store: &dyn Store,
) -> Result<Option<TcpListener>, ServerError> {
    match listen {
        Listen::InProcess => Ok(None),
        Listen::Socket(listener) => {
            // A socket that does not tell its address is taken for one that everybody reaches.
            let address = listener.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into());
            check_address(config, address, store).await?;
            Ok(Some(listener))
        }
        Listen::Address(address) => {
            check_address(config, address, store).await?;
            let bound = TcpListener::bind(address).await;
            bound.map(Some).map_err(|source| ServerError::Listen { address, source })
        }
    }
}

/// Refuses an address that others than this machine reach while nobody could prove who it is. A store that does not
/// answer has accounts, as far as this matters: nobody is let in without a credential. Where people log in through a
/// provider, the first login makes the first account.
async fn check_address(
    config: &ServerConfig,
    address: SocketAddr,
    store: &dyn Store,
) -> Result<(), ServerError> {
    if config.access.insecure || config.oidc.is_some() || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    match tokio::time::timeout(TIME_BOUND, store.accounts()).await {
        Ok(Ok(accounts)) if accounts.is_empty() => Err(ServerError::Unprotected { address }),
        _ => Ok(()),
    }
}

fn spawn_background(app: &Shared, stages: &Stages) -> Vec<JoinHandle<()>> {
    let stop = || given(stages.loops.subscribe());
    let dispatch = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { app.dispatcher.run(stop).await })
    };
    let listen = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop => {}
                () = wake::listen(app.store.as_ref(), &app.hub) => {}
            }
        })
    };
    let lead = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::lead(&app, stop).await })
    };
    let reap = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::reap(&app, stop).await })
    };
    let plan = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::plan(&app, stop).await })
    };
    let retain = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::retain(&app, stop).await })
    };
    let retain_logs = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::retain_logs(&app, stop).await })
    };
    let tidy_uploads = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::tidy_uploads(&app, stop).await })
    };
    let deliver = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::deliver(&app, stop).await })
    };
    let keep_time = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::keep_time(&app, stop).await })
    };
    let note = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { crate::peers::note(&app, stop).await })
    };
    let mut all =
        vec![dispatch, listen, lead, reap, plan, retain, retain_logs, tidy_uploads, deliver, keep_time, note];
    all.extend(spawn_watchers(app, stages));
    all.extend(app.tls.clone().map(|tls| {
        let stop = stop();
        tokio::spawn(async move { tls.keep_fresh(stop).await })
    }));
    all
}

/// Those who ask again and again whether what the scheduler needs is in reach, and clear up behind it.
fn spawn_watchers(app: &Shared, stages: &Stages) -> [JoinHandle<()>; 4] {
    let stop = || given(stages.loops.subscribe());
    let probe = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::probe(&app, stop).await })
    };
    let watch_blobs = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::watch_blobs(&app, stop).await })
    };
    let sweep_blobs = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::sweep_blobs(&app, stop).await })
    };
    let move_output = {
        let (app, stop) = (Arc::clone(app), stop());
        tokio::spawn(async move { loops::move_output(&app, stop).await })
    };
    [probe, watch_blobs, sweep_blobs, move_output]
}

impl RunningServer {
    /// Where it listens; `None` when it does not.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// The certificate that it shows; `None` when connections are not encrypted.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.app.tls.as_ref().map(|tls| tls.fingerprint())
    }

    /// The API as a service, for callers in the same process.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Ends all its tasks where they are, as the end of the process would: nothing is finished, nothing is said.
    pub fn abort(self) {
        self.committer.abort();
        for task in self.background {
            task.abort();
        }
    }

    /// Stops. True when every open request was finished within the drain timeout.
    pub async fn shutdown(self) -> bool {
        let drain = self.app.config.drain_timeout;
        self.stages.closing.send_replace(true);
        self.app.dispatcher.close();
        let drained = match self.connections {
            Some(connections) => connections.finish(drain).await,
            None => true,
        };
        if !drained {
            tracing::warn!("open requests were cut off at shutdown");
        }
        self.stages.loops.send_replace(true);
        stop_all(self.background).await;
        self.stages.committer.send_replace(true);
        stop_all(vec![self.committer]).await;
        if tokio::time::timeout(CLOSING_BOUND, self.app.store.close()).await.is_err() {
            tracing::warn!("the store did not close in time");
        }
        drained
    }
}

/// Waits for tasks that were told to stop; one that does not is aborted.
async fn stop_all(tasks: Vec<JoinHandle<()>>) {
    let deadline = tokio::time::Instant::now() + CLOSING_BOUND;
    for mut task in tasks {
        if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
            tracing::warn!("a background task did not stop in time");
            task.abort();
        }
    }
}
