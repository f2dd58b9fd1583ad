//! One connection: serves its requests, one after the other, and says at its end why no more are served.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::Request;
use http::header::UPGRADE;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_domain::access::Principal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::overheard::Overheard;
use super::places::Seat;
use super::refusals::Refusal;
use super::takeover::{Patient, Stream, Wish};
use super::{PeerAddress, given};
use crate::bounds::Bounds;
use crate::local_user::LocalUser;
use crate::metrics::Metrics;

/// How long a connection beyond the bound may last.
const RESERVE_LIFE: Duration = Duration::from_secs(10);
/// How long its client may take to send the head of its request.
const RESERVE_PATIENCE: Duration = Duration::from_secs(5);

/// Serves requests over one connection, encrypted or not.
pub(super) struct HttpConnection {
    pub(super) router: Router,
    pub(super) principal: Principal,
    pub(super) user: Option<LocalUser>,
    pub(super) peer: SocketAddr,
    pub(super) header_timeout: Duration,
    pub(super) bounds: Arc<Bounds>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) seat: Arc<Seat>,
    pub(super) closing: watch::Receiver<bool>,
}

/// How serving came to its end.
enum Ended {
    Served(hyper::Result<()>),
    /// A handler wants the connection; so much was read of it beyond the request.
    ChangesOver(Bytes),
    /// A connection beyond the bound did not end in time.
    TooLong,
}

impl HttpConnection {
    /// How long the client may take to send the head of a request, or to shake hands.
    pub(super) fn patience(&self) -> Duration {
        if self.seat.is_reserve() { self.header_timeout.min(RESERVE_PATIENCE) } else { self.header_timeout }
    }

    pub(super) async fn serve(mut self, stream: impl Stream + Patient + 'static) {
        let mut stream = Overheard::new(stream);
        let (patience, wish) = (self.patience(), Wish::default());
        let error = match self.serve_requests(&mut stream, patience, &wish).await {
            Ended::Served(Ok(())) => return,
            Ended::Served(Err(error)) => error,
            Ended::ChangesOver(read) => {
                let mut stream = stream.into_inner();
                stream.be_patient();
                return wish.fulfil(stream, read, self.seat);
            }
            Ended::TooLong => {
                self.metrics.bounds.refused("short_request");
                return tracing::debug!("a connection beyond the bound lasted too long");
            }
        };
        tracing::debug!(%error, "a connection broke off");
        if is_stalled(&error) {
            return self.metrics.bounds.refused("answer_timeout");
        }
        if let Some(refusal) = self.refusal(&stream, &error, patience) {
            self.metrics.bounds.refused(refusal.code);
            refusal.tell(&mut stream.into_inner()).await;
        }
    }

    async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut Overheard<S>,
        patience: Duration,
        wish: &Wish,
    ) -> Ended {
        let (router, principal, peer) = (self.router.clone(), self.principal.clone(), self.peer);
        let user = self.user;
        let (seat, offered) = (Arc::clone(&self.seat), wish.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let may_change_over = request.headers().contains_key(UPGRADE);
            let extensions = request.extensions_mut();
            if may_change_over {
                extensions.insert(offered.clone());
            }
            extensions.insert(principal.clone());
            user.map(|user| extensions.insert(user));
            extensions.insert(PeerAddress(peer));
            extensions.insert(Arc::clone(&seat));
            router.clone().oneshot(request)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience).keep_alive(!self.seat.is_reserve());
        builder.max_buf_size(self.bounds.head_bytes);
        if self.bounds.headers != Bounds::default().headers {
            // The default of the library costs no memory of its own.
            builder.max_headers(self.bounds.headers);
        }
        let mut connection = builder.serve_connection(TokioIo::new(stream), service);
        let served = tokio::select! {
            served = &mut connection => served,
            () = given(&mut self.closing) => {
                Pin::new(&mut connection).graceful_shutdown();
                (&mut connection).await
            }
            () = outstays(&self.seat) => return Ended::TooLong,
        };
        if served.is_ok() && wish.is_made() {
            return Ended::ChangesOver(connection.into_parts().read_buf);
        }
        Ended::Served(served)
    }

    /// What to tell a client that did not come as far as a route.
    fn refusal<S>(&self, stream: &Overheard<S>, error: &hyper::Error, patience: Duration) -> Option<Refusal> {
        match stream.kept_back {
            Some(431) => Some(Refusal::head_too_large(&self.bounds)),
            Some(414) => Some(Refusal::url_too_long(self.bounds.url_bytes)),
            Some(_) => Some(Refusal::malformed()),
            // A connection that waits for its next request is closed without a word: the client may have sent one just now.
            None if error.is_timeout() && stream.heard => Some(Refusal::slow_head(patience)),
            None => None,
        }
    }
}

/// Resolves when a connection beyond the bound has lasted for too long. One whose caller turned out to have a place may stay.
async fn outstays(seat: &Seat) {
    if seat.is_reserve() {
        tokio::time::sleep(RESERVE_LIFE).await;
        if seat.is_reserve() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Whether the client took nothing of its answer for too long.
fn is_stalled(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}
