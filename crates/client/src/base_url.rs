//! The address of a scheduler as people write it.
//!
//! Guarantee: credentials never show up in [`BaseUrl::as_str`], so it is safe in logs and messages.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};

use crate::error::ClientError;

/// `http[s]://[user:password@]host[:port][/prefix]`; a trailing slash makes no difference.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Scheme, host, port and prefix, without a slash at the end.
    text: String,
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("BaseUrl").field(&self.text).finish()
    }
}

impl BaseUrl {
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let invalid = |why: &'static str| ClientError::InvalidUrl { url: without_user_info(url), why };
        let uri: Uri = url.trim().parse().map_err(|_| invalid("it is not a URL"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") => "https",
            _ => return Err(invalid("it must begin with http:// or https://")),
        };
        if uri.query().is_some() {
            return Err(invalid("it must have no query"));
        }
        let authority = uri.authority().ok_or_else(|| invalid("it names no host"))?.as_str();
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, authority),
        };
        if host.is_empty() || host.starts_with(':') {
            return Err(invalid("it names no host"));
        }
        let authorization =
            user_info.map(basic).transpose().map_err(|()| invalid("its user is not valid"))?;
        let text = format!("{scheme}://{host}{}", uri.path().trim_end_matches('/'));
        Ok(Self { text, authorization })
    }

    /// The URL without credentials and without a slash at the end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether connections are encrypted.
    pub fn is_secure(&self) -> bool {
        self.text.starts_with("https://")
    }

    /// The value of `Authorization`, when the URL carries a user.
    pub fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// The absolute form of a path with an optional query.
    pub(crate) fn join(&self, path_and_query: &str) -> Result<Uri, http::uri::InvalidUri> {
        format!("{}{path_and_query}", self.text).parse()
    }
}

fn basic(user_info: &str) -> Result<HeaderValue, ()> {
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut plain = percent_decode(user);
    plain.push(b':');
    plain.extend(percent_decode(password));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(plain))).map_err(|_| ())?;
    value.set_sensitive(true);
    Ok(value)
}

fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let escaped = (bytes[index] == b'%')
            .then(|| bytes.get(index + 1..index + 3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = escaped {
            decoded.push(byte);
            index += 3;
        } else {
            decoded.push(bytes[index]);
            index += 1;
        }
    }
    decoded
}

/// A URL that could not be parsed may still hold a password; it must not reach a log.
fn without_user_info(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        _ => url.to_owned(),
    }
}

/// Makes one path segment or query value of any text.
pub(crate) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_slash_and_prefix() {
        assert_eq!(BaseUrl::parse("http://localhost:8080/").unwrap().as_str(), "http://localhost:8080");
        assert_eq!(BaseUrl::parse("http://host/muster/").unwrap().as_str(), "http://host/muster");
        assert_eq!(BaseUrl::parse("HTTPS://host:8443/").unwrap().as_str(), "https://host:8443");
        let joined = BaseUrl::parse("http://host:1/m/").unwrap().join("/jobs?x=1").unwrap();
        assert_eq!(joined.to_string(), "http://host:1/m/jobs?x=1");
    }

    #[test]
    fn user_info_becomes_basic_authorization_and_is_hidden() {
        let url = BaseUrl::parse("http://w1:s%40cret@host:8080").unwrap();
        assert_eq!(url.as_str(), "http://host:8080");
        assert_eq!(url.authorization().unwrap(), &format!("Basic {}", STANDARD.encode("w1:s@cret")));
        assert!(!format!("{url:?}").contains("cret"));
    }

    #[test]
    fn wrong_urls_are_refused_without_their_password() {
        for wrong in ["localhost:8080", "ftp://host", "http://", "", "http://u:secret@:80", "http://h/?q"] {
            let error = BaseUrl::parse(wrong).expect_err(wrong);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn segments_are_escaped() {
        assert_eq!(encode("worker 1/ä"), "worker%201%2F%C3%A4");
    }
}
