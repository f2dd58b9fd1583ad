//! Sessions with running jobs: the side of the person and the side of the worker. Between them lies one WebSocket, whose
//! bytes the schedulers pass on unread.
//!
//! Guarantees: whoever waits for the other side hears within [`SILENCE`] that it is gone, and a side that is kept from reading
//! is not taken for one; what is read is never longer than a frame may be.

use std::pin::Pin;
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use muster_protocol::{
    HEADER_TERMINAL_SECRET, MAX_TERMINAL_FRAME, TERMINAL_UPGRADE, TerminalFrame, TerminalKind, TerminalOrder,
};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use crate::base_url::encode;
use crate::call::{Call, Client, refused};
use crate::error::ClientError;
use crate::transport::{Body, Duplex, Upgraded};

/// Each side says so often that it is there.
pub const TERMINAL_PING: Duration = Duration::from_secs(15);
/// Who has said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a scheduler may take to bring both sides together.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<Box<dyn Duplex>>;
/// Named, because the compiler cannot see by itself that it may go to another thread.
type ConnectionFuture<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Duplex>, ClientError>> + Send + 'a>>;

/// One end of a session.
#[derive(Debug)]
pub struct Terminal {
    pub reader: TerminalReader,
    pub writer: TerminalWriter,
}

/// Takes in what the other side sends.
#[derive(Debug)]
pub struct TerminalReader {
    stream: SplitStream<Socket>,
    url: String,
}

/// Sends to the other side.
#[derive(Debug)]
pub struct TerminalWriter {
    sink: SplitSink<Socket, Message>,
    url: String,
}

impl Client {
    /// Opens a session with a running job, and waits until its worker is there.
    pub async fn open_terminal(&self, job_id: &str, kind: TerminalKind) -> Result<Terminal, ClientError> {
        let what = match kind {
            TerminalKind::Exec => "exec",
            TerminalKind::Attach => "terminal",
        };
        let key = generate_key();
        let call = Call::new(Method::GET, format!("/jobs/{}/{what}", encode(job_id)));
        let call = call.header(CONNECTION.as_str(), "Upgrade").header(UPGRADE.as_str(), "websocket");
        let call = call.header(SEC_WEBSOCKET_VERSION.as_str(), "13").header(SEC_WEBSOCKET_KEY.as_str(), &key);
        self.terminal(call, Some(derive_accept_key(key.as_bytes())), Role::Client).await
    }

    /// Joins a session that somebody has opened with a job of this worker.
    pub async fn serve_terminal(&self, order: &TerminalOrder) -> Result<Terminal, ClientError> {
        let path = format!("/jobs/{}/terminals/{}", encode(&order.job_id), encode(&order.session));
        let call = Call::new(Method::GET, path);
        let call = call.header(CONNECTION.as_str(), "Upgrade").header(UPGRADE.as_str(), TERMINAL_UPGRADE);
        let call = call.checked_header(HEADER_TERMINAL_SECRET, &order.secret)?;
        self.terminal(call, None, Role::Server).await
    }

    async fn terminal(
        &self,
        call: Call,
        accept: Option<String>,
        role: Role,
    ) -> Result<Terminal, ClientError> {
        let connecting: ConnectionFuture<'_> = Box::pin(self.change_over(call, accept));
        let connection = match tokio::time::timeout(OPEN_TIMEOUT, connecting).await {
            Ok(connection) => connection?,
            Err(_) => return Err(ClientError::TimedOut { url: self.url().to_owned(), after: OPEN_TIMEOUT }),
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_TERMINAL_FRAME))
            .max_frame_size(Some(MAX_TERMINAL_FRAME))
            .write_buffer_size(0);
        let socket = WebSocketStream::from_raw_socket(connection, role, Some(config)).await;
        let (sink, stream) = socket.split();
        let url = self.url().to_owned();
        Ok(Terminal {
            reader: TerminalReader { stream, url: url.clone() },
            writer: TerminalWriter { sink, url },
        })
    }

    /// `accept` is what a scheduler that has understood the request answers in its header.
    async fn change_over(&self, call: Call, accept: Option<String>) -> Result<Box<dyn Duplex>, ClientError> {
        // A connection within the process goes to no host, and its request names one all the same.
        let call = call.header(HOST.as_str(), host(self.url()));
        let (connection, headers) = match self.upgrade(call).await? {
            Upgraded::Connection(connection, headers) => (connection, headers),
            Upgraded::Refused(response) => return Err(self.explained(response).await),
        };
        if !agrees(&headers, accept.as_deref()) {
            let source = "what answered does not speak WebSocket".into();
            return Err(ClientError::Interrupted { url: self.url().to_owned(), source });
        }
        Ok(connection)
    }

    async fn explained(&self, response: http::Response<Body>) -> ClientError {
        let status = response.status();
        let status = if status.is_success() { StatusCode::BAD_GATEWAY } else { status };
        match response.into_body().collect().await {
            Ok(body) => refused(status, &body.to_bytes()),
            Err(source) => ClientError::Interrupted { url: self.url().to_owned(), source },
        }
    }
}

/// Whether an answer has in its header what it must have, if anything.
fn agrees(headers: &HeaderMap, accept: Option<&str>) -> bool {
    let told = headers.get(SEC_WEBSOCKET_ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_none_or(|accept| told == Some(accept))
}

/// The host and port of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

impl TerminalReader {
    /// The bytes of the next frame; `None` when the other side has ended the session.
    pub async fn message(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            let next = tokio::time::timeout(SILENCE, self.stream.next()).await;
            let Ok(next) = next else {
                return Err(ClientError::TimedOut { url: self.url.clone(), after: SILENCE });
            };
            match next {
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes.into())),
                Some(Ok(Message::Text(text))) => return Ok(Some(text.as_bytes().to_vec())),
                Some(Ok(Message::Close(_)) | Err(SocketError::ConnectionClosed)) | None => return Ok(None),
                // A sign of life, which the library answers.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(&self.url, error)),
            }
        }
    }

    /// What to say of a session that ended without a last frame.
    pub fn ended_early(&self) -> ClientError {
        let source = "the scheduler or the worker closed the connection".into();
        ClientError::Interrupted { url: self.url.clone(), source }
    }

    /// The next frame.
    pub async fn frame(&mut self) -> Result<Option<TerminalFrame>, ClientError> {
        let Some(message) = self.message().await? else { return Ok(None) };
        let unreadable = |error: muster_protocol::BadFrame| ClientError::Interrupted {
            url: self.url.clone(),
            source: error.into(),
        };
        TerminalFrame::decode(&message).map(Some).map_err(unreadable)
    }
}

impl TerminalWriter {
    /// Sends the bytes of a frame.
    pub async fn send_message(&mut self, message: Vec<u8>) -> Result<(), ClientError> {
        self.sink.send(Message::Binary(message.into())).await.map_err(|error| broken(&self.url, error))
    }

    pub async fn send(&mut self, frame: &TerminalFrame) -> Result<(), ClientError> {
        self.send_message(frame.encode()).await
    }

    /// Says that this side is there.
    pub async fn ping(&mut self) -> Result<(), ClientError> {
        let ping = Message::Ping(bytes::Bytes::new());
        self.sink.send(ping).await.map_err(|error| broken(&self.url, error))
    }

    /// Says that this side sends nothing more.
    pub async fn close(&mut self) {
        // Who is gone need not be told.
        let _ = self.sink.close().await;
    }
}

fn broken(url: &str, error: SocketError) -> ClientError {
    ClientError::Interrupted { url: url.to_owned(), source: error.into() }
}
