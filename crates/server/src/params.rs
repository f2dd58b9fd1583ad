//! Query parameters and the identity of a caller, as requests carry them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use muster_domain::{Caller, Lease, WorkerId};
use muster_protocol::{HEADER_LEASE, HEADER_WORKER_ID};

use crate::error::ApiError;

/// The decoded pairs of a query, in their order.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(decoded.collect())
    }

    /// The names of all pairs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The first value under the name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value under the name that is not empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// All values under the name, each split at commas.
    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|part| !part.is_empty())
    }

    /// All values under the name, as they are.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A whole number, when given.
    pub(crate) fn integer<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.filled(name) else { return Ok(None) };
        let wrong = |_| ApiError::bad_request("invalid_parameter", format!("{name} must be an integer"));
        text.parse().map(Some).map_err(|error| wrong(error).at(name))
    }

    /// `true`, `1` or the bare name are yes; anything else is no.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("" | "1" | "true" | "yes"))
    }
}

/// Percent-decoding where `+` is a blank; bytes that are no UTF-8 become replacement characters.
fn decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|byte| (*byte as char).to_digit(16));
        match (bytes[at], hex(1), hex(2)) {
            (b'+', _, _) => out.push(b' '),
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (byte, _, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

/// The worker that a request names: in the query, in its header, or as the user of Basic credentials.
pub(crate) fn worker(params: &Params, headers: &HeaderMap) -> Option<WorkerId> {
    let named = params.filled("worker_id").or_else(|| header(headers, HEADER_WORKER_ID)).map(str::to_owned);
    named.or_else(|| basic_user(headers)).map(WorkerId::new)
}

fn basic_user(headers: &HeaderMap) -> Option<String> {
    let value = header(headers, "authorization")?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let user = text.split_once(':').map_or(text.as_str(), |(user, _)| user);
    (!user.is_empty()).then(|| user.to_owned())
}

/// The lease that a request names, in the query or in its header.
pub(crate) fn lease(params: &Params, headers: &HeaderMap) -> Result<Option<Lease>, ApiError> {
    let Some(text) = params.filled("lease").or_else(|| header(headers, HEADER_LEASE)) else {
        return Ok(None);
    };
    let wrong = || ApiError::bad_request("invalid_parameter", "lease must be an integer").at("lease");
    text.parse().map(|lease| Some(Lease(lease))).map_err(|_| wrong())
}

/// Who makes a report.
pub(crate) fn caller(params: &Params, headers: &HeaderMap) -> Result<Caller, ApiError> {
    Ok(Caller { lease: lease(params, headers)?, worker: worker(params, headers) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_lists_are_split() {
        let params = Params::parse(Some("a=x%20y&b=1,2&b=3&c&d=%zz&e=%E2%82%AC"));
        assert_eq!(params.get("a"), Some("x y"));
        assert_eq!(params.list("b").collect::<Vec<_>>(), ["1", "2", "3"]);
        assert!(params.flag("c"));
        assert_eq!(params.get("d"), Some("%zz"));
        assert_eq!(params.get("e"), Some("€"));
        assert!(params.integer::<u32>("a").is_err());
        assert_eq!(params.integer::<u32>("missing").unwrap(), None);
    }

    #[test]
    fn identity_comes_from_query_header_or_basic_user() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Basic dzE6c2VjcmV0".parse().unwrap());
        assert_eq!(worker(&Params::default(), &headers), Some(WorkerId::new("w1")));
        headers.insert("x-worker-id", "w2".parse().unwrap());
        assert_eq!(worker(&Params::default(), &headers), Some(WorkerId::new("w2")));
        let params = Params::parse(Some("worker_id=w3&lease=7"));
        assert_eq!(worker(&params, &headers), Some(WorkerId::new("w3")));
        assert_eq!(lease(&params, &headers).unwrap(), Some(Lease(7)));
        assert!(lease(&Params::parse(Some("lease=x")), &headers).is_err());
    }
}
