//! Connections: accepts them, asks once for each who is behind it, serves each in a task of its own, and ends them
//! politely.
//!
//! Guarantees: a client that is slow to shake hands, to send the head of its request, or that does not read its answer,
//! is cut off, and nobody else waits for it; strangers do not take the places of those who are known; when all connections
//! are taken, a few more are served one short request each, so that health, metrics and plain calls go on; what comes beyond
//! them waits in the kernel's queue; a failing accept is retried with a pause instead of a busy loop.

mod connection;
mod overheard;
mod places;
mod refusals;
mod takeover;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use muster_domain::access::Principal;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use self::connection::HttpConnection;
use self::places::{Crowd, Entrance, Places};
use self::refusals::Refusal;
use crate::app::App;
use crate::bounds::Bounds;
use crate::callers::{Behind, Callers};
use crate::metrics::{Metrics, Open};
use crate::stalled::Stalled;
use crate::tls::Tls;

pub(crate) use self::places::Seat;
pub(crate) use self::takeover::{Stream, StreamFuture, Takeover};

/// Pause after a failed accept, for example when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that are told at the same time why they are not served.
const FAREWELLS: usize = 64;

/// The other end of the connection that a request came by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// The accepting task and the places of connections.
#[derive(Debug)]
pub(crate) struct Connections {
    accepting: JoinHandle<()>,
    places: Arc<Places>,
}

/// Accepts until `closing` becomes true.
pub(crate) fn serve(
    listener: TcpListener,
    router: Router,
    app: &App,
    closing: watch::Receiver<bool>,
) -> Connections {
    let config = &app.config;
    let places = Places::new(&config.bounds, Arc::clone(&app.metrics));
    let listening = listener.local_addr().ok();
    let welcome = Welcome {
        callers: Callers::new(&config.access, listening),
        router,
        header_timeout: config.header_timeout,
        write_timeout: config.write_timeout,
        bounds: Arc::new(config.bounds.clone()),
        handshakes: Arc::new(Semaphore::new(config.bounds.handshakes.min(Semaphore::MAX_PERMITS))),
        farewells: Arc::new(Semaphore::new(FAREWELLS)),
        tls: app.tls.clone(),
        metrics: Arc::clone(&app.metrics),
        closing,
        places: Arc::clone(&places),
    };
    Connections { accepting: tokio::spawn(welcome.accept_all(listener)), places }
}

impl Connections {
    /// Waits until every connection has ended, for at most `patience`. True when all did.
    pub(crate) async fn finish(self, patience: Duration) -> bool {
        let all = async {
            let _ = self.accepting.await;
            self.places.all_left().await
        };
        tokio::time::timeout(patience, all).await.unwrap_or(false)
    }
}

/// Resolves when the signal is given or its owner is gone.
async fn given(signal: &mut watch::Receiver<bool>) {
    let _ = signal.wait_for(|given| *given).await;
}

/// What every connection needs.
#[derive(Clone)]
struct Welcome {
    router: Router,
    callers: Callers,
    header_timeout: Duration,
    write_timeout: Duration,
    bounds: Arc<Bounds>,
    handshakes: Arc<Semaphore>,
    /// For words to those who are sent away.
    farewells: Arc<Semaphore>,
    tls: Option<Arc<Tls>>,
    metrics: Arc<Metrics>,
    closing: watch::Receiver<bool>,
    places: Arc<Places>,
}

impl Welcome {
    async fn accept_all(self, listener: TcpListener) {
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = given(&mut closing) => return,
            };
            let Some((stream, peer, entrance)) = accepted else { return };
            tokio::spawn(self.clone().serve(stream, peer, entrance));
        }
    }

    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Entrance)> {
        let entrance = self.places.entrance().await?;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, entrance)),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, entrance: Entrance) {
        let Behind { principal, user } = self.callers.behind(peer, stream.local_addr());
        let is_known = principal == Principal::Local;
        let seat = match self.places.seat(entrance, peer, is_known) {
            Ok(seat) => Arc::new(seat),
            Err(crowd) => return self.send_away(stream, crowd).await,
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let (tls, handshakes, metrics) = (self.tls, self.handshakes, self.metrics);
        let http = HttpConnection {
            router: self.router,
            principal,
            user,
            peer,
            header_timeout: self.header_timeout,
            bounds: self.bounds,
            metrics: Arc::clone(&metrics),
            seat,
            closing: self.closing.clone(),
        };
        let Some(tls) = tls else { return http.serve(Stalled::new(stream, self.write_timeout)).await };
        let turn = handshakes.try_acquire();
        if turn.is_err() && !is_known {
            // Nothing can be said before hands are shaken.
            return metrics.bounds.refused("too_many_handshakes");
        }
        let mut closing = self.closing;
        let under_way = Open::count(&metrics.bounds.handshakes);
        let shaken = tokio::select! {
            shaken = tls.accept(stream, http.patience(), self.write_timeout) => shaken,
            () = given(&mut closing) => return,
        };
        drop((under_way, turn));
        match shaken {
            Ok(stream) => http.serve(stream).await,
            Err(failure) => {
                metrics.handshake_failed(failure.reason());
                tracing::debug!(%failure, %peer, "no handshake");
            }
        }
    }

    async fn send_away(&self, stream: TcpStream, crowd: Crowd) {
        let refusal = Refusal::crowded(crowd);
        self.metrics.bounds.refused(refusal.code);
        // In a flood most are not told: words take time and a file.
        if self.tls.is_none()
            && let Ok(_turn) = self.farewells.try_acquire()
        {
            refusal.tell(stream).await;
        }
    }
}
