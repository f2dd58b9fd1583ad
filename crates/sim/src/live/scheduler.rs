//! The schedulers: the server as it is, several of it on one store, each with a clock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use muster_server::clock::{Clock, Reading, TimeSource};
use muster_server::{BlobConfig, Listen, RunningServer, Server, ServerConfig, ServerError};
use muster_store::Wake;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::stage::{START, Stage};
use super::store::SimStore;
use crate::random::Random;

/// Finished jobs are kept for so long.
const RETENTION: Duration = Duration::from_secs(20 * 60);

/// One scheduler, through all its lives.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) server: Option<RunningServer>,
    pub(crate) life: u64,
    pub(crate) random: Random,
    /// By how many microseconds its wall clock is wrong.
    pub(crate) wrong: Arc<AtomicI64>,
    pub(crate) cut_until: Option<Instant>,
    pub(crate) slow_until: Option<Instant>,
    pub(crate) wakes: Option<mpsc::UnboundedSender<Wake>>,
    /// The requests that it is serving.
    pub(crate) calls: Vec<AbortHandle>,
}

impl Instance {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            server: None,
            life: 0,
            random: Random::new(seed),
            wrong: Arc::default(),
            cut_until: None,
            slow_until: None,
            wakes: None,
            calls: Vec::new(),
        }
    }

    /// Whether the store is out of its reach.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_until.is_some_and(|until| until > Instant::now())
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.slow_until.is_some_and(|until| until > Instant::now())
    }
}

/// The clocks of a machine that somebody sets. The time since its start is right.
#[derive(Debug)]
struct Machine {
    began: Instant,
    since: i64,
    wrong: Arc<AtomicI64>,
}

impl TimeSource for Machine {
    fn read(&self) -> Reading {
        let machine = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        Reading { wall: self.since + machine + self.wrong.load(Ordering::Relaxed), machine }
    }
}

impl Stage {
    /// Starts a scheduler that is down.
    pub(crate) async fn start(&self, index: usize) -> Result<(), ServerError> {
        let (life, wrong, since) = {
            let mut world = self.world();
            let since = world.now().as_micros();
            let instance = &mut world.instances[index];
            if instance.server.is_some() {
                return Ok(());
            }
            instance.life += 1;
            (instance.life, Arc::clone(&instance.wrong), since)
        };
        debug_assert!(since >= START, "the clock begins at the start");
        let store = Arc::new(SimStore { stage: self.clone(), instance: index, life });
        let config = ServerConfig {
            data_dir: self.data_dir().to_owned(),
            clock: Clock::new(Machine { began: Instant::now(), since, wrong }),
            retention: Some(RETENTION),
            retention_interval: Duration::from_secs(60),
            // Files have times of the machine, and reading them takes such time.
            blobs: BlobConfig { sweeps: false, ..BlobConfig::default() },
            ..ServerConfig::default()
        };
        let server = Server::start(config, store, Listen::InProcess).await?;
        {
            let mut world = self.world();
            let instance = &mut world.instances[index];
            if instance.life == life {
                instance.server = Some(server);
                return Ok(());
            }
        }
        // It crashed, or another one was started, while it was starting: the store no longer listens to it.
        server.abort();
        Ok(())
    }

    /// Ends a scheduler as the end of its process would, with everything that it was doing.
    pub(crate) fn crash(&self, index: usize) {
        let (server, calls) = {
            let mut world = self.world();
            let instance = &mut world.instances[index];
            // What is still under way to it belongs to a life that is over.
            instance.life += 1;
            instance.wakes = None;
            (instance.server.take(), std::mem::take(&mut instance.calls))
        };
        for call in calls {
            call.abort();
        }
        if let Some(server) = server {
            server.abort();
        }
    }
}
