//! What every handler shares.

use std::sync::Arc;
use std::time::Instant;

use muster_store::Store;
use tokio::sync::{Semaphore, watch};

use crate::admission::Admission;
use crate::archive::Archive;
use crate::batcher::Batcher;
use crate::blobs::Blobs;
use crate::config::ServerConfig;
use crate::dispatcher::Dispatcher;
use crate::gate::Gate;
use crate::health::StoreHealth;
use crate::identity::Credentials;
use crate::journal::Journal;
use crate::leadership::Leadership;
use crate::logs::LogStore;
use crate::metrics::Metrics;
use crate::oidc::Provider;
use crate::passwords::Guesses;
use crate::peers::Peers;
use crate::terminals::Terminals;
use crate::tls::Tls;
use crate::tokens::Tokens;
use crate::uploads::Places;
use crate::wake::WakeHub;
use crate::webhooks::Sender;

/// One running scheduler, as its handlers see it.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: ServerConfig,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) batcher: Batcher,
    /// Decides whether a request reaches a route at all.
    pub(crate) gate: Gate,
    /// Bounds on what may wait.
    pub(crate) admission: Admission,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) hub: Arc<WakeHub>,
    pub(crate) health: Arc<StoreHealth>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) leadership: Leadership,
    pub(crate) journal: Journal,
    pub(crate) logs: Arc<LogStore>,
    /// Where large results lie.
    pub(crate) blobs: Blobs,
    /// Places for artifacts that come through this scheduler.
    pub(crate) uploads: Arc<Semaphore>,
    pub(crate) webhooks: Sender,
    /// Places for requests that send or fetch chunks of uploads.
    pub(crate) upload_places: Places,
    /// The other schedulers on the same store.
    pub(crate) peers: Peers,
    pub(crate) tokens: Tokens,
    /// What callers have shown lately.
    pub(crate) credentials: Credentials,
    /// Wrong passwords.
    pub(crate) guesses: Guesses,
    /// Through which people may log in, if they may.
    pub(crate) oidc: Option<Arc<Provider>>,
    /// `None` when connections are not encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Where finished jobs go before they are removed.
    pub(crate) archive: Option<Archive>,
    /// Large bodies that may be held in memory at the same time.
    pub(crate) batches: Semaphore,
    /// Bytes that large bodies which are being received may come to.
    pub(crate) bodies: Arc<Semaphore>,
    /// Terminals whose worker has not come yet, and places for those that are open.
    pub(crate) terminals: Terminals,
    /// Places for readers of the stream of events.
    pub(crate) event_readers: Arc<Semaphore>,
    pub(crate) instance_id: String,
    pub(crate) started: Instant,
    /// Becomes true when the scheduler shuts down; endless answers end then.
    pub(crate) closing: watch::Receiver<bool>,
}

pub(crate) type Shared = Arc<App>;

impl App {
    /// Resolves when the scheduler shuts down.
    pub(crate) async fn closed(&self) {
        let mut closing = self.closing.clone();
        // An error means that the server is gone, which is a shutdown too.
        let _ = closing.wait_for(|closing| *closing).await;
    }
}
