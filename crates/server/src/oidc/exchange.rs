//! One request to the provider: bounded in time, in size and in number.
//!
//! Guarantees: without TLS only a provider on this machine is asked; redirects are not followed; certificates are checked
//! against the authorities of the machine and of --ca-file.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use muster_tls::Trust;
use tokio::sync::{OnceCell, Semaphore};

/// How long the provider may take to answer as a whole, and to connect.
const ANSWER: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const MOST_BYTES: usize = 512 * 1024;
/// Requests at the same time: strangers can cause them.
const AT_ONCE: usize = 8;
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(20);

type PlainClient = Client<HttpConnector, Full<Bytes>>;
type SecureClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Whether what is sent there can be read by nobody else: by TLS, or on this machine.
pub(crate) fn is_safe(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address = bare.parse::<std::net::IpAddr>();
    let on_this_machine = host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|a| a.is_loopback());
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => on_this_machine,
        _ => false,
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// What is sent.
#[derive(Debug)]
pub(super) enum Sent {
    Nothing,
    Form(String),
}

/// The connections to the provider.
pub(super) struct Exchange {
    trust: Trust,
    plain: PlainClient,
    /// Made when it is first needed: reading the authorities takes a while.
    secure: OnceCell<Result<SecureClient, String>>,
    room: Semaphore,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_nodelay(true);
    connector
}

async fn secure_client(trust: Trust) -> Result<SecureClient, String> {
    let read = tokio::task::spawn_blocking(move || trust.client_config()).await;
    let config = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
    let connector = builder.wrap_connector(connector());
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector);
    Ok(client)
}

impl Exchange {
    pub(super) fn new(trust: Trust) -> Self {
        let plain = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector());
        Self { trust, plain, secure: OnceCell::new(), room: Semaphore::new(AT_ONCE) }
    }

    /// Sends once. An error says why nothing came back.
    pub(super) async fn send(
        &self,
        url: &str,
        sent: Sent,
        authorization: Option<&str>,
    ) -> Result<Answer, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        if !is_safe(&uri) {
            return Err(format!("{url} is not encrypted"));
        }
        let secure = uri.scheme_str() == Some("https");
        let request = request(uri, sent, authorization)?;
        let exchanged = async {
            let _room = self.room.acquire().await.map_err(|error| error.to_string())?;
            let answered = if secure {
                let client = self.secure.get_or_init(|| secure_client(self.trust.clone())).await;
                client.as_ref().map_err(Clone::clone)?.request(request).await
            } else {
                self.plain.request(request).await
            };
            read(answered.map_err(|error| spelled(&error))?).await
        };
        let bounded = tokio::time::timeout(ANSWER, exchanged).await;
        bounded.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER.as_secs())))
    }
}

fn request(uri: Uri, sent: Sent, authorization: Option<&str>) -> Result<Request<Full<Bytes>>, String> {
    let builder = Request::builder()
        .uri(uri)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("muster/", env!("CARGO_PKG_VERSION")));
    let builder =
        authorization.into_iter().fold(builder, |builder, value| builder.header(AUTHORIZATION, value));
    let request = match sent {
        Sent::Nothing => builder.method(Method::GET).body(Full::default()),
        Sent::Form(form) => builder
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(form.into())),
    };
    // What could not be sent is not repeated: it may have a secret in it.
    request.map_err(|_| "the request cannot be written".to_owned())
}

async fn read(response: http::Response<Incoming>) -> Result<Answer, String> {
    let status = response.status();
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MOST_BYTES {
            return Err(format!("the answer has more than {MOST_BYTES} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Answer { status, body: bytes.freeze() })
}

/// What was wrong, with a certificate that is not believed before all else.
fn spelled(error: &hyper_util::client::legacy::Error) -> String {
    use std::error::Error as _;
    if let Some(untrusted) = muster_tls::untrusted(error) {
        return format!("{untrusted}; a CA of your own is named with --ca-file");
    }
    let cause = error.source().and_then(|source| source.source().or(Some(source)));
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Pairs as a form has them.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", escaped(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Percent-encoding of everything but letters, digits and `-._~`.
pub(crate) fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_can_listen_to_is_safe() {
        let safe = |url: &str| is_safe(&url.parse().unwrap());
        for fine in ["https://a.example", "http://localhost:1/x", "http://127.0.0.1", "http://[::1]:8"] {
            assert!(safe(fine), "{fine}");
        }
        for wrong in ["http://a.example", "http://localhost.evil.example", "http://10.0.0.1", "/x"] {
            assert!(!safe(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_form_cannot_be_broken_out_of() {
        assert_eq!(form(&[("a", "x&b=c"), ("d", "\u{e4} +~")]), "a=x%26b%3Dc&d=%C3%A4%20%2B~");
    }
}
