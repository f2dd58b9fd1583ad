//! What a browser or a terminal carries through a login, so that no scheduler has to remember it.
//!
//! Guarantees: only a scheduler on the store can make it, and it is good for ten minutes, or as long as the code of a device
//! is; a browser is led nowhere but to a path of the scheduler.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use muster_domain::{Secret, Span, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bearer::digest_bytes;
use crate::tokens;

/// Where the provider sends the browser back to.
pub(crate) const CALLBACK: &str = "/auth/oidc/callback";
/// How long somebody may take to log in.
pub(crate) const LASTS: Span = Span::from_secs(600);
/// The longest path that a browser is led to.
const MAX_PATH: usize = 512;
const COOKIE_NAME: &str = "muster_oidc";

/// A login that a browser has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) state: String,
    pub(crate) nonce: String,
    /// Proves to the provider that the code comes from where it was asked for (PKCE).
    pub(crate) verifier: String,
    /// Where to go afterwards.
    pub(crate) to: String,
    pub(crate) until: Timestamp,
}

/// A device login under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) code: String,
    pub(crate) until: Timestamp,
}

/// What is carried has a kind, so that one cannot be shown for the other.
pub(crate) trait Carried: Serialize + DeserializeOwned {
    const KIND: &'static str;

    fn until(&self) -> Timestamp;

    fn seal(&self, secret: &Secret) -> Option<String> {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).ok()?);
        let mac = tokens::signature(secret, &format!("oidc.{}.{text}", Self::KIND));
        Some(format!("{text}.{mac}"))
    }

    /// `None` for what is forged, of another kind or too old.
    fn open(secret: &Secret, sealed: &str, now: Timestamp) -> Option<Self> {
        let (text, mac) = sealed.split_once('.')?;
        let right = tokens::signature(secret, &format!("oidc.{}.{text}", Self::KIND));
        if right.is_empty() || !tokens::same(mac.as_bytes(), right.as_bytes()) {
            return None;
        }
        let opened: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (now < opened.until()).then_some(opened)
    }
}

impl Carried for Begun {
    const KIND: &'static str = "browser";

    fn until(&self) -> Timestamp {
        self.until
    }
}

impl Carried for Device {
    const KIND: &'static str = "device";

    fn until(&self) -> Timestamp {
        self.until
    }
}

impl Begun {
    /// `random` makes state, nonce and verifier: 256 bits each.
    pub(crate) fn new(random: [[u8; 32]; 3], to: String, now: Timestamp) -> Self {
        let [state, nonce, verifier] = random.map(|bits| URL_SAFE_NO_PAD.encode(bits));
        Self { state, nonce, verifier, to, until: now + LASTS }
    }

    /// What the provider compares the verifier with.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest_bytes(self.verifier.as_bytes()))
    }
}

/// The cookie as it is set. It comes back with the navigation from the provider, which is why it is `Lax`.
pub(crate) fn cookie(sealed: &str, path: &str, secure: bool, lasts: Span) -> String {
    let seconds = lasts.as_micros() / 1_000_000;
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={sealed}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
}

/// The cookie as it comes back.
pub(crate) fn carried(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// Whether a text is a path of this scheduler, and cannot be taken for an address of another one.
pub(crate) fn local_path(text: &str) -> bool {
    let harmless = |byte: u8| byte.is_ascii_graphic() && !b"\\\"'<>".contains(&byte);
    text.len() <= MAX_PATH && text.starts_with('/') && !text.starts_with("//") && text.bytes().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn begun() -> Begun {
        Begun::new([[1; 32], [2; 32], [3; 32]], "/docs".to_owned(), NOW)
    }

    #[test]
    fn what_is_carried_cannot_be_made_or_changed_or_kept() {
        let (ours, theirs) = (Secret::new("ours"), Secret::new("theirs"));
        let sealed = begun().seal(&ours).unwrap();
        assert_eq!(Begun::open(&ours, &sealed, NOW), Some(begun()));
        assert_eq!(Begun::open(&theirs, &sealed, NOW), None);
        assert_eq!(Begun::open(&ours, &sealed, NOW + LASTS), None, "too late");
        let (text, mac) = sealed.split_once('.').unwrap();
        let other = Begun { to: "//evil.example".to_owned(), ..begun() };
        let other = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&other).unwrap());
        for forged in [format!("{other}.{mac}"), format!("{text}."), text.to_owned(), String::new()] {
            assert_eq!(Begun::open(&ours, &forged, NOW), None, "{forged}");
        }
        let device = Device { code: "c".to_owned(), until: NOW + LASTS };
        let sealed = device.seal(&ours).unwrap();
        assert_eq!(Device::open(&ours, &sealed, NOW), Some(device));
        assert_eq!(Begun::open(&ours, &sealed, NOW), None, "of another kind");
    }

    #[test]
    fn the_challenge_is_that_of_the_specification() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let begun = Begun { verifier, ..begun() };
        assert_eq!(begun.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let made = self::begun();
        assert!(made.state != made.nonce && made.nonce != made.verifier && made.verifier.len() == 43);
    }

    #[test]
    fn the_cookie_comes_back_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(carried(&headers), None);
        headers.append(COOKIE, "a=b; muster_session=x".parse().unwrap());
        headers.append(COOKIE, "muster_oidc=abc.def".parse().unwrap());
        assert_eq!(carried(&headers), Some("abc.def"));
        let set = cookie("v", "/auth/oidc", true, LASTS);
        assert!(set.contains("HttpOnly; SameSite=Lax; Max-Age=600; Secure"), "{set}");
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        for fine in ["/", "/docs", "/jobs?status=done#x", "/a/../b", "/a//b"] {
            assert!(local_path(fine), "{fine}");
        }
        let long = format!("/{}", "x".repeat(MAX_PATH));
        for wrong in [
            "",
            "docs",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\tb",
            "/a\"b",
            "/a<",
            &long,
        ] {
            assert!(!local_path(wrong), "{wrong}");
        }
    }
}
