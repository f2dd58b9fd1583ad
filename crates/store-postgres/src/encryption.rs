//! TLS to the server, in the words of libpq: `sslmode` and `sslrootcert` of the URL.
//!
//! Guarantee: `require` encrypts or fails, `verify-ca` and `verify-full` also know the server or fail; a mode that is not
//! known is refused and never read as a weaker one.

use std::path::Path;

use muster_store::StoreError;
use muster_tls::{Pins, Verification, client_config, roots_of, system_roots};
use rustls::RootCertStore;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::failed;

const OPERATION: &str = "read the database URL";
const MODE: &str = "sslmode";
const ROOTS: &str = "sslrootcert";
/// A value of `sslrootcert` that means the authorities of the machine.
const SYSTEM: &str = "system";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// What a URL says about encryption.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Encryption {
    mode: Option<Mode>,
    roots: Option<String>,
}

impl Encryption {
    /// Takes the words about encryption out of a URL, or of a list of `key=value`; the rest is for the driver, which
    /// knows fewer modes.
    pub(crate) fn take_from(url: &str) -> Result<(Self, String), StoreError> {
        let mut found = Self::default();
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        let rest = if is_url { found.take_from_query(url)? } else { found.take_from_pairs(url)? };
        Ok((found, rest))
    }

    fn take_from_query(&mut self, url: &str) -> Result<String, StoreError> {
        // A password may hold a question mark.
        let host = url.find('@').unwrap_or(0);
        let Some(start) = url[host..].find('?').map(|index| host + index) else { return Ok(url.to_owned()) };
        let mut kept = Vec::new();
        for pair in url[start + 1..].split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !self.take(name, &decode(value))? {
                kept.push(pair);
            }
        }
        let base = &url[..start];
        Ok(if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) })
    }

    fn take_from_pairs(&mut self, text: &str) -> Result<String, StoreError> {
        let mut kept = Vec::new();
        for (name, value, written) in pairs(text) {
            if !self.take(name, &value)? {
                kept.push(written);
            }
        }
        Ok(kept.join(" "))
    }

    fn take(&mut self, name: &str, value: &str) -> Result<bool, StoreError> {
        match name {
            MODE => self.mode = Some(mode(value)?),
            ROOTS => self.roots = Some(value.to_owned()).filter(|value| !value.is_empty()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Tells the driver whether to encrypt, and makes what does it. Reads the authorities.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<MakeRustlsConnect, StoreError> {
        // Without a word about it, nothing is encrypted where there is no name: over a socket of this machine.
        let named = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
        let usual = if named { Mode::Prefer } else { Mode::Disable };
        let mode = self.mode.unwrap_or(usual);
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        let verification = match (mode, &self.roots) {
            (Mode::Disable | Mode::Prefer, _) | (Mode::Require, None) => Verification::Nobody,
            // As libpq does: whoever names an authority wants it to count.
            (Mode::Require | Mode::VerifyCa, roots) => Verification::Signed(authorities(roots.as_deref())?),
            (Mode::VerifyFull, roots) => {
                Verification::Named { roots: authorities(roots.as_deref())?, pins: Pins::default() }
            }
        };
        let made = client_config(verification).map_err(|error| failed(OPERATION, error.to_string()))?;
        Ok(MakeRustlsConnect::new(made))
    }
}

fn mode(text: &str) -> Result<Mode, StoreError> {
    match text {
        "disable" => Ok(Mode::Disable),
        "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => {
            let problem = "there is disable, prefer, require, verify-ca and verify-full";
            Err(failed(OPERATION, format!("sslmode is {text:?}: {problem}")))
        }
    }
}

fn authorities(roots: Option<&str>) -> Result<RootCertStore, StoreError> {
    match roots {
        None | Some(SYSTEM) => Ok(system_roots()),
        Some(path) => {
            roots_of(Path::new(path)).map_err(|error| failed(OPERATION, format!("sslrootcert: {error}")))
        }
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Name, value and the text of each `key=value`; values may stand in quotes, and a backslash protects a character. What is
/// no pair comes with an empty name, for the driver to complain about.
fn pairs(text: &str) -> Vec<(&str, String, &str)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some(equals) = rest.find('=') else {
            found.push(("", String::new(), rest));
            break;
        };
        let name = rest[..equals].trim();
        let after = rest[equals + 1..].trim_start();
        let (value, left) = value(after);
        let written = &rest[..rest.len() - left.len()];
        found.push((name, value, written.trim_end()));
        rest = left.trim_start();
    }
    found
}

/// The value at the beginning of a text, and what comes after it.
fn value(text: &str) -> (String, &str) {
    let (quoted, body) = text.strip_prefix('\'').map_or((false, text), |body| (true, body));
    let mut value = String::new();
    let mut letters = body.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            '\'' if quoted => return (value, &body[index + 1..]),
            letter if !quoted && letter.is_whitespace() => return (value, &body[index..]),
            letter => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(url: &str) -> (Option<Mode>, Option<String>, String) {
        let (found, rest) = Encryption::take_from(url).unwrap();
        (found.mode, found.roots, rest)
    }

    #[test]
    fn the_words_about_encryption_are_taken_and_the_rest_is_left() {
        let full = Some(Mode::VerifyFull);
        let file = || Some("/etc/a b.pem".to_owned());
        for (url, expected) in [
            ("postgres://u:p@h:1/d", (None, None, "postgres://u:p@h:1/d")),
            ("postgres://h/d?sslmode=require", (Some(Mode::Require), None, "postgres://h/d")),
            (
                "postgresql://h/d?connect_timeout=7&sslmode=verify-full&sslrootcert=/etc/a%20b.pem&application_name=x",
                (full, file(), "postgresql://h/d?connect_timeout=7&application_name=x"),
            ),
            ("postgres://u:a?sslmode=x@h/d", (None, None, "postgres://u:a?sslmode=x@h/d")),
            (
                "host=h sslmode=verify-full  password='a b\\' sslmode=x' sslrootcert='/etc/a b.pem' user = u",
                (full, file(), "host=h password='a b\\' sslmode=x' user = u"),
            ),
            ("sslmode=disable host=h", (Some(Mode::Disable), None, "host=h")),
            ("nonsense", (None, None, "nonsense")),
        ] {
            let (mode, roots, rest) = taken(url);
            assert_eq!((mode, roots, rest.as_str()), expected, "{url}");
        }
    }

    #[test]
    fn a_mode_that_is_not_known_is_refused() {
        for url in ["postgres://h/d?sslmode=verify_full", "host=h sslmode=allow", "postgres://h/d?sslmode="] {
            let error = Encryption::take_from(url).unwrap_err().to_string();
            assert!(error.contains("sslmode is") && error.contains("verify-full"), "{error}");
        }
    }

    #[test]
    fn the_driver_encrypts_as_asked_and_not_over_sockets_of_this_machine() {
        let mode = |url: &str| {
            let (found, rest) = Encryption::take_from(url).unwrap();
            let mut config: Config = rest.parse().unwrap();
            found.apply(&mut config).unwrap();
            config.get_ssl_mode()
        };
        assert_eq!(mode("postgres://h/d"), SslMode::Prefer);
        assert_eq!(mode("host=/run/postgresql"), SslMode::Disable);
        assert_eq!(mode("host=h sslmode=disable"), SslMode::Disable);
        for strict in ["require", "verify-ca", "verify-full"] {
            assert_eq!(mode(&format!("postgres://h/d?sslmode={strict}")), SslMode::Require);
        }
    }
}
