//! What callers show: how it is made, recognised and kept.
//!
//! Guarantees: 256 random bits each; a prefix that tells what it is for and that scanners of secrets find; a checksum, so that
//! a typing error is told from a wrong one. Only the digest is ever stored.

use muster_domain::Bearer;
use sha2::{Digest as _, Sha256};

const RANDOM: usize = 64;
const CHECK: usize = 8;

/// A fresh credential: what its holder shows, and what is stored of it.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) shown: String,
    pub(crate) digest: String,
}

/// Why a text is no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is not a credential of Muster, which begins with mst_, mss_, msj_ or msw_")]
    Foreign,
    #[error("it is mistyped or incomplete: its checksum does not fit")]
    Mistyped,
}

const PREFIXES: [&str; 4] = ["mst_", "mss_", "msj_", "msw_"];

const fn prefix(bearer: &Bearer) -> &'static str {
    match bearer {
        Bearer::Token { .. } => "mst_",
        Bearer::Session { .. } => "mss_",
        Bearer::Join { .. } => "msj_",
        Bearer::Worker { .. } => "msw_",
    }
}

/// Makes one of random bytes.
pub(crate) fn make(bearer: &Bearer, random: [u8; 32]) -> Fresh {
    let bits = hex(&random);
    let shown = format!("{}{bits}{}", prefix(bearer), checksum(&bits));
    let digest = digest(&shown);
    Fresh { shown, digest }
}

/// The digest of what a caller shows.
pub(crate) fn read(text: &str) -> Result<String, Unreadable> {
    let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) else {
        return Err(Unreadable::Foreign);
    };
    let (Some(bits), Some(check)) = (rest.get(..RANDOM), rest.get(RANDOM..)) else {
        return Err(Unreadable::Mistyped);
    };
    if check != checksum(bits) {
        return Err(Unreadable::Mistyped);
    }
    Ok(digest(text))
}

fn checksum(bits: &str) -> String {
    let mut check = hex(&Sha256::digest(bits.as_bytes()));
    check.truncate(CHECK);
    check
}

fn digest(shown: &str) -> String {
    hex(&digest_bytes(shown.as_bytes()))
}

/// The SHA-256 of bytes.
pub(crate) fn digest_bytes(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    // Each request that shows a credential comes by here: formatting byte by byte would cost more than the digest.
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_domain::LoginMethod;

    use super::*;

    #[test]
    fn a_typing_error_is_told_from_a_wrong_token() {
        let fresh = make(&Bearer::Session { user: "ann".to_owned(), method: LoginMethod::Password }, [7; 32]);
        assert!(fresh.shown.starts_with("mss_") && fresh.shown.len() == 4 + RANDOM + CHECK);
        assert_eq!(read(&fresh.shown), Ok(fresh.digest));
        assert!(!fresh.shown.contains(&digest(&fresh.shown)));
        let mut mistyped = fresh.shown.clone();
        mistyped.replace_range(10..11, if &mistyped[10..11] == "0" { "1" } else { "0" });
        assert_eq!(read(&mistyped), Err(Unreadable::Mistyped));
        for incomplete in [&fresh.shown[..40], "mst_", "mst_ä"] {
            assert_eq!(read(incomplete), Err(Unreadable::Mistyped), "{incomplete}");
        }
        for foreign in ["", "ghp_abc", "mj1.x"] {
            assert_eq!(read(foreign), Err(Unreadable::Foreign), "{foreign}");
        }
    }
}
