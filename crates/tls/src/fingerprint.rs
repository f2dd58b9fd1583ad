//! The name of a certificate that cannot be forged: its SHA-256.
//!
//! Guarantee: what is read is written again in one form, `sha256:` and 64 hexadecimal digits in lower case.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const PREFIX: &str = "sha256:";
const BYTES: usize = 32;

/// The SHA-256 of a certificate in DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; BYTES]);

/// A text that is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFingerprint {
    text: String,
}

impl fmt::Display for InvalidFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no fingerprint: write {PREFIX} and the 64 hexadecimal digits of the SHA-256 of the certificate",
            self.text
        )
    }
}

impl std::error::Error for InvalidFingerprint {}

impl Fingerprint {
    /// Takes the SHA-256 of a certificate.
    pub const fn from_sha256(digest: [u8; BYTES]) -> Self {
        Self(digest)
    }

    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Upper case and the colons that openssl writes between the bytes are understood.
impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let wrong = || InvalidFingerprint { text: text.chars().take(100).collect() };
        let (scheme, digits) = text.trim().split_at_checked(PREFIX.len()).ok_or_else(wrong)?;
        if !scheme.eq_ignore_ascii_case(PREFIX) {
            return Err(wrong());
        }
        let nibbles: Option<Vec<u32>> =
            digits.chars().filter(|letter| *letter != ':').map(|letter| letter.to_digit(16)).collect();
        let nibbles = nibbles.filter(|nibbles| nibbles.len() == 2 * BYTES).ok_or_else(wrong)?;
        let mut digest = [0; BYTES];
        for (byte, pair) in digest.iter_mut().zip(nibbles.chunks(2)) {
            *byte = (pair[0] * 16 + pair[1]) as u8;
        }
        Ok(Self(digest))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_in_all_forms_and_written_in_one() {
        let fingerprint =
            Fingerprint::from_sha256(std::array::from_fn(|index| (index as u8).wrapping_mul(17)));
        let text = fingerprint.to_string();
        assert_eq!((text.len(), &text[..7]), (71, "sha256:"));
        assert_eq!(text.parse(), Ok(fingerprint));
        assert_eq!(text.to_uppercase().parse(), Ok(fingerprint));
        let bytes: Vec<String> = fingerprint.as_bytes().iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(format!("SHA256:{}", bytes.join(":")).parse(), Ok(fingerprint));
        let json = serde_json::to_string(&fingerprint).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
    }

    #[test]
    fn anything_else_is_refused_with_how_to_write_it() {
        let short = format!("sha256:{}", "a".repeat(63));
        let long = format!("sha256:{}", "a".repeat(65));
        let bare = "a".repeat(64);
        let odd = format!("sha256:{}g", "a".repeat(63));
        for wrong in ["", "sha256:", "sha1:aa", "ä", &short, &long, &bare, &odd] {
            let error = wrong.parse::<Fingerprint>().expect_err(wrong).to_string();
            assert!(error.contains("sha256:") && error.contains("64"), "{error}");
        }
    }
}
