//! The handshake of one connection.
//!
//! Guarantee: it ends within the time for the head of a request, whatever the other side does. A client that speaks plain
//! HTTP is told so.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::Tls;
use crate::stalled::Stalled;

/// The first byte of a TLS connection: a handshake record.
const HANDSHAKE: u8 = 22;
/// For the answer to a client that speaks plain HTTP.
const PLAIN_PATIENCE: Duration = Duration::from_secs(2);
const PLAIN_BYTES: u64 = 64 * 1024;
const PLAIN_TEXT: &str = "this port speaks TLS: use https://\n";

/// Why a connection came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the handshake took too long")]
    TimedOut,
    #[error("the client closed the connection before the handshake")]
    Closed,
    #[error("the client speaks plain HTTP")]
    PlainHttp,
    #[error("the client does not speak TLS")]
    NotTls,
    #[error("the client refused the handshake: {0}")]
    RefusedByClient(rustls::Error),
    #[error("the handshake failed: {0}")]
    Broken(io::Error),
}

impl Failure {
    /// A stable word for the metric.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::TimedOut => "timeout",
            Self::Closed => "closed",
            Self::PlainHttp => "plain_http",
            Self::NotTls => "not_tls",
            Self::RefusedByClient(_) => "refused_by_client",
            Self::Broken(_) => "broken",
        }
    }
}

impl Tls {
    /// Shakes hands with a client within `patience`; its writes are bounded by `write_timeout` from the start.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        patience: Duration,
        write_timeout: Duration,
    ) -> Result<TlsStream<Stalled<TcpStream>>, Failure> {
        let shaken = tokio::time::timeout(patience, self.shake_hands(stream, write_timeout)).await;
        shaken.unwrap_or(Err(Failure::TimedOut))
    }

    async fn shake_hands(
        &self,
        stream: TcpStream,
        write_timeout: Duration,
    ) -> Result<TlsStream<Stalled<TcpStream>>, Failure> {
        let mut first = [0];
        match stream.peek(&mut first).await.map_err(Failure::Broken)? {
            0 => return Err(Failure::Closed),
            _ if first[0] == HANDSHAKE => {}
            // All methods of HTTP are in capitals.
            _ if first[0].is_ascii_uppercase() => {
                // Whoever does not wait for the answer goes without.
                let _ = tokio::time::timeout(PLAIN_PATIENCE, answer_plainly(stream)).await;
                return Err(Failure::PlainHttp);
            }
            _ => return Err(Failure::NotTls),
        }
        let accepted = self.acceptor.accept(Stalled::new(stream, write_timeout)).await;
        accepted.map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(alert @ rustls::Error::AlertReceived(_)) => Failure::RefusedByClient(alert.clone()),
                _ => Failure::Broken(error),
            }
        })
    }
}

async fn answer_plainly(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{PLAIN_TEXT}",
        PLAIN_TEXT.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // A connection that is closed with bytes unread is reset, and the answer may be lost.
    tokio::io::copy(&mut stream.take(PLAIN_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}
