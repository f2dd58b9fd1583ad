//! One delivery over HTTP: signed, bounded in time and in what is read of the answer.
//!
//! Guarantees: redirects are not followed; certificates are checked against those that the machine trusts;
//! a receiver that never answers costs the timeout and nothing more.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use muster_domain::{Secret, Sent, Span, Timestamp};
use muster_protocol::{
    HEADER_WEBHOOK_DELIVERY, HEADER_WEBHOOK_EVENT, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP,
};
use muster_tls::{TlsError, Trust};
use tokio::sync::OnceCell;

use super::reachable::{Reach, Resolver, literal};
use super::signature::sign;
use crate::clock::Clock;
use crate::config::{ServerConfig, WebhookConfig};

/// Bytes of an answer that are read and counted.
const MOST_BYTES: u64 = 64 * 1024;
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(20);

type Plain = HttpConnector<Resolver>;
type PlainClient = Client<Plain, Full<Bytes>>;
type SecureClient = Client<HttpsConnector<Plain>, Full<Bytes>>;

/// What is delivered, and to whom.
#[derive(Debug)]
pub(crate) struct Parcel<'a> {
    pub(crate) url: &'a str,
    pub(crate) secret: &'a Secret,
    /// The name of the event.
    pub(crate) event: &'a str,
    /// The id of the delivery.
    pub(crate) delivery: String,
    pub(crate) body: Bytes,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: Option<StatusCode>,
    /// Length of the body, as far as it was read. Its text is not kept: callers could read through the scheduler what
    /// they cannot reach themselves.
    pub(crate) bytes: u64,
    /// Why there is no status.
    pub(crate) error: Option<String>,
    pub(crate) retry_after: Option<Span>,
    pub(crate) took: Duration,
}

impl Answered {
    /// Why the delivery was not accepted; `None` when it was.
    pub(crate) fn refusal(&self) -> Option<String> {
        let Some(status) = self.status else {
            return Some(self.error.clone().unwrap_or_else(|| "nothing came back".to_owned()));
        };
        if status.is_success() {
            return None;
        }
        let hint = if status.is_redirection() { " (redirects are not followed)" } else { "" };
        Some(format!("status {}{hint}", status.as_u16()))
    }

    /// What it means for the delivery.
    pub(crate) fn sent(&self) -> Sent {
        match self.refusal() {
            None => Sent::Accepted,
            Some(why) if self.status == Some(StatusCode::GONE) => Sent::Gone { why },
            Some(why) => Sent::Refused { why, retry_after: self.retry_after },
        }
    }
}

/// Sends deliveries over kept connections.
pub(crate) struct Sender {
    config: WebhookConfig,
    reach: Reach,
    clock: Clock,
    trust: Trust,
    plain: PlainClient,
    /// Made when the first `https` URL comes along: reading the certificates takes a while.
    secure: OnceCell<Result<SecureClient, String>>,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Sender {
    pub(crate) fn new(server: &ServerConfig, reach: Reach) -> Self {
        let (config, clock) = (&server.webhooks, server.clock.clone());
        let trust = Trust { ca_file: server.ca_file.clone(), fingerprint: None };
        let plain = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector(config, &reach));
        Self { config: config.clone(), reach, clock, trust, plain, secure: OnceCell::new() }
    }

    /// Where deliveries may go.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Delivers once.
    pub(crate) async fn send(&self, parcel: Parcel<'_>) -> Answered {
        let started = Instant::now();
        let exchange = tokio::time::timeout(self.config.timeout, self.exchange(&parcel)).await;
        let mut answered = match exchange {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => failed(error),
            Err(_) => failed(format!("no answer within {} s", self.config.timeout.as_secs_f64())),
        };
        answered.took = started.elapsed();
        answered
    }

    async fn exchange(&self, parcel: &Parcel<'_>) -> Result<Answered, String> {
        let uri: Uri = parcel.url.parse().map_err(|error| format!("{}: {error}", parcel.url))?;
        let host = uri.host().unwrap_or_default();
        if literal(host).is_some_and(|address| !self.reach.permits(host, address)) {
            return Err(format!("{host} is a private address, which is forbidden (see --webhook-allow)"));
        }
        let secure = uri.scheme_str() == Some("https");
        let request = request(uri, parcel, self.clock.now())?;
        let response = if secure {
            let client =
                self.secure.get_or_init(|| secure_client(&self.config, &self.reach, &self.trust)).await;
            client.as_ref().map_err(Clone::clone)?.request(request).await
        } else {
            self.plain.request(request).await
        };
        read(response.map_err(|error| spell_out(&error))?).await
    }
}

fn connector(config: &WebhookConfig, reach: &Reach) -> Plain {
    let mut connector = HttpConnector::new_with_resolver(Resolver { reach: reach.clone() });
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(config.timeout));
    connector
}

/// Reading certificates touches many files, so it is done off the runtime's threads.
async fn secure_client(config: &WebhookConfig, reach: &Reach, trust: &Trust) -> Result<SecureClient, String> {
    let (plain, trust) = (connector(config, reach), trust.clone());
    let made = tokio::task::spawn_blocking(move || {
        let builder = HttpsConnectorBuilder::new().with_tls_config(trust.client_config()?);
        let connector = builder.https_only().enable_http1().wrap_connector(plain);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok::<_, TlsError>(client)
    });
    match made.await {
        Ok(made) => made.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn request(uri: Uri, parcel: &Parcel<'_>, now: Timestamp) -> Result<Request<Full<Bytes>>, String> {
    let timestamp = now.as_micros().div_euclid(1_000_000);
    Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("muster/", env!("CARGO_PKG_VERSION")))
        .header(HEADER_WEBHOOK_EVENT, parcel.event)
        .header(HEADER_WEBHOOK_DELIVERY, &parcel.delivery)
        .header(HEADER_WEBHOOK_TIMESTAMP, timestamp)
        .header(HEADER_WEBHOOK_SIGNATURE, sign(parcel.secret, timestamp, &parcel.body))
        .body(Full::new(parcel.body.clone()))
        .map_err(|error| error.to_string())
}

/// The status counts; the body is read so that the connection can be used again, and counted.
async fn read(response: Response<Incoming>) -> Result<Answered, String> {
    let (head, mut body) = response.into_parts();
    let mut bytes = 0;
    while bytes < MOST_BYTES {
        match body.frame().await {
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) | None => break,
        }
    }
    let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Ok(Answered {
        status: Some(head.status),
        bytes: bytes.min(MOST_BYTES),
        error: None,
        retry_after: seconds.map(Span::from_secs),
        took: Duration::ZERO,
    })
}

fn failed(error: String) -> Answered {
    Answered { status: None, bytes: 0, error: Some(error), retry_after: None, took: Duration::ZERO }
}

/// An error with everything that led to it.
fn spell_out(error: &(dyn Error + 'static)) -> String {
    if let Some(untrusted) = muster_tls::untrusted(error) {
        return format!("{untrusted}; a CA of your own is named with --ca-file");
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
