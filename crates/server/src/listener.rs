//! Connections: accepts them, asks once for each who is behind it, serves each in a task of its own, and ends them
//! politely.
//!
//! Guarantees: a client that is slow to shake hands, to send the head of its request, or that does not read its answer,
//! is cut off, and nobody else waits for it; when all connections are taken, a few more are served one short request each, so that health, metrics and
//! plain calls go on; what comes beyond them waits in the kernel's queue; a failing accept is retried with a
//! pause instead of a busy loop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_domain::access::Principal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::app::App;
use crate::callers::Callers;
use crate::metrics::Metrics;
use crate::stalled::Stalled;
use crate::tls::Tls;

/// Pause after a failed accept, for example when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections beyond the bound, and how long each of them may last.
const RESERVE: u32 = 64;
const RESERVE_LIFE: Duration = Duration::from_secs(10);

/// The other end of the connection that a request came by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// The accepting task and the count of open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    accepting: JoinHandle<()>,
    room: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    most: u32,
}

/// The place of an open connection.
enum Place {
    Ordinary(OwnedSemaphorePermit),
    /// Beyond the bound: for one request that does not take long.
    Reserve(OwnedSemaphorePermit),
}

/// Accepts until `closing` becomes true.
pub(crate) fn serve(
    listener: TcpListener,
    router: Router,
    app: &App,
    closing: watch::Receiver<bool>,
) -> Connections {
    let config = &app.config;
    let most = u32::try_from(config.max_connections).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(most as usize));
    let reserve = Arc::new(Semaphore::new(RESERVE as usize));
    let listening = listener.local_addr().ok();
    let acceptor = Acceptor {
        callers: Callers::new(&config.access, listening),
        listener,
        router,
        header_timeout: config.header_timeout,
        write_timeout: config.write_timeout,
        tls: app.tls.clone(),
        metrics: Arc::clone(&app.metrics),
        closing,
        room: Arc::clone(&room),
        reserve: Arc::clone(&reserve),
    };
    Connections { accepting: tokio::spawn(acceptor.run()), room, reserve, most }
}

impl Connections {
    /// Waits until every connection has ended, for at most `patience`. True when all did.
    pub(crate) async fn finish(self, patience: Duration) -> bool {
        let all = async {
            let _ = self.accepting.await;
            self.room.acquire_many(self.most).await.is_ok()
                && self.reserve.acquire_many(RESERVE).await.is_ok()
        };
        tokio::time::timeout(patience, all).await.unwrap_or(false)
    }
}

/// Resolves when the signal is given or its owner is gone.
async fn given(signal: &mut watch::Receiver<bool>) {
    let _ = signal.wait_for(|given| *given).await;
}

/// Resolves at the end of a life that has one.
async fn ends(life: Option<Duration>) {
    match life {
        Some(life) => tokio::time::sleep(life).await,
        None => std::future::pending().await,
    }
}

struct Acceptor {
    listener: TcpListener,
    router: Router,
    callers: Callers,
    header_timeout: Duration,
    write_timeout: Duration,
    tls: Option<Arc<Tls>>,
    metrics: Arc<Metrics>,
    closing: watch::Receiver<bool>,
    room: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
}

impl Acceptor {
    async fn run(self) {
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = given(&mut closing) => return,
            };
            let Some((stream, peer, place)) = accepted else { return };
            tokio::spawn(self.serve(stream, peer, place));
        }
    }

    async fn accept(&self) -> Option<(TcpStream, SocketAddr, Place)> {
        let place = tokio::select! {
            biased;
            permit = Arc::clone(&self.room).acquire_owned() => Place::Ordinary(permit.ok()?),
            permit = Arc::clone(&self.reserve).acquire_owned() => Place::Reserve(permit.ok()?),
        };
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, place)),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: Place) -> impl Future<Output = ()> + use<> {
        let (router, callers) = (self.router.clone(), self.callers);
        let (tls, metrics) = (self.tls.clone(), Arc::clone(&self.metrics));
        let (header_timeout, write_timeout) = (self.header_timeout, self.write_timeout);
        let mut closing = self.closing.clone();
        async move {
            let (_open, life) = match place {
                Place::Ordinary(permit) => (permit, None),
                Place::Reserve(permit) => (permit, Some(RESERVE_LIFE)),
            };
            let principal = callers.behind(peer, stream.local_addr());
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY could not be set");
            }
            let mut http =
                HttpConnection { router, principal, peer, header_timeout, life, closing: closing.clone() };
            let Some(tls) = tls else { return http.serve(Stalled::new(stream, write_timeout)).await };
            let patience = life.map_or(header_timeout, |life| life.min(header_timeout));
            let shaken = tokio::select! {
                shaken = tls.accept(stream, patience, write_timeout) => shaken,
                () = given(&mut closing) => return,
            };
            match shaken {
                Ok(stream) => http.serve(stream).await,
                Err(failure) => {
                    metrics.handshake_failed(failure.reason());
                    tracing::debug!(%failure, %peer, "no handshake");
                }
            }
        }
    }
}

/// Serves requests over one connection, encrypted or not.
struct HttpConnection {
    router: Router,
    principal: Principal,
    peer: SocketAddr,
    header_timeout: Duration,
    life: Option<Duration>,
    closing: watch::Receiver<bool>,
}

impl HttpConnection {
    async fn serve(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let (router, principal, peer) = (self.router.clone(), self.principal.clone(), self.peer);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(principal.clone());
            request.extensions_mut().insert(PeerAddress(peer));
            router.clone().oneshot(request)
        });
        let mut builder = http1::Builder::new();
        let life = self.life;
        builder.timer(TokioTimer::new()).header_read_timeout(self.header_timeout).keep_alive(life.is_none());
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = given(&mut self.closing) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = ends(life) => return tracing::debug!("a connection beyond the bound lasted too long"),
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection broke off");
        }
    }
}
