//! The gate in front of every route: which names the scheduler answers to, and which web pages may use it.
//!
//! Guarantee: a page of another origin reaches no handler, whatever its request looks like, and neither does a page that
//! made its own name lead here (DNS rebinding). One navigation is excepted: the way back from a login provider. Programs, which send none of the headers of browsers, are untouched.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use crate::config::Access;
use crate::error::ApiError;
use crate::oidc::CALLBACK;

/// The claim changes something although it is a GET, so that an image tag would be enough to take a job away.
const CLAIM: &str = "/jobs/next";
/// What a refusal repeats of a header, at most.
const SHOWN: usize = 100;

/// Whom a scheduler answers.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Lower case, without a final dot.
    names: Vec<String>,
    address: Option<IpAddr>,
    /// It listens on every address of the machine, so that any of them may be meant.
    every_address: bool,
    origins: Vec<Origin>,
    /// Connections are encrypted, so that its own pages come by https.
    secure: bool,
}

/// How a request was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// By a program, by the scheduler's own page, or by a person who typed the address.
    Direct,
    /// By a page of an origin that the operator allowed; its browser must be told.
    Page(HeaderValue),
}

impl Gate {
    /// The gate of a scheduler that listens on `listening`, or only within its process; `secure` when by TLS.
    pub(crate) fn new(access: &Access, listening: Option<SocketAddr>, secure: bool) -> Self {
        let address = listening.map(|address| address.ip().to_canonical());
        let mut names: Vec<String> = access.hostnames.iter().map(|name| plain(name)).collect();
        if address.is_some_and(|address| !address.is_loopback()) {
            names.extend(machine_name());
        }
        Self {
            names,
            address,
            every_address: address.is_some_and(|address| address.is_unspecified()),
            origins: access.origins.clone(),
            secure,
        }
    }

    /// Decides by the head of a request alone; the body is not read.
    pub(crate) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Admitted, ApiError> {
        let authority = authority(uri, headers)?;
        if let Some(authority) = authority
            && !self.is_known(authority)
        {
            return Err(unknown_host(authority));
        }
        let is_claim = uri.path() == CLAIM;
        if is_claim && text(headers, USER_AGENT.as_str()).is_some_and(|agent| agent.starts_with("Mozilla/")) {
            return Err(forbidden("a browser does not claim jobs: workers and other programs do"));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            return self.admit_origin(origin, authority, headers);
        }
        match text(headers, "sec-fetch-site") {
            None | Some("same-origin") => Ok(Admitted::Direct),
            Some("none") if is_navigation(method, headers) && !is_claim => Ok(Admitted::Direct),
            Some(_) if returns_from_login(method, uri, headers) => Ok(Admitted::Direct),
            Some("none") => Err(forbidden("a browser may only read pages here, and only by GET")),
            Some(_) => Err(forbidden(
                "a web page of another origin may not use this scheduler; --allow-origin ORIGIN allows one, \
                 which must then ask with CORS",
            )),
        }
    }

    fn admit_origin(
        &self,
        value: &HeaderValue,
        authority: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Admitted, ApiError> {
        let shown = value.to_str().unwrap_or("?");
        let origin = shown.parse::<Origin>().ok();
        if origin.as_ref().is_some_and(|origin| self.origins.contains(origin)) {
            return Ok(Admitted::Page(value.clone()));
        }
        let same =
            origin.zip(authority).is_some_and(|(origin, authority)| origin.is_at(authority, self.secure));
        if same && matches!(text(headers, "sec-fetch-site"), None | Some("same-origin")) {
            return Ok(Admitted::Direct);
        }
        let shown = shortened(shown);
        Err(forbidden(format!(
            "a web page of another origin ({shown}) may not use this scheduler; --allow-origin {shown} would allow it"
        )))
    }

    /// Whether the scheduler goes by that name or address.
    fn is_known(&self, authority: &str) -> bool {
        let Some((host, _)) = split(authority) else { return false };
        let host = plain(host);
        if let Some(address) = as_address(&host) {
            let address = address.to_canonical();
            return address.is_loopback()
                || self.every_address
                || self.address == Some(address)
                || self.names.contains(&host);
        }
        host == "localhost" || host.ends_with(".localhost") || self.names.contains(&host)
    }
}

/// What the browser of an allowed page has to be told before it hands the answer over.
pub(crate) fn tell_browser(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert("access-control-allow-origin", origin);
    headers.insert("access-control-expose-headers", HeaderValue::from_static("*"));
    headers.append("vary", HeaderValue::from_static("origin"));
}

/// Whether the request only asks what the page may do.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key("access-control-request-method")
}

/// The answer to a preflight of an allowed page.
pub(crate) fn permit(headers: &mut HeaderMap, asked: Option<HeaderValue>) {
    let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
    headers.insert("access-control-allow-methods", methods);
    if let Some(asked) = asked {
        headers.insert("access-control-allow-headers", asked);
    }
    headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
}

/// Where a page comes from: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// Whether it is the scheduler's own, reached under `authority`. A page of a scheduler with TLS comes by https. The
    /// scheme of one without is not known: there may be a proxy that ends TLS.
    fn is_at(&self, authority: &str, secure: bool) -> bool {
        let Some((host, port)) = split(authority) else { return false };
        (!secure || self.scheme == "https")
            && plain(host) == self.host
            && port.unwrap_or_else(|| usual_port(&self.scheme)) == self.port
    }
}

impl std::str::FromStr for Origin {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let wrong = || "write an origin such as https://muster.example or http://localhost:3000".to_owned();
        let (scheme, authority) = written.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        let known = matches!(scheme.as_str(), "http" | "https");
        let (host, port) = split(authority).filter(|_| known).ok_or_else(wrong)?;
        let port = port.unwrap_or_else(|| usual_port(&scheme));
        Ok(Self { host: plain(host), port, scheme })
    }
}

fn usual_port(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

/// Host and port of `host`, `host:port`, `[address]` or `[address]:port`.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = if authority.starts_with('[') {
        authority.split_at(authority.find(']')? + 1)
    } else {
        authority.split_at(authority.find(':').unwrap_or(authority.len()))
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => Some(digits.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    let usable = |letter: char| letter.is_ascii_alphanumeric() || "-._[:]".contains(letter);
    (!host.is_empty() && host.chars().all(usable)).then_some((host, port))
}

fn as_address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn machine_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(plain(name.trim())).filter(|name| !name.is_empty())
}

/// The host that a request names. None is fine: every browser names one, and HTTP/1.0 need not.
fn authority<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<&'a str>, ApiError> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().map(|host| host.to_str().unwrap_or("?"));
    if hosts.next().is_some() {
        return Err(ApiError::bad_request("unknown_host", "a request names one Host"));
    }
    Ok(uri.authority().map(http::uri::Authority::as_str).or(host))
}

/// A browser that a login provider sends back: the whole window goes there, which a page of another origin can also have it
/// do, and which is worth nothing without the cookie of a login that began here.
fn returns_from_login(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let fetched = |name: &str, value: &str| text(headers, name) == Some(value);
    *method == Method::GET
        && uri.path() == CALLBACK
        && fetched("sec-fetch-mode", "navigate")
        && fetched("sec-fetch-dest", "document")
}

fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let mode = text(headers, "sec-fetch-mode");
    matches!(*method, Method::GET | Method::HEAD) && matches!(mode, None | Some("navigate"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn shortened(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

fn unknown_host(authority: &str) -> ApiError {
    let host = shortened(split(authority).map_or(authority, |(host, _)| host));
    let message = format!(
        "this scheduler is not known as {host:?}; if that is a name of it, start it with --hostname {host}"
    );
    ApiError::refused(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message)
}

fn forbidden(message: impl Into<std::borrow::Cow<'static, str>>) -> ApiError {
    ApiError::refused(StatusCode::FORBIDDEN, "foreign_page", message)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
