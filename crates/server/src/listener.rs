//! Connections: accepts them, serves each in a task of its own, and ends them politely.
//!
//! Guarantees: a client that is slow to send the head of its request, or that does not read its answer, is
//! cut off; more connections than allowed wait in the kernel's queue; a failing accept is retried with a
//! pause instead of a busy loop.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::stalled::Stalled;

/// Pause after a failed accept, for example when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The accepting task and the count of open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    accepting: JoinHandle<()>,
    room: Arc<Semaphore>,
    most: u32,
}

/// Accepts until `closing` becomes true.
pub(crate) fn serve(
    listener: TcpListener,
    router: Router,
    config: &ServerConfig,
    closing: watch::Receiver<bool>,
) -> Connections {
    let most = u32::try_from(config.max_connections).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(most as usize));
    let acceptor = Acceptor {
        listener,
        router,
        header_timeout: config.header_timeout,
        write_timeout: config.write_timeout,
        closing,
        room: Arc::clone(&room),
    };
    Connections { accepting: tokio::spawn(acceptor.run()), room, most }
}

impl Connections {
    /// Waits until every connection has ended, for at most `patience`. True when all did.
    pub(crate) async fn finish(self, patience: Duration) -> bool {
        let all = async {
            let _ = self.accepting.await;
            self.room.acquire_many(self.most).await.is_ok()
        };
        tokio::time::timeout(patience, all).await.unwrap_or(false)
    }
}

/// Resolves when the signal is given or its owner is gone.
async fn given(signal: &mut watch::Receiver<bool>) {
    let _ = signal.wait_for(|given| *given).await;
}

struct Acceptor {
    listener: TcpListener,
    router: Router,
    header_timeout: Duration,
    write_timeout: Duration,
    closing: watch::Receiver<bool>,
    room: Arc<Semaphore>,
}

impl Acceptor {
    async fn run(self) {
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = given(&mut closing) => return,
            };
            let Some((stream, permit)) = accepted else { return };
            tokio::spawn(self.serve(stream, permit));
        }
    }

    async fn accept(&self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.room).acquire_owned().await.ok()?;
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return Some((stream, permit)),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, permit: OwnedSemaphorePermit) -> impl Future<Output = ()> + use<> {
        let service = TowerToHyperService::new(self.router.clone());
        let (header_timeout, write_timeout) = (self.header_timeout, self.write_timeout);
        let mut closing = self.closing.clone();
        async move {
            let _open = permit;
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY could not be set");
            }
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(header_timeout).keep_alive(true);
            let stream = TokioIo::new(Stalled::new(stream, write_timeout));
            let connection = builder.serve_connection(stream, service);
            let mut connection = std::pin::pin!(connection);
            let served = tokio::select! {
                served = connection.as_mut() => served,
                () = given(&mut closing) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke off");
            }
        }
    }
}
